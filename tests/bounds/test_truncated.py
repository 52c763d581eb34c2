"""The upper end from truncated weights: numbers by hand, a naive twin, its level, what it gains."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from scipy.special import logsumexp

import piwo
from piwo import bounds
from piwo.bounds.truncated import useful_bets
from piwo.errors import UsageError
from piwo.intervals.control_variate import TRUNCATED_SHARE
from piwo.policies import Constant, RowWise, Tabular, Uniform
from piwo.reductions import ControlVariates, reduce
from piwo.reductions.bets import CAPPED_BETS, CAPS, THETA
from piwo.simulate import Bandit, adversarial_bandits

Floats = npt.NDArray[np.float64]
MU, PI = np.array([0.8, 0.15, 0.05]), np.array([0.2, 0.3, 0.5])


def sums_of(mu: Floats, pi: Floats, action: npt.NDArray[Any], reward: Floats) -> Floats:
    """The sums of log(1 + lambda Y), cap by cap."""
    t = np.arange(len(action))
    w = pi[t, action] / mu[t, action]
    found = []
    for cap, bet in zip(CAPS, CAPPED_BETS, strict=True):
        mass = np.minimum(pi, cap * mu).sum(axis=1)
        found.append(np.log1p(bet * (mass - np.minimum(w, cap) * reward)).sum())
    return np.array(found)


def known() -> tuple[npt.NDArray[np.int64], Floats]:
    """480, 90 and 30 rows of three actions, 5, 2 and 0 of them with a reward."""
    action = np.repeat([0, 1, 2], [480, 90, 30])
    reward = np.zeros(600)
    reward[[*range(5), 480, 481]] = 1.0
    return action, reward


def test_numbers_by_hand() -> None:
    action, reward = known()
    log = piwo.Log.from_arrays(
        action=action, reward=reward, propensities=np.tile(MU, (600, 1)), actions=range(3)
    )
    sums = reduce(log, ControlVariates(Tabular(PI, log.actions))).truncated
    # of c = .5: 593 log(1 + 1.6 * .3) + 5 log(1 + 1.6 (.3 - .25)) + 2 log(1 + 1.6 (.3 - .5))
    by_hand = 593 * math.log(1.48) + 5 * math.log(1.08) + 2 * math.log(0.68)
    assert sums[0] == pytest.approx(by_hand, rel=1e-12)
    expected = [232.09443830, 163.89441029, 126.57422832, 77.52843790, 51.18518023, 29.01405063]
    assert sums[:6] == pytest.approx(expected, abs=1e-8)
    assert sums[6:9] == pytest.approx([14.68496558, 7.38805343, 3.70555952], abs=1e-8)
    assert bounds.truncated_upper(sums, 600, math.log(20)) == pytest.approx(0.1765576969, abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_sums_are_those_of_one_row_after_the_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, many = 700, [2, 3, 9, 40][seed]
    mu = random.dirichlet(np.full(many, 0.1), n).clip(1e-300)
    pi = random.dirichlet(np.full(many, 0.2), n)
    pi[::5] = np.eye(many)[random.integers(0, many, len(pi[::5]))]
    # pi = 2^j mu, on the edge of two cells
    mu[::7], pi[::7] = 0.0, 0.0
    mu[::7, :2], pi[::7, :2] = [0.125, 0.875], [0.5, 0.5]
    mu /= mu.sum(axis=1, keepdims=True)
    action = np.array([random.choice(many, p=row) for row in mu])
    reward = np.where(random.random(n) < 0.5, random.random(n), random.integers(0, 2, n))
    log = piwo.Log.from_arrays(action=action, reward=reward, propensities=mu, actions=range(many))
    policy = RowWise(pi, log.actions)
    sums = reduce(log, ControlVariates(policy)).truncated
    np.testing.assert_allclose(sums, sums_of(mu, pi, action, reward), rtol=1e-11)
    # rows of a unit count a part
    table = pa.table(
        {
            "action": np.repeat(action, 2),
            "reward": np.repeat(reward, 2),
            "mu": list(np.repeat(mu, 2, axis=0)),
            "unit": np.repeat(np.arange(n), 2),
        }
    )
    twice = piwo.read(
        table,
        action="action",
        reward="reward",
        propensities="mu",
        unit="unit",
        actions=range(many),
    )
    policy = RowWise(np.repeat(pi, 2, axis=0), log.actions)
    np.testing.assert_allclose(reduce(twice, ControlVariates(policy)).truncated, sums, rtol=1e-11)


def test_the_method_reports_the_smaller_of_two_upper_ends() -> None:
    """Clicks of one action of fifty on a uniform logger: the losses alone need far more rows."""
    random = np.random.default_rng(2)
    n, many = 40_000, 50
    action = random.integers(0, many, n)
    reward = (random.random(n) < 0.01) * 1.0
    log = piwo.Log.from_arrays(
        action=action,
        reward=reward,
        propensities=np.full((n, many), 1 / many),
        actions=range(many),
    )
    policy = Constant(3, log.actions)
    one = piwo.evaluate(log, policy, interval="mixture-cv")
    sums = reduce(log, ControlVariates(policy)).truncated
    # a twentieth of delta/2
    penalty = -math.log(0.025 * TRUNCATED_SHARE)
    assert one.upper == pytest.approx(bounds.truncated_upper(sums, n, penalty), rel=1e-12)
    assert one.upper < 0.05
    plain = piwo.evaluate(log, policy, interval="mixture")
    assert plain.upper is not None
    assert plain.upper > 0.09


def test_other_upper_ends_pay_little() -> None:
    """At (1 - TRUNCATED_SHARE) delta a bound is about one percent wider."""
    random = np.random.default_rng(3)
    n = 3000
    action = random.integers(0, 2, n)
    log = piwo.Log.from_arrays(
        action=action,
        reward=(random.random(n) < 0.5) * 1.0,
        propensities=np.full((n, 2), 0.5),
        actions=range(2),
    )
    one = piwo.evaluate(log, Constant(0, log.actions), interval="mixture-cv")
    assert one.upper is not None
    assert one.lower is not None
    assert one.value is not None
    assert one.upper - one.value < 1.08 * (one.value - one.lower)


def test_nothing_is_known_without_rows_and_declared_sizes_are_wider() -> None:
    assert bounds.truncated_upper(np.zeros(48), 0, 3.0) == 1.0
    action, reward = known()
    sums = sums_of(np.tile(MU, (600, 1)), np.tile(PI, (600, 1)), action, reward)
    now, planned, always = (
        bounds.truncated_upper(sums, 600, 3.0, horizon=x) for x in (None, 6000, "universal")
    )
    assert now < planned < always < 0.3
    assert bounds.truncated_upper(sums, 600, 3.0, horizon=600) == now


def test_sums_of_another_shape_are_refused() -> None:
    for wrong in (np.zeros(47), np.full(48, np.nan)):
        with pytest.raises(UsageError, match="bet_sums"):
            bounds.truncated_upper(wrong, 5, 3.0)


def test_rewards_without_an_upper_end_have_no_such_sums() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1],
        reward=[3, 9],
        propensities=np.full((2, 2), 0.5),
        actions=range(2),
        reward_range=(0, math.inf),
    )
    state = reduce(log, ControlVariates(Uniform(log.actions), bounded=False))
    assert not state.truncated.any()
    assert piwo.evaluate(log, Uniform(log.actions), interval="mixture-cv").upper is None


def one_row(bandit: Bandit, cell: int) -> Floats:
    """Log factors of one row of a bandit, at each cap."""
    kinds = bandit.cells
    mu, pi = np.asarray(bandit.mu)[None], np.asarray(bandit.pi)[None]
    return sums_of(mu, pi, kinds.action[[cell]], kinds.reward[[cell]])


@pytest.mark.statistics
@pytest.mark.parametrize("n", [5, 100, 1000, 5000])
def test_level(n: int) -> None:
    """The value itself is refuted in at most a share delta of 20,000 logs, on bandits that hurt."""
    logs = 20_000
    size = {delta: useful_bets(THETA, n, -math.log(delta), None) for delta in (0.025, 0.2)}
    for bandit in adversarial_bandits():
        kinds = bandit.cells
        if np.exp(kinds.log_propensity).min() < 1e-300:
            continue
        factors = np.stack([one_row(bandit, cell) for cell in range(len(kinds.chance))])
        sums = bandit.counts(n, logs, n).astype(float) @ factors
        log_wealth = sums - n * np.log1p(CAPPED_BETS * (1.0 - bandit.value))
        for delta, m in size.items():
            refuted = logsumexp(log_wealth[:, :m], axis=1) - math.log(m) > -math.log(delta)
            error = 3 * math.sqrt(delta * (1 - delta) / logs)
            assert refuted.mean() <= delta + error, bandit.name
            # the bound is below the value in just these logs
            for i in range(0, logs, 2000):
                below = bounds.truncated_upper(sums[i], n, -math.log(delta)) < bandit.value - 1e-12
                assert bool(below) == bool(refuted[i]), bandit.name
