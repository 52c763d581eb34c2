"""The note on an estimate outside its interval, wherever there are both."""

from dataclasses import replace

import numpy as np

import piwo
from piwo.evaluation.notes import loss_notes, outside_notes
from piwo.messages import Note
from piwo.report.forest import segments_forest


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


def test_a_lower_end_that_is_a_loss_says_what_the_rows_do_not_show() -> None:
    wide, ends = (-40.0, 120.0), (4.1, -5.7, 14.0)
    (note,) = loss_notes(ends, 3.8, wide)
    assert (note.kind, "-5.7" in note, "3.8" in note, "-40" in note) == ("lower-end", *[True] * 3)
    assert loss_notes((4.1, -5.7, None), 3.8, wide) == (note,)
    assert loss_notes(ends, 3.8, wide, (-0.1, 0.1)) == (note,)
    # Losses that cannot be, that are excluded, and that today makes, too.
    assert loss_notes(ends, 3.8, (0.0, 120.0)) == loss_notes((4.1, 0.0, 14.0), 3.8, wide) == ()
    assert loss_notes(ends, -1.0, wide) == loss_notes((4.1, None, 14.0), 3.8, wide) == ()
    assert loss_notes((None, -5.7, 14.0), 3.8, wide) == ()


def test_no_such_note_where_the_bounds_say_something() -> None:
    wide = (-40.0, 120.0)
    # Certified better, certified worse, and an upper end below what the logging policy earned.
    assert loss_notes((4.1, -5.7, 14.0), 3.8, wide, (0.1, None)) == ()
    assert loss_notes((4.1, -5.7, 14.0), 3.8, wide, (-9.0, -0.22)) == ()
    assert loss_notes((2.1, -7.57, 3.7), 3.8, wide) == ()
    # Near the estimate, up to a fifth of the way to the lowest reward: here 2 of 10.
    assert loss_notes((-0.01, -0.031, None), 3.94, (-1.0, 9.0)) == ()
    assert loss_notes((1.0, -0.99, None), 3.8, (-9.0, 9.0)) == ()
    assert len(loss_notes((1.0, -1.01, None), 3.8, (-9.0, 9.0))) == 1


def test_a_policy_that_is_proved_to_lose_has_no_such_note() -> None:
    rng = np.random.default_rng(0)
    rare = rng.random(4000) < 0.2
    log = piwo.Log.from_arrays(
        action=np.where(rare, "y", "x"),
        reward=np.where(rare, -6.0, 2.6) + rng.normal(size=4000),
        propensity=np.where(rare, 0.2, 0.8),
        actions=["x", "y"],
        reward_range=(-40, 120),
        segments={"half": ["a", "b"] * 2000},
    )
    policy = piwo.policies.Constant("y", log.actions)
    one = piwo.evaluate(log, policy, by="half")
    assert one.lower < one.value < 0 < one.logging_value
    for made in (one, *one.segments, piwo.certify(log, {"y": policy})["y"]):
        assert "lower-end" not in kinds(made)
    assert "lower-end" not in kinds(piwo.Monitor(policy).update(log).look())


def test_a_segment_that_proves_something_has_not_too_few_rows() -> None:
    weak = Note("few rows", kind="effective-sample")
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 50,
        reward=[1, 0] * 50,
        propensity=[0.5] * 100,
        segments={"half": ["x", "y"] * 50},
    )
    policy = piwo.policies.Constant("a", log.actions)
    (first, _) = piwo.evaluate(log, policy, by="half").segments
    open_one = replace(
        first, upper=9.0, improvement_lower=-1.0, improvement_upper=1.0, notes=(weak,)
    )
    made = [
        open_one,
        replace(open_one, improvement_upper=-0.2),
        replace(open_one, improvement_lower=0.2),
        replace(open_one, upper=first.logging_value - 0.1),
    ]
    said = ["too few" in row.note for row in segments_forest(made, piwo.Units()).rows]
    assert said == [True, False, False, False]


def test_evaluate_certify_and_monitors_say_the_same_of_a_loss() -> None:
    rng = np.random.default_rng(0)
    action = (rng.random(400) < 0.3) * 1
    reward = np.where(rng.random(400) < 0.1, 30.0, 0.0)
    columns = {"action": action, "reward": reward, "propensity": np.where(action == 1, 0.3, 0.7)}
    log = piwo.Log.from_arrays(**columns, actions=[0, 1], reward_range=(-40, 120))
    policy = piwo.policies.Constant(1, log.actions)
    one = piwo.evaluate(log, policy)
    assert one.lower < 0 < one.logging_value
    ends = (one.value, one.lower, one.upper)
    (note,) = loss_notes(ends, one.logging_value, one.reward_range)
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
    assert "the ix estimate at gamma = 0.5 lies outside the interval" in str(path)
