"""A watch certifies no policy on rows that contradict their propensities."""

from pathlib import Path

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


def test_a_file_of_vowpal_wabbit_with_other_rows_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text("1:-1:0.5 | x\n2:0:0.5 | x\n" * 30)
    watch = piwo.Watch.start({"a": piwo.policies.Constant(1, [1, 2])}, deadline="5d")
    watch = watch.update(piwo.read(path), date="2026-11-01")
    path.write_text("1:0:0.5 | x\n2:-1:0.5 | x\n" * 30)
    with pytest.raises(piwo.errors.UsageError, match="was counted before"):
        watch.update(piwo.read(path), date="2026-11-02")
