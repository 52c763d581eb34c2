"""Weights that are too low on average: one rule and one note, wherever a policy is judged."""

import numpy as np
import pytest

import piwo
from piwo.evaluation.low_weights import far_below, low_weight_notes, low_weight_text
from piwo.intervals.weight_sums import FAR, weight_z
from piwo.reductions import MomentState

ACTIONS = ["a", "b", "c"]
SHARES = np.array([0.5, 0.3, 0.2])
SAID = "or the logged propensities are too large; either way the estimate is too low"


def log_of(rows: int, factor: float, seed: int = 0) -> piwo.Log:
    """Actions drawn with SHARES, logged with so many times these propensities."""
    rng = np.random.default_rng(seed)
    taken = rng.choice(3, rows, p=SHARES)
    return piwo.Log.from_arrays(
        action=np.array(ACTIONS)[taken],
        reward=(rng.random(rows) < 0.4) * 1.0,
        propensity=factor * SHARES[taken],
        context=rng.normal(size=(rows, 1)),
        actions=ACTIONS,
        logger="fixed",
    )


def noted(notes) -> list[str]:
    return [str(one) for one in notes if SAID in str(one)]


def test_the_rule_by_hand() -> None:
    # 100 weights, half 0.4 and half 0.8: mean 0.6, s = 0.2 / 10, z = -20.
    assert far_below(0.6, -20.0, 100)
    # Never logged: 0.32 of the policy, so that 0.08 = 4 s is left, which is not more than 4 s.
    assert far_below(0.6, -20.0, 100, 0.31)
    assert not far_below(0.6, -20.0, 100, 0.33)
    assert not far_below(0.93, -3.5, 100)
    assert not far_below(1.2, 10.0, 100)
    # Equal weights have no spread; one row shows none.
    assert far_below(0.5, None, 2)
    assert not far_below(0.5, None, 1)
    assert not far_below(1.0, None, 9)
    assert FAR == 4.0


def test_one_note_wherever_a_policy_is_judged() -> None:
    log, uniform = log_of(1500, 1.6), piwo.policies.Uniform(ACTIONS)
    made = piwo.evaluate(log, uniform)
    (said,) = noted(made.notes)
    assert said.startswith(low_weight_text(made.mean_weight))
    look = piwo.Monitor(uniform).update(log).look()
    assert noted(look.notes) == [said]
    certificate = piwo.certify(log, {0: uniform})[0]
    assert noted(certificate.notes) == [said]
    watch = piwo.Watch.start({"uniform": uniform}).update(log)
    assert noted(watch.notes)
    (finding,) = [one for one in piwo.check(log, uniform).findings if SAID in one.text]
    assert finding.kind == "policy-not-in-log"
    assert finding.text.startswith(low_weight_text(made.mean_weight, " of the uniform policy"))
    learner = piwo.PIWO(piwo.IX(0.1), piwo.oracles.Ridge()).fit(log)
    assert noted(learner.certificate_.notes)
    assert piwo.decide(made).caveats[0].kind == "propensity-mismatch"


def test_actions_that_were_never_logged_explain_themselves() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400, actions=ACTIONS
    )
    made = piwo.evaluate(log, piwo.policies.Uniform(ACTIONS))
    assert made.mean_weight == pytest.approx(2 / 3)
    assert not noted(made.notes)
    assert [one.kind for one in made.notes].count("never-logged") == 1


def test_propensities_with_a_declared_error_have_no_note() -> None:
    log = log_of(1500, 1.6).with_propensity_error(1.5)
    uniform = piwo.policies.Uniform(ACTIONS)
    assert not noted(piwo.evaluate(log, uniform).notes)
    # by action as little as of the policy
    assert [one.kind for one in piwo.check(log, uniform).findings] == ["propensity-error"]
    with pytest.warns(piwo.PiwoWarning, match="allowed to be larger"):
        monitor = piwo.Monitor(uniform).update(log)
    assert not noted(monitor.look().notes)


def test_thinned_logs_have_no_note() -> None:
    # the same rows, each kept with probability 1/3: their mean weight is as low
    sums = MomentState(rows=100, logged=100, total=100.0, w=60.0, w2=40.0)
    assert [one.kind for one in low_weight_notes(sums)] == ["propensity-mismatch"]
    thinned = MomentState(rows=100, logged=100, total=300.0, w=180.0, w2=360.0, s2=900.0)
    assert low_weight_notes(thinned) == ()


@pytest.mark.parametrize(("deviation", "least", "most"), [(1.0, 0.0, 0.005), (2.0, 0.01, 0.08)])
def test_weights_that_are_seldom_large_are_low_by_chance_more_often(
    deviation: float, least: float, most: float
) -> None:
    rng, alarms, logs, rows = np.random.default_rng(0), 0, 2000, 400
    for _ in range(logs):
        # of mean 1
        weights = np.exp(deviation * rng.standard_normal(rows) - deviation**2 / 2.0)
        z = weight_z(weights.sum(), (weights**2).sum(), rows)
        alarms += far_below(weights.mean(), z, rows)
    assert least <= alarms / logs <= most


def test_right_propensities_are_left_alone() -> None:
    """Weights here are alike: chance moves their mean by four standard errors very seldom."""
    uniform, alarms = piwo.policies.Uniform(ACTIONS), 0
    for seed in range(300):
        alarms += bool(noted(piwo.evaluate(log_of(400, 1.0, seed), uniform).notes))
    assert alarms == 0
    assert all(noted(piwo.evaluate(log_of(400, 1.3, seed), uniform).notes) for seed in range(20))
