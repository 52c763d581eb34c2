"""The note on an estimate outside its interval, wherever there are both."""

import numpy as np

import piwo
from piwo.evaluation.notes import outside_notes


def kinds(one) -> list[str]:
    return [note.kind for note in one.notes]


def test_either_side_and_the_ends_themselves() -> None:
    assert [note.kind for note in outside_notes(0.9, 0.1, 0.8)] == ["outside"]
    assert [note.kind for note in outside_notes(0.0, 0.1, 0.8)] == ["outside"]
    assert outside_notes(0.1, 0.1, 0.8) == outside_notes(None, 0.1, 0.8) == ()
    (rough,) = outside_notes(0.9, 0.1, 0.8, "snips", finite=False)
    assert "believe neither" in rough


def test_evaluate_compare_certify_and_monitors_say_it() -> None:
    # One row of a large weight and reward 1: the estimate is above every possible value.
    log = piwo.Log.from_arrays(
        action=["a"] + ["b"] * 199,
        reward=np.ones(200),
        propensity=[0.004] + [0.996] * 199,
        actions=["a", "b"],
    )
    policy = piwo.policies.Constant("a", log.actions)
    for interval in ("auto", "mixture", "normal"):
        one = piwo.evaluate(log, policy, interval=interval)
        assert one.value > one.upper
        assert "outside" in kinds(one), interval
        assert "outside" in kinds(piwo.compare(log, {"a": policy}, interval=interval)["a"])
    look = piwo.Monitor(policy).update(log).look()
    assert look.value > look.upper
    assert "outside" in kinds(look)


def test_a_certificate_says_that_the_estimate_is_below_its_bound() -> None:
    # Action a was taken in 30 % of the rows at a propensity of .33: its weights are too few.
    rows = 400
    log = piwo.Log.from_arrays(
        action=np.where(np.arange(rows) % 10 < 3, "a", "b"),
        reward=np.ones(rows),
        propensities=np.tile([0.33, 0.67], (rows, 1)),
        actions=["a", "b"],
    )
    policies = {"a": piwo.policies.Constant("a", log.actions)}
    made = piwo.certify(log, policies, interval="mixture-cv")["a"]
    assert made.value < made.value_lower
    assert "outside" in kinds(made)
    plain = piwo.certify(log, policies, interval="mixture")["a"]
    assert plain.value > plain.value_lower
    assert "outside" not in kinds(plain)
