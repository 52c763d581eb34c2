"""Control variates: values by hand, a naive twin, exact means on bandits that hurt, and the wrong
truncation."""

from typing import Any

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.intervals.control_variate import GAIN_SHIFTS, GAIN_WEIGHTS, SHIFTS, WEIGHTS
from piwo.logs import Batch
from piwo.reductions import BETS, ControlVariates, VariateState, bet_sums
from piwo.reductions.control_variate import BASELINES, GAIN_BASELINES
from piwo.simulate import Bandit, adversarial_bandits

BANDITS = adversarial_bandits()
every_bandit = pytest.mark.parametrize("bandit", BANDITS, ids=lambda bandit: bandit.name)


def one_row(bandit: Bandit, cell: int) -> VariateState:
    """Return the state of one row, as the bandit's log would hold it."""
    kinds = bandit.cells
    batch = Batch(
        0,
        kinds.action[[cell]].astype(np.int32),
        kinds.reward[[cell]],
        np.exp(kinds.log_propensity[[cell]]),
        log_propensity=kinds.log_propensity[[cell]],
        propensities=bandit.mu[None],
    )
    reduction = ControlVariates(bandit.policy)
    return reduction.update(reduction.empty(), batch)


def bet_on(sums: Any) -> Any:
    """Return the Y that one row bet: at the bet of size 1, log(1 + Y) was summed."""
    with np.errstate(over="ignore"):
        return np.expm1(sums[..., 5])


def pooled(bandit: Bandit, logs: int, n: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return v, and the lower, upper and improvement bounds of many logs at delta = .1 each."""
    kinds = bandit.cells
    states = [one_row(bandit, cell) for cell in range(len(kinds.chance))]
    r, penalty = kinds.reward, np.log(10.0)
    with np.errstate(divide="ignore"):
        log_w = np.log(np.asarray(bandit.pi)[kinds.action]) - kinds.log_propensity
        log_won, log_lost, log_missed = log_w + np.log(r), log_w + np.log(1 - r), np.log(1 - r)
    counts = bandit.counts(n, logs, seed).astype(float)

    def sums(name: str, log_y: Any) -> Any:
        plain = np.logaddexp(0.0, np.log(BETS) + log_y[:, None])[:, None, :]
        return np.einsum(
            "lc,cqj->lqj",
            counts,
            np.concatenate([plain, [getattr(x, name) for x in states]], axis=1),
        )

    better = sums("improvement", np.logaddexp(log_won, log_missed))
    low = bounds.pooled_lower_many(sums("value", log_won), SHIFTS, WEIGHTS, n, penalty)
    high = 1 - bounds.pooled_lower_many(sums("loss", log_lost), SHIFTS, WEIGHTS, n, penalty)
    gain = bounds.pooled_lower_many(better, GAIN_SHIFTS, GAIN_WEIGHTS, n, penalty) - 1
    return bandit.value, low, high, gain


def test_values_by_hand() -> None:
    """pi = (.8, .2), mu = (.4, .6), A = 0, R = 1: w = 2; c = .5, k = 1: b = min(.5, .5), (.5); c
    = 1: b = .5, 1."""
    log = piwo.Log.from_arrays(action=[0], reward=[1], propensities=[[0.4, 0.6]], actions=[0, 1])
    state = piwo.reductions.reduce(
        log, ControlVariates(piwo.policies.Tabular([0.8, 0.2], log.actions))
    )
    found = dict(zip(BASELINES, bet_on(state.value), strict=True))
    # phi + k = 2 (1 - .5) + (.8 * .5 + .2 * .5) + 1; and 2 (1 - .5) + (.8 * .5 + .2 * 1) + 1
    assert found[0.5, 1.0] == pytest.approx(2.5, rel=1e-12)
    assert found[1.0, 1.0] == pytest.approx(2.6, rel=1e-12)
    # the weight 2 is cut nowhere at k = 4: 2 (1 - 1) + 1 + 4
    assert found[1.0, 4.0] == pytest.approx(5.0, rel=1e-12)
    # (1 - w)_+ = 0, TV = .4: w R + 1 - R - TV
    assert bet_on(state.improvement)[0] == pytest.approx(1.6, rel=1e-12)


def test_against_the_naive_formulas() -> None:
    rng = np.random.default_rng(3)
    n, many = 700, 6
    mu, pi = rng.dirichlet(np.full(many, 0.3), n), rng.dirichlet(np.full(many, 0.3), n)
    mu[:, 5] = np.where(rng.random(n) < 0.5, 0.0, mu[:, 5])
    mu /= mu.sum(axis=1, keepdims=True)
    pi[::3] = np.eye(many)[rng.integers(0, many, len(pi[::3]))]
    action = np.array([rng.choice(many, p=row) for row in mu])
    reward = np.where(rng.random(n) < 0.5, rng.random(n), rng.integers(0, 2, n))
    log = piwo.Log.from_arrays(action=action, reward=reward, propensities=mu, actions=range(many))
    state = piwo.reductions.reduce(log, ControlVariates(piwo.policies.RowWise(pi, log.actions)))
    t = np.arange(n)
    w = pi[t, action] / mu[t, action]
    for i, (c, k) in enumerate(BASELINES):
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.where(mu > 0, np.minimum(c, k * mu / np.where(pi > 0, pi, 1e-300)), 0.0)
        phi = w * (reward - b[t, action]) + (pi * b).sum(axis=1)
        lost = w * (1 - reward - b[t, action]) + (pi * b).sum(axis=1)
        assert min(phi.min(), lost.min()) + k > -1e-12
        np.testing.assert_allclose(state.value[i], bet_sums(np.maximum(phi + k, 0)), rtol=1e-11)
        np.testing.assert_allclose(state.loss[i], bet_sums(np.maximum(lost + k, 0)), rtol=1e-11)
        if i in GAIN_BASELINES:
            at = 1 + GAIN_BASELINES.index(i)
            np.testing.assert_allclose(
                state.improvement[at], bet_sums(phi + k + 1 - reward), rtol=1e-11
            )
    gain = (
        np.maximum(pi - mu, 0)[t, action] * reward
        + np.maximum(mu - pi, 0)[t, action] * (1 - reward)
    ) / mu[t, action]
    shifted = gain + 1 - np.maximum(mu - pi, 0).sum(axis=1)
    np.testing.assert_allclose(state.improvement[0], bet_sums(shifted), rtol=1e-11)


@every_bandit
def test_the_mean_is_the_value_exactly(bandit: Bandit) -> None:
    """Sum over all rows that a log can hold; what is never logged, or less often than float64
    knows, is missing."""
    kinds = bandit.cells
    seen = bandit.mu > 0
    pi = np.asarray(bandit.pi)
    earns = bandit.high * np.asarray(bandit.chance)
    found = [one_row(bandit, cell) for cell in np.flatnonzero(kinds.chance > 0)]
    chance = kinds.chance[kinds.chance > 0]
    shifts = np.array([k for _, k in BASELINES])
    value = chance @ np.array([bet_on(x.value) for x in found]) - shifts
    loss = chance @ np.array([bet_on(x.loss) for x in found]) - shifts
    np.testing.assert_allclose(value, (pi * earns)[seen].sum(), atol=1e-9)
    np.testing.assert_allclose(loss, (pi * (1 - earns))[seen].sum(), atol=1e-9)
    gain = chance @ np.array([bet_on(x.improvement) for x in found]) - 1
    expected = (pi * earns)[seen].sum() - bandit.logging_value
    np.testing.assert_allclose(
        gain - np.array([0, *shifts[list(GAIN_BASELINES)]]), expected, atol=1e-9
    )


@every_bandit
def test_bounds_are_wrong_no_more_often_than_they_say(bandit: Bandit) -> None:
    """Each at delta = .1, 300 logs of 500 rows: at most delta and three standard errors."""
    value, low, high, gain = pooled(bandit, 300, 500, seed=4)
    most = 0.1 + 3 * np.sqrt(0.1 * 0.9 / 300)
    assert (low > value).mean() <= most
    assert (high < value).mean() <= most
    assert (gain > value - bandit.logging_value).mean() <= most


def test_truncation_by_the_logged_weight_is_wrong() -> None:
    """Cutting every action by the weight of the logged one, as some do, gives the mean 1.16 where
    v is .45."""
    mu, pi, r, c, k = np.array([0.1, 0.9]), np.array([0.9, 0.1]), np.array([0.45, 0.45]), 1.0, 1.0
    w = pi / mu
    wrong = sum(mu[a] * (w[a] * (r[a] - min(c, k / w[a])) + min(c, k / w[a])) for a in (0, 1))
    right = sum(
        mu[a] * (w[a] * (r[a] - min(c, k / w[a])) + np.minimum(c * pi, k * mu).sum())
        for a in (0, 1)
    )
    assert right == pytest.approx(0.45, abs=1e-12)
    assert wrong == pytest.approx(1.161, abs=0.001)
    bandit = Bandit("steep", tuple(np.log(mu)), tuple(pi), tuple(r))
    states = [one_row(bandit, cell) for cell in range(4)]
    mean = bandit.cells.chance @ np.array([bet_on(x.value) for x in states])
    assert mean[BASELINES.index((c, k))] - k == pytest.approx(right, abs=1e-12)


def test_a_propensity_of_1e_300_changes_nothing_but_its_own_row() -> None:
    bandit = BANDITS[1]
    assert bandit.name == "underflowing propensity"
    lost = int(np.flatnonzero((bandit.cells.action == 1) & (bandit.cells.reward == 0))[0])
    state = one_row(bandit, lost)
    # w is no float64, R = 0: Y = 0 - k + sum_a min(c pi, k mu) + k
    expected = [np.minimum(c * np.array(bandit.pi), k * bandit.mu).sum() for c, k in BASELINES]
    np.testing.assert_allclose(bet_on(state.value), expected, rtol=1e-12)
