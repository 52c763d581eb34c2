"""What was acknowledged is read, whatever happens to the process or the disk."""

import errno
import gc
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import piwo
from piwo.errors import DataError, FileError, PiwoWarning, UsageError
from piwo.logs.actions import Actions
from piwo.logs.features import Feature, Features
from piwo.policies import Uniform
from piwo.serve import LogWriter, Server
from piwo.serve import log_writer as module

ACTIONS = Actions(["a", "b"])
HOUR = 3_600_000_000
needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="files have no such locks")

WRITES = """
import sys
from piwo.policies import Uniform
from piwo.serve import Server

server = Server(Uniform(["a", "b"]), sys.argv[1], uncertified=True)
server.log.rows_a_file = 7
for i in range(int(sys.argv[2])):
    choice = server.decide()
    print("decision", choice.decision_id, choice.action, flush=True)
    server.reward(choice.decision_id, 1.0)
    print("reward", choice.decision_id, flush=True)
"""


def decision(number: int, time: int = 0, action: str = "a") -> dict[str, Any]:
    return {"decision_id": f"{number}", "time": time, "action": action, "propensity": 0.5}


def reward(number: int, value: float, time: int = 0) -> dict[str, Any]:
    return {"decision_id": f"{number}", "time": time, "reward": value}


def rewards_of(folder: Path) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PiwoWarning)
        (batch,) = piwo.read(folder).each_batch()
    return batch.reward.tolist()


def started(folder: Path, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITES, str(folder), str(count)], stdout=subprocess.PIPE, text=True
    )


def acknowledged(lines: Sequence[str]) -> tuple[set[str], set[str]]:
    """The ids of whole lines that say that a decision, or a reward, was logged."""
    whole = [line.split() for line in lines if line.endswith("\n")]
    return {x[1] for x in whole if x[0] == "decision"}, {x[1] for x in whole if x[0] == "reward"}


def logged(folder: Path) -> tuple[set[str], set[str]]:
    """The ids of the decisions in a folder, and of those with a reward."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PiwoWarning)
        log = piwo.read(folder)
    # A temporary file, which is there as long as the log.
    table = pq.read_table(list(log.source.paths))  # type: ignore[attr-defined]
    ids = table.column("decision_id").to_pylist()
    assert len(ids) == len(set(ids))
    earned = table.column("reward").to_pylist()
    return set(ids), {x for x, r in zip(ids, earned, strict=True) if r == 1.0}


def own_name(piece: str = "decisions") -> str:
    return f"{piece}-20260101T000000-1-0123abcd.jsonl"


@needs_locks
def test_killed_at_any_moment_no_acknowledged_row_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    decided: set[str] = set()
    earned: set[str] = set()
    for lines in (3, 24):
        process = started(folder, 10_000)
        assert process.stdout is not None
        read = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        read += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        for known, new in zip((decided, earned), acknowledged(read), strict=True):
            known |= new
        found, with_reward = logged(folder)
        assert decided <= found
        assert earned <= with_reward
    # The next writer makes Parquet of what they left, and loses nothing either.
    Server(Uniform(["a", "b"]), folder, uncertified=True).close()
    assert not list(folder.glob("*.jsonl"))
    found, with_reward = logged(folder)
    assert decided <= found
    assert earned <= with_reward


def test_two_processes_write_into_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    both = [started(folder, 15) for _ in range(2)]
    known: set[str] = set()
    for process in both:
        out, _ = process.communicate()
        known |= acknowledged(out.splitlines(keepends=True))[0]
    assert len(known) == 30
    found, with_reward = logged(folder)
    assert found == with_reward == known


def test_a_full_disk_is_an_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = os.write, [150]

    def full(handle: int, data: Any) -> int:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = write(handle, bytes(data)[: left[0]])
        left[0] -= count
        return count

    with LogWriter(tmp_path, ACTIONS, Features(())) as log:
        log.decisions([decision(1)])
        monkeypatch.setattr(module.os, "write", full)
        with pytest.raises(FileError, match=r"3 decisions cannot be logged.*No space left"):
            log.decisions([decision(2), decision(3), decision(4)])
        left[0] = 10_000
        log.decisions([decision(5, action="b")])
        log.rewards([reward(1, 0.25), reward(5, 0.5)])
        assert rewards_of(tmp_path) == [0.25, 0.5]
    assert rewards_of(tmp_path) == [0.25, 0.5]


def test_a_failed_sync_is_no_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int, __: int = 0) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log = LogWriter(tmp_path, ACTIONS, Features(()))
    log.decisions([decision(1)])
    with monkeypatch.context() as patch:
        patch.setattr(module, "_fsync", broken)
        with pytest.raises(FileError, match="Input/output error"):
            log.decisions([decision(2)])
        # The file cannot be repaired either: half a row would stay at its end.
        patch.setattr(module.os, "ftruncate", broken)
        with pytest.raises(FileError, match="Input/output error"):
            log.decisions([decision(3)])
    log.decisions([decision(4)])
    log.close()
    assert {"1", "4"} <= logged(tmp_path)[0]


def test_lines_stay_if_parquet_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with LogWriter(tmp_path, ACTIONS, Features(())) as log, monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        log.decisions([decision(1)])
        log.rotate()
        assert log.problem is not None
        assert "No space left" in log.problem
        assert len(list(tmp_path.glob("*.jsonl"))) == 1
        assert rewards_of(tmp_path) == [0.0]
    Server(Uniform(["a", "b"]), tmp_path, uncertified=True).close()
    assert not list(tmp_path.glob("*.jsonl"))
    assert rewards_of(tmp_path) == [0.0]


def test_a_half_written_line_is_not_read(tmp_path: Path) -> None:
    LogWriter(tmp_path, ACTIONS, Features(())).close()
    line = json.dumps(decision(1))
    (tmp_path / "decisions-1.jsonl").write_text(f"{line}\n{line[:9]}", encoding="utf-8")
    assert rewards_of(tmp_path) == [0.0]


def test_a_file_of_lines_with_a_finished_twin_is_not_read_twice(tmp_path: Path) -> None:
    with LogWriter(tmp_path, ACTIONS, Features(())) as log:
        log.decisions([decision(1)])
    (sealed,) = tmp_path.glob("*.parquet")
    lines = sealed.with_suffix(".jsonl")
    lines.write_text(json.dumps(decision(1)) + "\n", encoding="utf-8")
    assert rewards_of(tmp_path) == [0.0]
    LogWriter(tmp_path, ACTIONS, Features(())).close()
    assert lines.exists() == (sys.platform == "win32")


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    LogWriter(tmp_path, ACTIONS, Features(())).close()
    (tmp_path / "decisions-1.jsonl").write_text("{\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"decisions-1.jsonl' holds what piwo.serve did not write"):
        piwo.read(tmp_path)


def test_a_closed_writer_writes_nothing(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, ACTIONS, Features(()), rows_a_file=1)
    log.decisions([decision(1)])
    log.close()
    closed = pytest.raises(UsageError, match="was closed by this writer, and nothing was logged")
    with closed:
        log.decisions([decision(2)])
    with closed:
        log.rewards([reward(1, 1.0)])
    with closed:
        log.rotate()
    log.close()
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_vector_that_is_only_logged_is_checked(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, ACTIONS, Features(()), also={"place": "vector"})
    with Server(Uniform(["a", "b"]), log, uncertified=True) as server:
        server.decide({"place": [1, None, 2.5]})
        for wrong in ("ab", 3, [1.0, float("inf")], ["1"]):
            with pytest.raises(DataError, match="'place' is not a list of finite numbers"):
                server.decide({"place": wrong})


def test_rotation_makes_parquet(tmp_path: Path) -> None:
    with LogWriter(tmp_path, ACTIONS, Features(()), rows_a_file=2) as log:
        for i in range(5):
            log.decisions([decision(i)])
    tables = [pq.read_table(x) for x in sorted(tmp_path.glob("*.parquet"))]
    assert sorted(len(x) for x in tables) == [1, 2, 2]


@pytest.mark.parametrize(
    ("several", "expected"), [("first", 0.25), ("last", 0.125), ("sum", 0.875), ("max", 0.5)]
)
def test_what_several_rewards_mean(tmp_path: Path, several: Any, expected: float) -> None:
    with LogWriter(tmp_path, ACTIONS, Features(()), several=several) as log:
        log.decisions([decision(1)])
        log.rewards([reward(1, 0.5, 2), reward(1, 0.25, 1), reward(1, 0.125, 3), reward(9, 1.0)])
    assert rewards_of(tmp_path) == [expected]


def test_decisions_with_an_open_window_are_left_out(tmp_path: Path) -> None:
    with LogWriter(tmp_path, ACTIONS, Features(()), window=60.0, absent=0.125) as log:
        log.decisions([decision(1), decision(2), decision(3, 4_000_000_000 * 10**6)])
        late = 61_000_000
        log.rewards([reward(1, 1.0, 59_000_000), reward(2, 1.0, late), reward(3, 1.0, HOUR)])
        with pytest.warns(PiwoWarning, match="1 decisions are left out"):
            (batch,) = piwo.read(tmp_path).each_batch()
    assert batch.reward.tolist() == [1.0, 0.125]


def test_without_a_window_missing_rewards_are_said(tmp_path: Path) -> None:
    with LogWriter(tmp_path, ACTIONS, Features(())) as log:
        log.decisions([decision(1)])
        with pytest.warns(PiwoWarning, match="1 decisions have no reward yet and count as 0"):
            piwo.read(tmp_path)


@pytest.mark.parametrize("window", [None, 60.0])
def test_rewards_of_unknown_decisions_are_counted(tmp_path: Path, window: float | None) -> None:
    """One that says to be from later may belong to a decision made since the folder was listed."""
    later = time.time_ns() // 1000 + HOUR
    with LogWriter(tmp_path, ACTIONS, Features(()), window=window) as log:
        log.decisions([decision(1)])
        log.rewards([reward(1, 1.0), reward(8, 1.0), reward(8, 0.5), reward(9, 1.0)])
        log.rewards([reward(7, 1.0, later)])
        with pytest.warns(PiwoWarning) as caught:
            (batch,) = piwo.read(tmp_path).each_batch()
    (only,) = caught
    assert str(only.message) == (
        "3 rewards name no decision of this log and are left out; check that each was sent with "
        "the decision_id of its decision, to the log of that decision"
    )
    assert batch.reward.tolist() == [1.0]


def test_a_log_without_settled_decisions_says_so(tmp_path: Path) -> None:
    with LogWriter(tmp_path, ACTIONS, Features(()), window=60.0) as log:
        with pytest.raises(DataError, match="no rows"):
            piwo.read(tmp_path)
        log.decisions([decision(1, 4_000_000_000 * 10**6)])
        with (
            pytest.warns(PiwoWarning, match="left out"),
            pytest.raises(DataError, match=r"no decision .* is settled"),
        ):
            piwo.read(tmp_path)


def test_what_a_folder_holds_cannot_change(tmp_path: Path) -> None:
    features = Features((Feature("x"), Feature("shop", "levels", ("a",))))
    LogWriter(tmp_path, ACTIONS, features, reward_range=(0.0, 5.0), window=60.0).close()
    again = LogWriter(tmp_path, ACTIONS, features)
    assert again.reward_range == (0.0, 5.0)
    again.close()
    with pytest.raises(UsageError, match=r"window=30.0, but the log .* was made with 60.0"):
        LogWriter(tmp_path, ACTIONS, features, window=30.0)
    with pytest.raises(UsageError, match="log to a new folder"):
        again.check_fits(Actions(["a", "c"]), features)
    with pytest.raises(UsageError, match=r"'shop' \(number\)"):
        again.check_fits(ACTIONS, Features.numeric(["x", "shop"]))


@pytest.mark.parametrize("name", ["reward", "time", "action"])
def test_a_context_column_with_the_name_of_a_role_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="rename it"):
        LogWriter(tmp_path, ACTIONS, Features.numeric([name]))


def test_units_are_logged_as_text(tmp_path: Path) -> None:
    log = LogWriter(tmp_path, ACTIONS, Features.numeric(["x"]), unit="user")
    policy = Uniform(["a", "b"])
    assert log.context_of({"x": 1, "user": 7, "other": "dropped"}) == {"x": 1.0, "user": "7"}
    with pytest.raises(DataError, match="no 'user'"):
        log.context_of({"x": 1})
    log.decisions([{**decision(i), "x": 0.5, "user": f"{i // 2}"} for i in range(4)])
    log.rewards([reward(i, 1.0) for i in range(4)])
    log.close()
    read = piwo.read(tmp_path)
    assert read.columns.unit == "user"
    assert piwo.evaluate(read, policy).value == 1.0


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "piwo-log.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FileError, match=r"piwo-log\.json' is damaged"):
        piwo.read(tmp_path)
    with pytest.raises(FileError, match="is damaged"):
        LogWriter(tmp_path, ACTIONS, Features(()))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileError, match="cannot be written"):
        LogWriter(tmp_path / "file", ACTIONS, Features(()))


def test_given_roles_come_before_those_of_the_folder(tmp_path: Path) -> None:
    with LogWriter(tmp_path, ACTIONS, Features.numeric(["x", "y"])) as log:
        log.decisions([{**decision(1), "x": 1.0, "y": 2.0}])
        log.rewards([reward(1, 1.0)])
    assert piwo.read(tmp_path, context="y", where="x > 0").columns.context == ("y",)


def test_columns_that_the_policy_does_not_look_at_are_logged(tmp_path: Path) -> None:
    also = {"hour": "number", "shop": "text"}
    log = LogWriter(tmp_path, ACTIONS, Features(()), also=also)
    with Server(Uniform(["a", "b"]), log, uncertified=True) as server:
        for hour in (1, 2.5):
            server.reward(server.decide({"hour": hour, "shop": "x"}).decision_id, 1.0)
        for wrong, expected in (
            ("1", "a str, expected a number"),
            (float("inf"), "inf, expected a finite number"),
            ([], "a list, expected a number"),
        ):
            with pytest.raises(DataError, match=f"'hour' is {expected}"):
                server.decide({"hour": wrong, "shop": "x"})
        with pytest.raises(DataError, match="the column 'day', expected hour, shop; leave it out"):
            server.decide({"hour": 1, "shop": "x", "day": 3})
    (batch,) = piwo.read(tmp_path).each_batch(context=True)
    assert batch.context is not None
    assert batch.context.tolist() == [[1.0, 1.0], [2.5, 1.0]]
    with pytest.raises(UsageError, match="also has 'hour': 'time'"):
        LogWriter(tmp_path, ACTIONS, Features(()), also={"hour": "time"})


@needs_locks
def test_files_of_others_and_without_a_whole_row_are_kept(tmp_path: Path) -> None:
    LogWriter(tmp_path, ACTIONS, Features(())).close()
    for name in ("my-notes.jsonl", "decisions-old.jsonl", f"x{own_name()}"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / own_name()).write_text("half a row", encoding="utf-8")
    (tmp_path / own_name("rewards")).write_text("", encoding="utf-8")
    LogWriter(tmp_path, ACTIONS, Features(())).close()
    names = {x.name for x in tmp_path.iterdir()}
    damaged = own_name().replace(".jsonl", ".damaged")
    assert names >= {"my-notes.jsonl", "decisions-old.jsonl", f"x{own_name()}", damaged}
    assert (tmp_path / damaged).read_text("utf-8") == "half a row"
    assert not {own_name(), own_name("rewards")} & names


def test_rows_that_were_refused_are_not_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int, __: int = 0) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log = LogWriter(tmp_path, ACTIONS, Features(()))
    log.decisions([decision(1)])
    with monkeypatch.context() as patch:
        patch.setattr(module, "_fsync", broken)
        patch.setattr(module.os, "ftruncate", broken)
        with pytest.raises(FileError, match="Input/output error"):
            log.decisions([decision(2), decision(3)])
    log.decisions([decision(4)])
    assert logged(tmp_path)[0] == {"1", "4"}
    log.close()
    LogWriter(tmp_path, ACTIONS, Features(())).close()
    assert len(list(tmp_path.glob("decisions-*.parquet"))) == 2 - (sys.platform == "win32")
    assert logged(tmp_path)[0] == {"1", "4"}
    (mark,) = tmp_path.glob("*.acknowledged")
    mark.write_text("x", encoding="utf-8")
    mark.with_suffix(".parquet").unlink()
    mark.with_suffix(".jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"acknowledged' is damaged"):
        piwo.read(tmp_path)


@pytest.mark.parametrize("more", [True, False])
def test_nothing_follows_refused_rows_that_cannot_be_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: bool
) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log = LogWriter(tmp_path, ACTIONS, Features(()))
    log.decisions([decision(1)])
    with monkeypatch.context() as patch:
        patch.setattr(module, "_fsync", broken)
        patch.setattr(module.os, "ftruncate", broken)
        patch.setattr(module, "_create", broken)
        for number in (2, 3):
            with pytest.raises(FileError, match="Input/output error"):
                log.decisions([decision(number)])
    if more:
        log.decisions([decision(4)])
    log.close()
    assert not list(tmp_path.glob("*.jsonl"))
    assert logged(tmp_path)[0] == ({"1", "4"} if more else {"1"})


@pytest.mark.parametrize("column", ["shop", "user"])
def test_text_that_could_not_be_read_again_is_refused(tmp_path: Path, column: str) -> None:
    log = LogWriter(tmp_path, ACTIONS, Features(()), also={"shop": "text"}, unit="user")
    with Server(Uniform(["a", "b"]), log, uncertified=True) as server:
        context = {"shop": "grün", "user": "1"}
        with pytest.raises(DataError, match=rf"'{column}' is not valid text"):
            server.decide({**context, column: "\ud800"})
        server.decide(context)
    assert len(logged(tmp_path)[0]) == 1


def test_names_and_labels_that_could_not_be_read_again_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not valid text"):
        LogWriter(tmp_path, Actions(["a", "\ud800"]), Features(()))
    with pytest.raises(UsageError, match="not valid text"):
        LogWriter(tmp_path, ACTIONS, Features(()), unit="\ud800")
    with pytest.raises(UsageError, match="'Time' has the name of another column"):
        LogWriter(tmp_path, ACTIONS, Features.numeric(["Time"]))
    with pytest.raises(UsageError, match="'AGE' has the name of another column"):
        LogWriter(tmp_path, ACTIONS, Features.numeric(["age"]), also={"AGE": "number"})
    with pytest.raises(UsageError, match="'Age' has the name of another column"):
        LogWriter(tmp_path, ACTIONS, Features.numeric(["age"]), unit="Age")
    assert not list(tmp_path.iterdir())


def test_a_window_is_over_some_seconds_before_the_folder_is_listed(tmp_path: Path) -> None:
    """A reward that is being written when the folder is listed may belong to such a decision."""
    with LogWriter(tmp_path, ACTIONS, Features(()), window=60.0) as log:
        edge = time.time_ns() // 1000 - 60_000_000
        log.decisions([decision(1), decision(2, edge)])
        with pytest.warns(PiwoWarning, match="1 decisions are left out"):
            piwo.read(tmp_path)


def test_rows_are_joined_in_a_file_that_goes_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = tmp_path / "space"
    space.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(space))
    with LogWriter(tmp_path / "log", ACTIONS, Features(())) as writer:
        writer.decisions([decision(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PiwoWarning)
        log = piwo.read(tmp_path / "log")
        again = piwo.read(tmp_path / "log")
    assert log.source.name == str(tmp_path / "log")
    assert len(list(space.rglob("joined.parquet"))) == 2
    # A checkpoint resumes, though the file is another one.
    assert log.source.source_id() == again.source.source_id()
    del log, again
    gc.collect()
    assert list(space.iterdir()) == []
