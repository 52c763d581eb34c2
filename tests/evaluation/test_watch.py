"""A watch certifies no policy on rows that contradict their propensities."""

import numpy as np
import pytest

import piwo


def test_rows_that_contradict_one_policy_certify_none() -> None:
    rng = np.random.default_rng(0)
    b = rng.random(4000) < 0.3
    log = piwo.Log.from_arrays(
        action=np.where(b, "b", "a"),
        reward=np.where(b, 0.1, 0.9),
        propensity=np.where(b, 0.1, 0.7),
        actions=["a", "b"],
        logger="fixed",
    )
    watch = piwo.Watch.start(
        {x: piwo.policies.Constant(x, log.actions) for x in "ab"}, deadline=10**6
    )
    found = watch.update(log)
    assert (found.answer, found.certified) == ("stop", ())
    alone = piwo.Watch.start(
        {"a": piwo.policies.Constant("a", log.actions)}, deadline=10**6
    ).update(log)
    assert alone.certified == ("a",)  # its own weights do not show it


def test_looks_that_are_not_kept_move_no_deadline_and_lose_no_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("piwo.evaluation.watch._MOST_LOOKS", 3)
    rng = np.random.default_rng(0)
    watch = piwo.Watch.start({"a": piwo.policies.Constant("a", ["a", "b"])}, deadline="5d")
    for day in range(1, 7):
        log = piwo.Log.from_arrays(
            action=rng.choice(["a", "b"], 10), reward=rng.random(10), propensity=[0.5] * 10
        )
        watch = watch.update(log, date=f"2026-11-0{day}", all_new=True)
    assert [one.date for one in watch.looks] == ["2026-11-01", "2026-11-05", "2026-11-06"]
    assert watch.history.last.rows == 60
    # five days after the first look, not after the oldest of the last ones
    assert str(watch.history.end) == "2026-11-06"
    assert watch.over
