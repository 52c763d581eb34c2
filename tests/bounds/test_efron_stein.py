"""The Efron-Stein bound: by hand, against the definition of its moments, and on logs of known
value."""

import itertools
import math

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.efron_stein import EfronSteinSums
from piwo.policies import RowWise
from piwo.reductions import reduce


def make_log(mu: np.ndarray, chance: np.ndarray, seed: int) -> piwo.Log:
    rng = np.random.default_rng(seed)
    n, k = mu.shape
    action = (rng.random(n)[:, None] > np.cumsum(mu, axis=1)).sum(axis=1).clip(0, k - 1)
    reward = (rng.random(n) < chance[np.arange(n), action]) * 1.0
    return piwo.Log.from_arrays(action=action, reward=reward, propensities=mu, actions=range(k))


def test_by_hand() -> None:
    # x = 3 + log 3 = 4.098612, e = sqrt(.008 (4.098612 + .346574)) = .188578, h = sqrt(.002049306)
    # = .045269
    found = bounds.efron_stein_interval(0.5, 1000.0, 0.002, 0.002, 1.25, n=1000, log_inv_delta=3.0)
    assert found.lower == pytest.approx(0.8 * (0.5 - 0.188578) - 0.045269, abs=1e-6)
    assert found.upper == pytest.approx(1 - 0.8 * (0.5 - 0.188578) + 0.045269, abs=1e-6)


def test_the_moments_are_expectations_over_all_that_the_logger_could_have_done() -> None:
    rng = np.random.default_rng(1)
    n, k = 5, 2
    mu, pi = rng.dirichlet([1.0] * k, n), rng.dirichlet([1.0] * k, n)
    pi[0] = [0.0, 1.0]
    log = make_log(mu, np.full((n, k), 0.5), 2)
    (batch,) = log.each_batch()
    w, taken = pi / mu, batch.action
    logged = w[np.arange(n), taken]

    def expect(function, rows):  # type: ignore[no-untyped-def]
        total = 0.0
        for actions in itertools.product(range(k), repeat=len(rows)):
            chance = math.prod(mu[i, a] for i, a in zip(rows, actions, strict=True))
            total += chance * function([w[i, a] for i, a in zip(rows, actions, strict=True)])
        return total

    def share(part: float, others: float) -> float:
        return 0.0 if part == 0.0 else (part / (part + others)) ** 2

    changes = sum(
        expect(lambda rest, i=i: share(logged[i], logged[:i].sum() + sum(rest)), range(i + 1, n))
        + expect(lambda rest, i=i: share(rest[0], logged[:i].sum() + sum(rest[1:])), range(i, n))
        for i in range(n)
    )
    expected = 2 * expect(lambda drawn: sum(share(x, sum(drawn) - x) for x in drawn), range(n))
    least = [w[i][w[i] > 0].min() for i in range(n)]
    left_out = [
        expect(lambda rest, i=i: 1 / (least[i] + sum(rest)), [j for j in range(n) if j != i])
        for i in range(n)
    ]
    found = reduce(log, EfronSteinSums(RowWise(pi, log.actions))).moments()
    assert found is not None
    assert found.changes == pytest.approx(changes, rel=1e-7)
    assert found.expected_changes == pytest.approx(expected, rel=1e-7)
    # the largest integrand at every point, not the largest integral: never less, hardly more
    assert n * max(left_out) <= found.inflation * (1 + 1e-7) <= 1.1 * n * max(left_out)


def test_the_row_itself_must_be_left_out_of_the_inflation() -> None:
    """With n E 1/Z in place of it, the mean of the estimate can be further above the value than B
    allows."""
    mu, pi, reward = np.array([0.5, 0.5]), np.array([0.1, 0.9]), np.array([1.0, 0.0])
    w = pi / mu
    mean, value = mu @ reward, pi @ reward  # one row: the estimate is the reward itself
    assert mean / (mu @ (1 / w)) > value
    assert mean / (1 / w.min()) <= value


def test_a_row_moves_the_estimate_by_no_more_than_its_larger_share() -> None:
    """|S - S'| <= max(p, q), whose square is at most p^2 + q^2: the estimate without the row lies
    between."""
    rng = np.random.default_rng(4)
    for _ in range(2000):
        w, r = rng.exponential(1.0, 4) * (rng.random(4) < 0.7), rng.random(4)
        other_w, other_r = w.copy(), r.copy()
        other_w[0], other_r[0] = rng.exponential(1.0) * (rng.random() < 0.7), rng.random()
        z, other_z = w.sum(), other_w.sum()
        s = w @ r / z if z else 0.0
        other_s = other_w @ other_r / other_z if other_z else 0.0
        p, q = (w[0] / z if z else 0.0), (other_w[0] / other_z if other_z else 0.0)
        assert abs(s - other_s) <= max(p, q) + 1e-12


def test_the_estimate_exceeds_the_value_by_no_more_than_the_inflation() -> None:
    """Rewards go to the actions of small weight, where self-normalizing favors them most. E S is
    over all logs."""
    rng, above = np.random.default_rng(3), 0
    for _ in range(20):
        n, k = 4, 2
        mu, pi = rng.dirichlet([3.0] * k, n), rng.dirichlet([3.0] * k, n)
        w, rows = pi / mu, np.arange(n)
        pays = w == w.min(axis=1, keepdims=True)
        logs = np.array(list(itertools.product(range(k), repeat=n)))
        drawn = w[rows, logs]
        mean = float(
            mu[rows, logs].prod(axis=1)
            @ ((drawn * pays[rows, logs]).sum(axis=1) / drawn.sum(axis=1))
        )
        value = float((pi * pays).sum(axis=1).mean())
        log = make_log(mu, pays * 1.0, 0)
        moments = reduce(log, EfronSteinSums(RowWise(pi, log.actions))).moments()
        assert moments is not None
        above += mean > value
        assert mean <= value * max(1.0, moments.inflation) * (1 + 1e-7)
    assert above >= 18  # without the inflation it would not hold


@pytest.mark.parametrize("kind", ["on-policy", "near the logger", "against the weights"])
def test_violations_are_rarer_than_delta(kind: str) -> None:
    """Logs that hold an answer: both ends are inside (0, 1). The bound is wide; a twelfth of it
    would be too narrow.

    Where all weights are 1, V + U = 4/n: half the width is some 13 standard errors of the mean of a
    coin.
    """
    n, logs, delta = 400, 60, 0.1
    mu = np.tile([0.5, 0.5], (n, 1))
    pi = mu if kind == "on-policy" else np.tile([0.6, 0.4], (n, 1))
    chance = np.tile([0.2, 0.8] if kind == "against the weights" else [0.5, 0.5], (n, 1))
    value, wrong, missed = float((pi * chance).sum(axis=1).mean()), 0, 0
    for seed in range(logs):
        log = make_log(mu, chance, seed)
        found = piwo.evaluate(log, RowWise(pi, log.actions), interval="eslb", delta=delta)
        assert found.lower_raw is not None
        assert found.upper_raw is not None
        assert 0.0 < found.lower_raw < found.upper_raw < 1.0
        wrong += not found.lower_raw <= value <= found.upper_raw
        middle, half = (
            (found.lower_raw + found.upper_raw) / 2,
            (found.upper_raw - found.lower_raw) / 2,
        )
        missed += abs(value - middle) > half / 12
    assert wrong / logs <= delta < missed / logs


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_policy_that_was_hardly_ever_seen_is_not_called_worthless(reward: float) -> None:
    """n mu = .01, so that 99 logs of 100 have no row of weight: a value of 1 must stay possible,
    and one of 0."""
    n, mu, delta = 100, np.array([1e-4, 1.0 - 1e-4]), 0.05
    sums, wrong = EfronSteinSums(piwo.policies.Constant(0, [0, 1])), 0
    for action in (np.random.default_rng(5).random((60, n)) > mu[0]) * 1:
        log = piwo.Log.from_arrays(
            action=action,
            reward=np.full(n, reward),
            propensities=np.tile(mu, (n, 1)),
            actions=[0, 1],
        )
        w = (action == 0) / mu[0]
        moments = reduce(log, sums).moments()
        assert moments is not None
        found = bounds.efron_stein_interval(
            reward if w.any() else 0.0,
            float(w.sum()),
            moments.changes,
            moments.expected_changes,
            moments.inflation,
            n,
            math.log(1 / delta),
        )
        assert found.lower is not None
        assert found.upper is not None
        wrong += not found.lower <= reward <= found.upper
    assert wrong == 0


def test_it_becomes_narrower_with_rows() -> None:
    widths = []
    for n in (50, 500, 5000):
        log = make_log(np.full((n, 2), 0.5), np.full((n, 2), 0.5), 1)
        found = piwo.evaluate(log, piwo.policies.Constant(0, log.actions), interval="eslb")
        widths.append(found.upper_raw - found.lower_raw)  # type: ignore[operator]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_weights_beyond_its_sums_say_nothing() -> None:
    mu = np.tile([1e-200, 1.0], (20, 1))
    log = piwo.Log.from_arrays(
        action=[0] + [1] * 19, reward=[1.0] * 20, propensities=mu, actions=[0, 1]
    )
    found = piwo.evaluate(log, piwo.policies.Constant(0, log.actions), interval="eslb")
    assert (found.lower, found.upper) == (0.0, 1.0) or found.guarantee == "none"
    never = piwo.Log.from_arrays(
        action=[1] * 9, reward=[1.0] * 9, propensities=[[0.0, 1.0]] * 9, actions=[0, 1]
    )
    found = piwo.evaluate(never, piwo.policies.Constant(0, never.actions), interval="eslb")
    assert (found.lower, found.upper) == (0.0, 1.0)


def test_what_it_needs() -> None:
    log = piwo.Log.from_arrays(action=[0, 1], reward=[1, 0], propensity=[0.5, 0.5])
    with pytest.raises(UsageError, match="propensity of the logged action only"):
        piwo.evaluate(log, piwo.policies.Uniform(log.actions), interval="eslb")
    full = piwo.Log.from_arrays(
        action=[0, 1],
        reward=[1, 0],
        propensities=[[0.5, 0.5]] * 2,
        actions=[0, 1],
        reward_range=(0, math.inf),
    )
    with pytest.raises(UsageError, match="upper end"):
        piwo.evaluate(full, piwo.policies.Uniform(full.actions), interval="eslb")
    full = piwo.Log.from_arrays(
        action=[0, 1], reward=[1, 0], propensities=[[0.5, 0.5]] * 2, actions=[0, 1]
    )
    with pytest.raises(UsageError, match="horizon"):
        piwo.evaluate(full, piwo.policies.Uniform(full.actions), interval="eslb", horizon=100)
