"""Certificates that must not be given: rows against their propensities, policies made from the
logged actions."""

import numpy as np
import pytest

import piwo
from piwo import UsageError
from piwo.oracles import Exhaustive
from piwo.policies import Constant, Logging, Uniform

pytestmark = pytest.mark.statistics


def too_small(factor: float) -> piwo.Log:
    """A log of three actions, a third each, whose propensities are logged too small."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, 900)
    reward = rng.random(900) < 0.2 + 0.5 * (action == 1)
    return piwo.Log.from_arrays(
        action=np.array(["a", "b", "c"])[action],
        reward=reward * 1.0,
        propensity=np.full(900, factor / 3),
        actions=["a", "b", "c"],
        context=rng.normal(size=(900, 1)),
    )


def learners(actions: piwo.Actions) -> list:
    each = [Uniform(actions), *(Constant(label, actions) for label in actions)]
    return [
        piwo.PIWOGrid(oracle=Exhaustive(each)),
        piwo.PIWO(piwo.IX(0.1), Exhaustive(each), certificate="in-sample"),
        piwo.PACBayes(each),
        piwo.Auto([piwo.oracles.Ridge()], refit=False),
    ]


@pytest.mark.parametrize("which", range(4))
def test_rows_that_contradict_their_propensities_certify_nothing(which: int) -> None:
    good, bad = too_small(1.0), too_small(0.3)
    assert learners(good.actions)[which].fit(good).certificate_.certified
    made = learners(bad.actions)[which].fit(bad).certificate_
    assert not made.certified
    assert made.propensity_p < 1e-3
    assert any("too small" in note for note in made.notes)


def test_what_one_candidate_says_against_the_rows_all_have_heard() -> None:
    log = too_small(0.3)
    found = piwo.certify(log, {"uniform": Uniform(log.actions), "logging": Logging()})
    assert [one.propensity_p < 1e-3 for one in found.values()] == [True, True]


def test_no_in_sample_bound_for_policies_made_from_the_logged_actions() -> None:
    rng = np.random.default_rng(1)
    log = piwo.Log.from_arrays(
        action=rng.integers(0, 3000, 1000),
        reward=rng.random(1000) < 0.1,
        propensity=np.full(1000, 1 / 3000),
    )
    uniform = Uniform(log.actions)
    both = Exhaustive([uniform, Logging()])
    refused = pytest.raises(UsageError, match="were logged only once")
    with refused:
        piwo.certify(log, {0: uniform}, within=both)
    with refused:
        piwo.PIWOGrid(oracle=both).fit(log)
    with refused:
        piwo.PACBayes([uniform, Logging()]).fit(log)
    with refused:
        piwo.regret_certificate(log, uniform, {"logging": Logging()})
    with refused:
        piwo.evaluation.coverage(log, uniform, gamma=0.01)


def test_selection_takes_what_was_compared_together() -> None:
    log = too_small(1.0)
    alone = {x: piwo.evaluate(log, Constant(x, log.actions)) for x in log.actions}
    with pytest.raises(UsageError, match="were not made together"):
        piwo.Selection.of(alone)


@pytest.mark.parametrize(
    "call",
    [piwo.check, lambda log: piwo.evaluate(log, Uniform(["a"])), lambda log: piwo.certify(log, {})],
)
def test_a_log_is_asked_for(call) -> None:
    with pytest.raises(UsageError, match=r"expected a piwo\.Log"):
        call({"a": [1]})


def test_delta_that_is_no_number_is_told() -> None:
    log = too_small(1.0)
    with pytest.raises(UsageError, match="delta is 'x'"):
        piwo.PIWOGrid(oracle=Exhaustive([Uniform(log.actions)]), delta="x").fit(log)


def test_monitors_of_different_policies_do_not_merge() -> None:
    log = too_small(1.0)
    a, b = (
        piwo.Monitor(Constant(x, log.actions), horizon=1000, name="new").update(log) for x in "ab"
    )
    with pytest.raises(UsageError, match="different policies"):
        a.merge(b)
