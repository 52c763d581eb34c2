"""Propensities that may be too small: weights from the largest that the true ones may be."""

from typing import Any

import numpy as np
import pytest

import piwo
from benchmarks.statistics.propensity_error import VALUE, evaluated, noticed, warned, wrong
from piwo.logs import Batch, PropensityErrorBound


def test_the_largest_propensity_by_hand() -> None:
    p = np.array([0.1, 0.5, 0.9])
    assert PropensityErrorBound(factor=1.5).upper(p) == pytest.approx([0.15, 0.75, 1.0])
    # odds 1/9, 1, 9 doubled are 2/9, 2, 18
    assert PropensityErrorBound(sensitivity=2.0).upper(p) == pytest.approx([2 / 11, 2 / 3, 18 / 19])
    # the formula of the sensitivity model: 1/mu = 1 + (1/p - 1)/Gamma
    assert 1 / PropensityErrorBound(sensitivity=3.0).upper(p) == pytest.approx(1 + (1 / p - 1) / 3)
    both = PropensityErrorBound(factor=1.5, sensitivity=2.0)
    assert both.upper(p) == pytest.approx(
        PropensityErrorBound(sensitivity=2.0).upper(np.minimum(1.0, 1.5 * p))
    )


def test_logarithms_say_the_same_and_reach_further() -> None:
    p = np.array([1e-12, 0.1, 0.5, 0.9, 1.0])
    for doubt in (
        PropensityErrorBound(1.7),
        PropensityErrorBound(1.0, 4.0),
        PropensityErrorBound(1.2, 2.5),
    ):
        assert np.exp(doubt.upper_log(np.log(p))) == pytest.approx(doubt.upper(p), rel=1e-12)
    assert PropensityErrorBound(2.0, 3.0).upper_log(np.array([-1000.0])) == pytest.approx(
        [-1000 + np.log(6)]
    )


def test_vectors_are_put_away_and_nothing_else_changes() -> None:
    batch = Batch(
        3,
        np.array([1], np.int32),
        np.array([0.5]),
        np.array([0.25]),
        np.log([0.25]),
        np.array([[0.75, 0.25]]),
    )
    assert PropensityErrorBound().applied(batch) is batch
    found = PropensityErrorBound(2.0).applied(batch)
    assert found.propensity.tolist() == [0.5]
    assert found.log_propensity == pytest.approx(np.log([0.5]))
    assert found.propensities is None
    assert (found.start, found.reward.tolist()) == (3, [0.5])


@pytest.mark.parametrize("bad", [0.9, 0.0, -1.0, np.inf, np.nan, True, "2"])
def test_a_factor_below_one_is_refused(bad: object) -> None:
    log = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[0.5])
    with pytest.raises(piwo.UsageError, match="at least 1"):
        piwo.evaluate(log, piwo.policies.Logging(), propensity_factor=bad)  # type: ignore[arg-type]
    with pytest.raises(piwo.UsageError, match="at least 1"):
        piwo.evaluate(log, piwo.policies.Logging(), sensitivity=bad)  # type: ignore[arg-type]


def make_log(error: float = 1.0, **more: object) -> piwo.Log:
    rng = np.random.default_rng(7)
    action = rng.integers(0, 2, 500)
    reward = (rng.random(500) < 0.3 + 0.4 * action) * 1.0
    return piwo.Log.from_arrays(
        action=action, reward=reward, propensity=np.full(500, 0.5 * error), **more
    )  # type: ignore[arg-type]


def test_allowing_for_a_factor_is_the_same_as_logging_it() -> None:
    small, right = make_log(0.8, actions=[0, 1]), make_log(1.0, actions=[0, 1])
    policy = piwo.policies.Constant(1, right.actions)
    allowed = piwo.evaluate(small, policy, propensity_factor=1.25, interval="mixture")
    plain = piwo.evaluate(right, policy, interval="mixture")
    for what in ("value", "lower", "upper", "improvement_lower", "missing_mass_upper"):
        assert getattr(allowed, what) == pytest.approx(getattr(plain, what), rel=1e-12)
    assert any("allowed to be larger" in note for note in allowed.notes)
    assert not plain.notes


def test_what_needs_exact_propensities_is_refused() -> None:
    log = make_log(actions=[0, 1])
    policy = piwo.policies.Constant(1, log.actions)
    q = np.full((500, 2), 0.5)
    with pytest.raises(piwo.UsageError, match="needs exact propensities"):
        piwo.estimators.doubly_robust(log.with_propensity_error(1.1), policy, q)
    assert piwo.estimators.direct_method(log.with_propensity_error(1.1), policy, q).value == 0.5
    exact = piwo.Log.from_arrays(
        action=[0, 1], reward=[0, 1], propensities=np.full((2, 2), 0.5), actions=[0, 1]
    )
    assert exact.gives_full_distribution
    assert not exact.with_propensity_error(1.1).gives_full_distribution
    assert not log.gives_full_distribution


def test_control_variates_give_way_to_plain_bets() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1] * 50, reward=[0, 1] * 50, propensities=np.full((100, 2), 0.5), actions=[0, 1]
    )
    policy = piwo.policies.Constant(1, log.actions)
    assert piwo.evaluate(log, policy).interval == "deadline-cv"
    found = piwo.evaluate(log, policy, propensity_factor=1.1)
    assert found.interval == "deadline"
    assert any("known approximately" in note for note in found.notes)
    with pytest.raises(piwo.UsageError, match="known approximately"):
        piwo.evaluate(log, policy, interval="mixture-cv", sensitivity=1.1)


def test_certificates_learners_and_health_say_it() -> None:
    rng = np.random.default_rng(3)
    x, action = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    log = piwo.Log.from_arrays(
        context=x,
        action=action,
        reward=(action == (x[:, 0] > 0)) * 1.0,
        propensity=np.full(400, 0.4),
    ).with_propensity_error(sensitivity=1.5)
    with pytest.warns(piwo.PiwoWarning, match="odds changed by up to 1.5"):
        learner = piwo.PIWO().fit(log)
    assert learner.certificate_ is not None
    assert "allowed to be larger" in learner.certificate_.notes[0]
    health = piwo.check(log)
    assert any("allowed to be larger" in finding.text for finding in health.findings)
    assert log.split(0.5).test.propensity_error == log.propensity_error


def test_every_learner_and_the_monitor_warn() -> None:
    log = make_log(actions=[0, 1]).with_propensity_error(1.2)
    policies = [piwo.policies.Constant(x, log.actions) for x in (0, 1)]
    exhaustive = piwo.oracles.Exhaustive(policies)
    made = []
    for learner in (piwo.PIWOGrid(oracle=exhaustive), piwo.PACBayes(policies)):
        with pytest.warns(piwo.PiwoWarning, match="allowed to be larger"):
            made.append(learner.fit(log).certificate_)
    assert all("allowed to be larger" in certificate.notes[0] for certificate in made)
    with pytest.warns(piwo.PiwoWarning, match="allowed to be larger"):
        piwo.Monitor(policies[1]).update(log)


def test_factors_multiply() -> None:
    doubt = make_log().with_propensity_error(1.5).with_propensity_error(2.0, 3.0).propensity_error
    assert doubt is not None
    assert (doubt.factor, doubt.sensitivity) == (3.0, 3.0)


def test_propensities_a_fifth_too_small_break_the_bound_and_warn() -> None:
    found = [evaluated(0.8, 1.0, seed) for seed in range(40)]
    assert np.mean([one.lower_raw is not None and one.lower_raw > VALUE for one in found]) > 0.8
    assert all(warned(one) for one in found)


@pytest.mark.parametrize(("error", "allowed"), [(1.25, 1.0), (0.8, 1.25)])
def test_too_large_ones_and_those_allowed_for_do_not(error: float, allowed: float) -> None:
    found = [evaluated(error, allowed, seed) for seed in range(40)]
    assert all(one.lower is not None and one.lower <= VALUE for one in found)
    assert not any(warned(one) for one in found)


def test_a_hidden_cause_within_its_sensitivity_keeps_the_bounds() -> None:
    """A cause U that nobody logged moves both the odds of the action and the reward; the log
    knows the average."""
    gamma, base, n = 2.0, 0.5, 2000
    # U is a fair coin; odds of `a` are doubled or halved by it, and the average over U is 1/2
    high, low = gamma / (1 + gamma), 1 / (1 + gamma)
    truth, outside = 0.5, []  # reward of `a` is U, so always playing `a` earns 1/2
    for seed in range(25):
        rng = np.random.default_rng(seed)
        hidden = rng.random(n) < 0.5
        plays = rng.random(n) < np.where(hidden, high, low)
        log = piwo.Log.from_arrays(
            action=np.where(plays, "a", "b"),
            reward=(hidden & plays) * 1.0,
            propensity=np.full(n, base),
            actions=["a", "b"],
        )
        policy = piwo.policies.Constant("a", log.actions)
        plain = piwo.evaluate(log, policy, interval="mixture")
        safe = piwo.evaluate(log, policy, interval="mixture", sensitivity=gamma)
        assert safe.lower is not None
        assert safe.lower <= truth
        outside.append(plain.lower is not None and plain.lower > truth)
    assert np.mean(outside) > 0.9  # the log alone says 2/3


@pytest.mark.statistics
def test_an_error_in_the_window_breaks_intervals_and_check_notices_it() -> None:
    """Docs/statistics.md: a twentieth too small, 10,000 rows, rewards of 0.9."""
    case: dict[str, Any] = {"n": 10_000, "value": 0.9}
    found = [evaluated(0.95, 1.0, seed, **case) for seed in range(40)]
    assert 0.1 < np.mean([wrong(one, 0.9) for one in found]) < 0.45
    assert all(noticed(0.95, seed, **case) for seed in range(10))
    assert not any(noticed(1.0, seed, **case) for seed in range(10))
    allowed = [evaluated(0.95, 1.06, seed, **case) for seed in range(40)]
    assert not any(wrong(one, 0.9) for one in allowed)
