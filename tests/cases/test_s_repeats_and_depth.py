"""S03, S05, S20: late rewards, rows that are fed twice, files that are nested or damaged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.policies import Constant, Uniform

# --- S03: sales arrive after 0-3 days, zeros are written after 7 days, export on day 10


def sales(seed: int = 0, n: int = 3000) -> pa.Table:
    rng = np.random.default_rng(seed)
    day, sold, late = rng.integers(0, 11, n), rng.random(n) < 0.10, rng.integers(0, 4, n)
    known = np.where(sold, day + late <= 10, day + 7 <= 10)
    return pa.table(
        {
            "action": rng.choice(["a", "b"], n),
            "reward": pa.array(sold * 1.0, mask=~known),
            "propensity": np.full(n, 0.5),
            "day": day,
        }
    )


def test_sales_that_are_known_already_give_no_interval_and_old_days_do() -> None:
    policy = Uniform(["a", "b"])
    known = piwo.read(sales(), actions=["a", "b"], where="reward is not null")
    found = piwo.evaluate(known, policy)
    assert found.value is not None
    assert found.value > 0.2  # 0.10 is true: young rows are there only if they were sold
    assert (found.lower, found.upper) == (None, None)
    assert found.no_interval is not None
    assert found.no_interval.kind == "condition"
    old = piwo.evaluate(piwo.read(sales(), actions=["a", "b"], where="day <= 3"), policy)
    assert old.value == pytest.approx(0.106, abs=0.02)
    assert old.lower is not None
    assert old.upper is not None
    assert old.lower < 0.10 < old.upper
    with pytest.raises(piwo.DataError) as caught:
        piwo.evaluate(piwo.read(sales(), actions=["a", "b"]), policy)
    assert "drop" not in str(caught.value)


# --- S05: events that are there three times


def events(times: int, ids: bool = True) -> str:
    """Five decisions in turn; each that was rewarded is there several times."""
    lines = []
    for i in range(240):
        won = i % 12 < 5
        event: dict[str, Any] = {
            "_label_cost": -1 if won else 0,
            "_label_probability": 0.5,
            "_label_Action": 1 + i % 2,
            "_labelIndex": i % 2,
            "a": [1 + i % 2, 2 - i % 2],
            "p": [0.5, 0.5],
            "c": {"x": i % 7, "_multi": [{"f": 1}, {"f": 2}]},
        }
        if ids:
            event["EventId"] = f"e{i}"
        lines += [json.dumps(event)] * (times if won else 1)
    return "\n".join(lines)


def test_events_of_dsjson_that_are_there_three_times_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    path.write_text(events(1))
    log = piwo.logs.read_dsjson(path)
    assert log.columns.key == "EventId"
    assert piwo.evaluate(log, Uniform(log.actions)).value == pytest.approx(5 / 12)
    path.write_text(events(3))
    for read in (piwo.logs.read_dsjson, piwo.read):
        again = read(str(path), context="x")
        for call in (
            lambda again=again: piwo.evaluate(again, Uniform(again.actions)),
            lambda again=again: piwo.certify(again, {0: Constant(1, again.actions)}),
            lambda again=again: piwo.PIWO().fit(again),
        ):
            with pytest.raises(piwo.UsageError, match=r"'EventId' has about 1\.8"):
                call()


def test_events_without_ids_have_no_key(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    path.write_text(events(1, ids=False) + "\n" + events(1))
    assert piwo.logs.read_dsjson(path).columns.key is None


def rows(seed: int, n: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "action": rng.integers(0, 2, n),
        "reward": (rng.random(n) < 0.3) * 1.0,
        "propensity": np.full(n, 0.5),
    }


def test_a_monitor_that_is_fed_the_same_rows_twice(tmp_path: Path) -> None:
    empty = piwo.Monitor(Constant(1, [0, 1]))
    path = tmp_path / "day.parquet"
    pq.write_table(pa.table(rows(0)), path)
    monitor = empty.update(piwo.read(str(path), actions=[0, 1]))
    monitor.save(tmp_path / "monitor.json")
    loaded = piwo.Monitor.load(tmp_path / "monitor.json", monitor.policy)
    for one in (monitor, loaded):
        with pytest.raises(piwo.UsageError, match="were added to this monitor before"):
            one.update(piwo.read(str(path), actions=[0, 1]))
        with pytest.raises(piwo.UsageError, match="rows of the other monitor were added"):
            one.merge(empty.update(piwo.read(str(path), actions=[0, 1])))
    with pytest.raises(piwo.UsageError, match="the monitor itself"):
        monitor.merge(monitor)
    with pytest.raises(piwo.UsageError, match="rows of the other monitor"):
        monitor.merge(loaded)
    # another day, and the file after it has changed
    pq.write_table(pa.table(rows(1)), tmp_path / "other.parquet")
    more = monitor.update(piwo.read(str(tmp_path / "other.parquet"), actions=[0, 1]))
    assert more.look().rows == 800
    pq.write_table(pa.table(rows(2, 401)), path)
    assert more.update(piwo.read(str(path), actions=[0, 1])).look().rows == 1201


def test_a_monitor_that_is_fed_an_equal_table_warns() -> None:
    monitor = piwo.Monitor(Constant(1, [0, 1])).update(piwo.read(rows(0), actions=[0, 1]))
    with pytest.warns(piwo.PiwoWarning, match="equal rows that were added"):
        monitor.update(piwo.read(rows(0), actions=[0, 1]))
    monitor.update(piwo.read(rows(1), actions=[0, 1]))
    # a few rows are often alike
    few = piwo.Monitor(Constant(1, [0, 1])).update(piwo.read(rows(0, 9), actions=[0, 1]))
    few.update(piwo.read(rows(0, 9), actions=[0, 1]))


def test_a_monitor_refuses_keys_that_repeat() -> None:
    twice = {name: np.repeat(x, 2) for name, x in {**rows(0), "id": np.arange(400)}.items()}
    log = piwo.read(twice, actions=[0, 1], key="id")
    with pytest.raises(piwo.UsageError, match="'id' has about 2 rows a value"):
        piwo.Monitor(Constant(1, [0, 1])).update(log)


def test_monitors_with_digests_merge_in_any_order() -> None:
    logs = [piwo.read(rows(seed), actions=[0, 1]) for seed in range(3)]
    one, two, three = (piwo.Monitor(Constant(1, [0, 1])).update(log) for log in logs)
    assert one.merge(two).merge(three).fed == three.merge(one.merge(two)).fed
    assert len(one.merge(two).merge(three).fed) == 3


# --- S20: files that are nested 5,000 deep, and names that are not UTF-8

DEEP = {
    "lists.json": "[" * 5000 + "]" * 5000,
    "objects.jsonl": '{"action":' * 5000 + "1" + "}" * 5000,
    "context.jsonl": '{"x":' + "[" * 5000 + "]" * 5000 + ',"action":"a","reward":1}',
    "log.dsjson": '{"c":' * 5000 + "1" + "}" * 5000,
}


@pytest.mark.parametrize("name", DEEP)
def test_json_that_is_nested_without_end_is_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(DEEP[name])
    assert main(["evaluate", str(tmp_path / name), "--policy", "uniform"]) == 2
    done = capsys.readouterr()
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"name_of_x", b"name_\xff\xfex"), (b"propensity", b"\xe9ropensity")],
)
def test_a_footer_with_names_that_are_not_utf_8(
    old: bytes, new: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {"action": ["a", "b"] * 50, "reward": [1.0, 0.0] * 50, "propensity": [0.5] * 100}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({**columns, "name_of_x": [1.0] * 100}), path)
    path.write_bytes(path.read_bytes().replace(old, new))
    assert main(["evaluate", str(path), "--policy", "uniform"]) == 2
    done = capsys.readouterr()
    assert done.out == ""
    assert "cannot be read as Parquet" in done.err
    assert len(done.err.strip().splitlines()) == 1
