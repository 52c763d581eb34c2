"""Selection among many candidates: by hand, against its parts, and by simulation on bandits with
known values."""

import math
from dataclasses import replace

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.errors import UsageError
from piwo.reductions.bets import BETS, bet_sums
from piwo.simulate import Bandit

ALIKE = Bandit(
    "thirty arms", (-math.log(30),) * 30, (1 / 30,) * 30, (0.7,) * 4 + (0.3,) * 4 + (0.5,) * 22
)


def a_log(n=100, **roles):
    return piwo.Log.from_arrays(
        action=["a", "b"] * n,
        reward=[1, 0] * n,
        propensity=[0.5] * 2 * n,
        actions=["a", "b"],
        **roles,
    )


def candidates(log):
    return {x: piwo.policies.Constant(x, log.actions) for x in log.actions} | {
        "even": piwo.policies.Uniform(log.actions)
    }


def test_parts():
    log = a_log()
    found = piwo.select(log, candidates(log), threshold=0.6, rate=0.1, interval="mixture")
    compared = piwo.compare(log, candidates(log), interval="mixture")
    assert found.best == "a"
    assert found.best_lower == compared["a"].lower
    assert found.certified == ("a",)
    # log e of the mean 1 of Y = 2 (R = 1, a) and 1 (R = 0, b): 100 rows of each
    by_hand = np.logaddexp.reduce(
        100 * np.log1p(2 * BETS) + 100 * np.log1p(BETS) - 200 * np.log1p(BETS)
    ) - math.log(48)
    assert found.evaluations["a"].log_e_better == pytest.approx(by_hand, rel=1e-12)
    above = bounds.log_e_value(bet_sums([2.0, 0.0] * 100), 200, 0.6)
    assert found.evaluations["a"].log_e_above == pytest.approx(above, rel=1e-12)
    assert found.better == found.above == ("a",)
    assert found.to_dict()["better"] == ["a"]
    assert "evaluations" not in found.to_dict()
    assert "above 0.6, at a false discovery rate of 10 %: a" in str(found)


def test_threshold_is_in_the_unit_of_the_reward():
    plain = piwo.select(a_log(), candidates(a_log()), threshold=0.6).evaluations["a"]
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 100,
        reward=[9, -1] * 100,
        propensity=[0.5] * 200,
        actions=["a", "b"],
        reward_range=(-1, 9),
    )
    scaled = piwo.select(log, candidates(log), threshold=5.0).evaluations["a"]
    assert scaled.log_e_above == pytest.approx(plain.log_e_above, rel=1e-12)
    assert scaled.log_e_better == pytest.approx(plain.log_e_better, rel=1e-12)


def test_nothing_is_selected_on_propensities_that_the_rows_contradict():
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 1000, reward=[1, 0] * 1000, propensity=[0.2] * 2000, actions=["a", "b"]
    )
    found = piwo.select(log, candidates(log), threshold=0.5)
    assert (found.best, found.certified, found.better, found.above) == (None, (), (), ())


def test_refuses():
    log = a_log()
    with pytest.raises(UsageError, match="asymptotic"):
        piwo.select(log, candidates(log), interval="normal")
    with pytest.raises(UsageError, match="threshold is -1"):
        piwo.select(log, candidates(log), threshold=-1)
    with pytest.raises(UsageError, match="thinned"):
        piwo.select(a_log(weight=[1.0] * 200), candidates(log))


@pytest.mark.parametrize("horizon", [10_000, "universal"])
def test_horizon_is_that_of_the_bounds(horizon):
    log = a_log()
    found = piwo.compare(log, candidates(log), horizon=horizon)["a"]
    share = bounds.log_inv_delta(0.05, statements=6)
    assert found.lower == pytest.approx(
        bounds.lower(bet_sums([2.0, 0.0] * 100), 200, share, horizon=horizon)
    )
    assert found.horizon == horizon
    assert found.lower < piwo.compare(log, candidates(log))["a"].lower
    made = piwo.certify(log, {"a": candidates(log)["a"]}, horizon=horizon)["a"]
    gain = bounds.improvement_lower(
        bet_sums([2.0, 1.0] * 100), 200, bounds.log_inv_delta(0.05), horizon=horizon
    )
    assert made.improvement_lower == pytest.approx(gain)
    assert piwo.Certificate.from_dict(made.to_dict()).horizon == horizon


def test_gamma_of_a_horizon_follows_the_horizon():
    log, policy = a_log(), candidates(a_log())["a"]
    found = piwo.evaluate(log, policy, estimator="ix", interval="ix", horizon=10_000)
    assert found.gamma == pytest.approx(bounds.gamma_auto(10_000, 0.0, 0.05))
    with pytest.raises(UsageError, match="gamma is 'auto'"):
        piwo.evaluate(log, policy, estimator="ix", interval="ix", horizon="universal")
    with pytest.raises(UsageError, match="normal intervals"):
        piwo.evaluate(log, policy, interval="normal", horizon=10_000)


def test_a_horizon_is_a_number_or_universal():
    with pytest.raises(UsageError, match="horizon is 'hourly'"):
        piwo.evaluate(a_log(), candidates(a_log())["a"], horizon="hourly")


def test_false_discoveries_and_the_best_of_thirty():
    """Four of thirty arms are better than the logger and mostly found; 22 are as good and seldom
    among those found."""
    n, logs, rate = 9000, 150, 0.1
    arms = [replace(ALIKE, pi=tuple(float(a == arm) for a in range(30))) for arm in range(30)]
    counts = ALIKE.counts(n, logs, random_state=3)
    cells = ALIKE.cells
    better = np.array([arm.value > arm.logging_value + 1e-9 for arm in arms])
    assert better.sum() == 4
    log_e, lower = np.empty((logs, 30)), np.empty((logs, 30))
    share = bounds.log_inv_delta(rate, statements=60)
    for i, arm in enumerate(arms):
        w = np.asarray(arm.pi)[cells.action] / np.exp(cells.log_propensity)
        value, gain = (
            counts @ np.log1p(np.outer(y, BETS))
            for y in (w * cells.reward, w * cells.reward + 1 - cells.reward)
        )
        lower[:, i] = bounds.lower_many(value, n, share)
        log_e[:, i] = [bounds.log_e_value(row, n, 1.0) for row in gain]
    found = np.stack([bounds.e_bh(row, rate) for row in log_e])
    assert found[:, better].mean() > 0.5
    wrong = (found & ~better).sum(axis=1) / np.maximum(found.sum(axis=1), 1)
    assert wrong.mean() <= rate + 3 * math.sqrt(rate / logs)
    best = lower.argmax(axis=1)
    values = np.array([arm.value for arm in arms])
    assert np.mean(lower.max(axis=1) > values[best]) <= rate + 3 * math.sqrt(rate / logs)
    # one of these logs through the front door
    log = ALIKE.log_of(np.repeat(np.arange(len(cells.chance)), counts[0]))
    made = piwo.select(
        log, {str(i): piwo.policies.Constant(i, ALIKE.actions) for i in range(30)}, rate=rate
    )
    assert made.better == tuple(str(i) for i in np.flatnonzero(found[0]))
