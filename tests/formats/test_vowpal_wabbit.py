"""Logs written for Vowpal Wabbit: the lines by hand, and round trips of its own example files."""

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from piwo.errors import DataError, UsageError
from piwo.formats import Written, to_obp, write_dsjson, write_vw
from piwo.logs import Log, read, read_dsjson, read_vw


def columns(log: Log) -> dict[str, Any]:
    """What a log says: all fields of all batches, and what the context columns are."""
    full = log.gives_full_distribution
    batches = list(log.each_batch(context=log.has_context, propensities=full))
    found: dict[str, Any] = {"actions": log.actions.labels}
    if log.features is not None:
        found["features"] = log.features.names
    for name in ("action", "reward", "propensity", "propensities", "context", "weight", "keys"):
        parts = [getattr(x, name) for x in batches]
        if parts[0] is not None:
            found[name] = np.concatenate(parts).tolist()
    return found


def shop(**more: Any) -> Log:
    table = {
        "action": ["tea", "cake", "tea"],
        "reward": [1.5, -0.1, 0.0],
        "propensity": [0.5, 0.1 + 0.2, 1e-7],
        "user/age": [30.0, 0.0, 41.25],
        "user/city: x": ["Rome", "New York|%", ""],
        "vip": [True, False, True],
        "v": [[1.0, 2.0], [0.0, -1.0], [0.5, 0.25]],
    } | more
    names = ["user/age", "user/city: x", "vip", "v"]
    return read(table, context=names, reward_range=(-1, 2), actions=["tea", "cake"])


def test_lines_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    made = write_vw(shop(), path)
    assert made == Written(str(path), 3, ("the labels of actions",))
    assert path.read_text("utf-8").splitlines() == [
        "1:-1.5:0.5 |user age:30 city%3A%20x=Rome | vip:1 v[0]:1 v[1]:2",
        "2:0.1:0.30000000000000004 |user age:0 city%3A%20x=New%20York%7C%25 | vip:0 v[0]:0 v[1]:-1",
        "1:0:1e-07 |user age:41.25 city%3A%20x= | vip:1 v[0]:0.5 v[1]:0.25",
    ]
    write_vw(shop(), path, kind="cb_adf")
    assert path.read_text("utf-8").splitlines()[:4] == [
        "shared |user age:30 city%3A%20x=Rome | vip:1 v[0]:1 v[1]:2",
        "0:-1.5:0.5 |a action=tea",
        "|a action=cake",
        "",
    ]


@pytest.mark.parametrize("kind", ["cb", "cb_adf"])
def test_what_is_written_is_read_back(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.vw.gz"
    log = shop()
    write_vw(log, path, kind=kind)
    first = path.read_bytes()
    again = read_vw(
        path,
        context=["user/age", "user/city: x", "vip", "v[0]", "v[1]"],
        reward_range=(-1, 2),
        actions=["tea", "cake"],
    )
    one, two = columns(log), columns(again)
    assert one.pop("reward") == pytest.approx(two.pop("reward"), rel=1e-14)
    assert one == two
    write_vw(log, path, kind=kind)
    assert path.read_bytes() == first


def test_a_missing_number_is_a_column_of_its_own(tmp_path: Path) -> None:
    table = {"action": [1, 2], "reward": [0, 1], "propensity": [0.5, 0.5], "x": [None, 2.5]}
    with pytest.warns(UserWarning, match="'x' in 1 row"):
        write_vw(read(table, context="x", missing="indicator"), tmp_path / "log.vw")
    again = read_vw(tmp_path / "log.vw", context=["x", "x is missing"])
    assert columns(again)["context"] == [[0.0, 1.0], [2.5, 0.0]]
    with pytest.raises(DataError, match="missing"):
        write_vw(read(table, context="x"), tmp_path / "log.vw")


def test_what_the_text_format_cannot_hold(tmp_path: Path) -> None:
    table = {"action": [1, 2], "reward": [0, 1], "propensity": [0.5, 0.5], "w": [1, 2], "u": [1, 1]}
    with pytest.raises(UsageError, match=r"sampling weights .* write dsjson"):
        write_vw(read(table, weight="w"), tmp_path / "log.vw")
    made = write_vw(read(table, unit="u"), tmp_path / "log.vw")
    assert made.left_out == ("the unit 'u'",)
    rare = Log.from_arrays(action=[1, 2], reward=[0, 1], log_propensity=[-1.0, -800.0])
    with pytest.raises(DataError, match="row 1 has a propensity that is 0"):
        write_vw(rare, tmp_path / "none.vw")
    with pytest.raises(UsageError, match="estimated, or have a declared error"):
        write_vw(read(table).with_propensity_error(1.5), tmp_path / "none.vw")
    with pytest.raises(UsageError, match="kind is 'x'"):
        write_vw(read(table), tmp_path / "none.vw", kind="x")  # type: ignore[arg-type]
    assert not (tmp_path / "none.vw").exists()
    assert not list(tmp_path.glob(".piwo*"))


def test_net_rewards_are_written(tmp_path: Path) -> None:
    table = {"action": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5]}
    write_vw(read(table, action_cost={"a": 0.25, "b": 0.5}), tmp_path / "log.vw")
    assert (tmp_path / "log.vw").read_text().split() == ["1:0.25:0.5", "|", "2:-0.5:0.5", "|"]


def test_a_dsjson_event_by_hand(tmp_path: Path) -> None:
    table = {
        "action": ["b"],
        "reward": [0.25],
        "mu": [[0.5, 0.25, 0.25]],
        "w": [4.0],
        "id": ["e1"],
        "U/x": [3.0],
        "U/s/t": ["y"],
    }
    log = read(
        table,
        propensities="mu",
        weight="w",
        key="id",
        context=["U/x", "U/s/t"],
        actions=["a", "b", "c"],
    )
    path = tmp_path / "log.dsjson"
    assert write_dsjson(log, path).left_out == ()
    event = json.loads(path.read_text("utf-8"))
    multi = event["c"].pop("_multi")
    assert [x["_tag"] for x in multi] == ["a", "b", "c"]
    assert event == {
        "_label_cost": -0.25,
        "_label_probability": 0.25,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Version": "1",
        "EventId": "e1",
        "a": [2, 1, 3],
        "p": [0.25, 0.5, 0.25],
        "c": {"U": {"x": 3.0, "s": {"t": "y"}}},
        "pdrop": 0.75,
    }
    again = read_dsjson(path, context=["U/x", "U/s/t"], actions=["a", "b", "c"])
    assert columns(again) == columns(log)
    assert again.columns.key == "EventId"


def test_what_dsjson_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    with pytest.raises(UsageError, match="propensity of the action taken alone"):
        write_dsjson(shop(), path)
    table = {"action": [1], "reward": [0], "mu": [[0.5, 0.5]], "w": [0.5], "a": [1], "a/b": [2]}
    with pytest.raises(UsageError, match="sampling weights below 1"):
        write_dsjson(read(table, propensities="mu", weight="w", actions=[1, 2]), path)
    with pytest.raises(UsageError, match="context column 'a' cannot be a field"):
        write_dsjson(read(table, propensities="mu", context=["a", "a/b"], actions=[1, 2]), path)
    assert not path.exists()


VW = ["cb_eval", "cb_explore_cover.dat", "cb_multi_cost.dat", "cb_load.dat"]
"""Vowpal Wabbit's own files that hold one decision with a fixed list of actions."""


@pytest.mark.parametrize("name", VW)
@pytest.mark.parametrize("kind", ["cb", "cb_adf"])
def test_own_files_in_text_make_the_round_trip(
    name: str, kind: Any, tmp_path: Path, shared_data: Path
) -> None:
    context = {"cb_load.dat": ["User/user", "User/time_of_day"], "cb_eval": "f/*"}.get(name, "a")
    if name == "cb_explore_cover.dat":
        context = ["features/a", "features/b"]
    log = read_vw(shared_data / "vw" / name, context=context, reward_range=(-4, 1), hash_size=2)
    write_vw(log, tmp_path / "log.vw", kind=kind)
    if name == "cb_eval":
        context = ["f/*[0]", "f/*[1]"]
    again = read_vw(tmp_path / "log.vw", context=context, reward_range=(-4, 1))
    one, two = columns(log), columns(again)
    one.pop("features"), two.pop("features")
    assert one == two


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("dsjson_cb.json", ["FromUrl/0/weather", "FromUrl/0/timeofday"]),
        ("dsjson_cb_default_ns.json", ["weather", "name"]),
        ("cb_simple.json", ["shared/f"]),
        ("cb_simple_pdrop.json", ["shared/f"]),
    ],
)
def test_own_files_in_dsjson_make_the_round_trip(
    name: str, context: Any, tmp_path: Path, shared_data: Path
) -> None:
    log = read_dsjson(shared_data / "vw" / name, context=context)
    write_dsjson(log, tmp_path / "log.dsjson")
    again = read_dsjson(tmp_path / "log.dsjson", context=context)
    one, two = columns(log), columns(again)
    if "weight" in one:
        assert one.pop("weight") == pytest.approx(two.pop("weight"), rel=1e-15)
    assert one == two
    # and as text, without the probabilities of all actions
    if log.columns.weight is None:
        made = write_vw(log, tmp_path / "log.vw")
        assert "the probabilities of all actions 'propensities'" in made.left_out
        text = columns(read_vw(tmp_path / "log.vw", context=context, actions=log.actions))
        del one["propensities"]
        one.pop("keys", None)
        assert text == one


def test_a_log_of_several_batches_is_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piwo.sources.table.batches_of", lambda x: x.to_batches(max_chunksize=7))
    table = pa.table(
        {"action": np.arange(50) % 3 + 1, "reward": np.arange(50) / 64, "propensity": [1 / 3] * 50}
    )
    calls: list[tuple[int, int | None]] = []
    from piwo.engines import reporting

    log = read(table)
    assert len(log.actions) == 3
    with reporting(lambda done, total: calls.append((done, total))):
        assert write_vw(log, tmp_path / "log.vw.gz").rows == 50
    assert calls[0] == (0, 50)
    assert sum(done for done, _ in calls) == 50
    assert len(calls) > 5
    assert gzip.decompress((tmp_path / "log.vw.gz").read_bytes()).count(b"\n") == 50
    assert columns(read_vw(tmp_path / "log.vw.gz")) == columns(log)


def test_vowpal_wabbit_itself_reads_the_lines(tmp_path: Path) -> None:
    tool = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")
    write_vw(shop(), tmp_path / "log.vw")
    workspace = tool.Workspace("--cb 2 --quiet")
    found = []
    for line in (tmp_path / "log.vw").read_text("utf-8").splitlines():
        example = workspace.parse(line, tool.LabelType.CONTEXTUAL_BANDIT)
        (label,) = example.get_label(tool.LabelType.CONTEXTUAL_BANDIT).costs
        found.append((label.action, label.cost, label.probability))
        workspace.learn(example)
        workspace.finish_example(example)
    expected = [(1, -1.5, 0.5), (2, 0.1, 0.3), (1, 0.0, 1e-7)]
    assert [x[0] for x in found] == [x[0] for x in expected]
    for one, other in zip(found, expected, strict=True):
        assert one[1:] == pytest.approx(other[1:], rel=1e-6)


def test_booleans_decimals_and_any_name_come_back_from_dsjson(tmp_path: Path) -> None:
    table = pa.table(
        {
            "action": ["a", "b"],
            "reward": [1.0, 0.0],
            "p": [[0.5, 0.5], [0.25, 0.75]],
            "vip": [True, False],
            "price": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(6, 2)),
            "u/a~1b": ["x", "y"],
            "~0": [3.0, 4.0],
        }
    )
    names = ["vip", "price", "u/a~1b", "~0"]
    log = read(table, propensities="p", context=names)
    write_dsjson(log, tmp_path / "log.dsjson")
    again = read_dsjson(tmp_path / "log.dsjson", context=names, actions=["a", "b"])
    assert columns(again) == columns(log)
    lists = table.append_column("v", pa.array([[1.0, 2.0]] * 2))
    with pytest.raises(UsageError, match="'v' holds lists, and a field of a dsjson event"):
        write_dsjson(read(lists, propensities="p", context=["v"]), tmp_path / "lists.dsjson")


@pytest.mark.parametrize("cost", [False, True])
def test_rewards_of_any_range_are_written_to_the_last_digit(cost: bool, tmp_path: Path) -> None:
    numbers = [0.1234567890123456, -0.7000000000000001, 0.0]
    role = "cost" if cost else "reward"
    table = {"action": [1, 2, 1], role: numbers, "p": [[0.5, 0.5]] * 3}
    log = read(table, propensities="p", reward_range=(-1, 3), **{role: role})
    expected = [-x if cost else x for x in numbers]
    assert to_obp(log)["reward"].tolist() == expected
    write_vw(log, tmp_path / "log.vw")
    costs = [line.split(":")[1] for line in (tmp_path / "log.vw").read_text().splitlines()]
    assert [-float(x) for x in costs] == expected
    assert costs[2] == "0"
    write_dsjson(log, tmp_path / "log.dsjson")
    events = [json.loads(x) for x in (tmp_path / "log.dsjson").read_text().splitlines()]
    assert [-x["_label_cost"] for x in events] == expected
