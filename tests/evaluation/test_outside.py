"""The note on an estimate outside its interval, wherever there are both."""

import numpy as np

import piwo
from piwo.evaluation.notes import loss_notes, outside_notes


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


def test_a_lower_end_that_is_a_loss_says_that_nothing_useful_is_proved() -> None:
    wide = (-40.0, 120.0)
    (note,) = loss_notes(-5.7, 3.8, wide)
    assert (note.kind, "-5.7" in note, "3.8" in note, "-40" in note) == ("lower-end", *[True] * 3)
    # Losses that cannot be, that are excluded, that today makes, too, and a certified policy.
    assert loss_notes(-5.7, 3.8, (0.0, 120.0)) == loss_notes(0.0, 3.8, wide) == ()
    assert loss_notes(-5.7, -1.0, wide) == loss_notes(None, 3.8, wide) == ()
    assert loss_notes(-5.7, 3.8, wide, 0.1) == ()
    assert loss_notes(-5.7, 3.8, wide, -0.1) == (note,)


def test_evaluate_certify_and_monitors_say_the_same_of_a_loss() -> None:
    rng = np.random.default_rng(0)
    action = (rng.random(400) < 0.3) * 1
    reward = np.where(rng.random(400) < 0.1, 30.0, 0.0)
    columns = {"action": action, "reward": reward, "propensity": np.where(action == 1, 0.3, 0.7)}
    log = piwo.Log.from_arrays(**columns, actions=[0, 1], reward_range=(-40, 120))
    policy = piwo.policies.Constant(1, log.actions)
    one = piwo.evaluate(log, policy)
    assert one.lower < 0 < one.logging_value
    (note,) = loss_notes(one.lower, one.logging_value, one.reward_range)
    assert note in one.notes
    assert one.to_dict()["notes"].count(str(note)) == 1
    assert str(note) in str(one)
    assert "lower-end" in kinds(piwo.certify(log, {"one": policy})["one"])
    assert "lower-end" in kinds(piwo.Monitor(policy).update(log).look())
    by = {"segments": {"half": ["x", "y"] * 200}}
    parted = piwo.Log.from_arrays(**columns, **by, actions=[0, 1], reward_range=(-40, 120))
    for segment in piwo.evaluate(parted, policy, by="half").segments:
        assert ("lower-end" in kinds(segment)) == (segment.lower < 0 < segment.logging_value)
        assert segment.lower < 0
    narrow = piwo.Log.from_arrays(**columns, actions=[0, 1], reward_range=(0, 120))
    assert "lower-end" not in kinds(piwo.evaluate(narrow, policy))


def test_a_path_over_gamma_says_it_if_any_estimate_is_outside() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100, logger="fixed"
    )
    path = piwo.evaluate(log, piwo.policies.Constant("a", log.actions), gamma=[0.001, 0.5])
    first, last = path.evaluations
    assert first.lower < first.value < first.upper
    assert last.value < last.lower
    assert [note.kind for note in path.notes].count("outside") == 1
    assert "the ix estimate lies outside the interval" in str(path)
