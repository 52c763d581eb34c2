"""Logs written as tables: the same rows from every format, streamed, complete or not at all."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo.errors import DataError, UsageError
from piwo.evaluation import evaluate
from piwo.formats import to_obp, write_log, write_vw
from piwo.logs import Log, read
from piwo.policies import Uniform
from tests.formats.test_vowpal_wabbit import columns

ROLES: dict[str, Any] = {
    "action": "item",
    "reward": "click",
    "propensity": "p",
    "context": ["x", "shop"],
    "key": "id",
    "outcomes": "minutes",
}


def table() -> pa.Table:
    return pa.table(
        {
            "item": ["a", "01", "a", "b"],
            "click": [0.0, 1.0, 0.125, 1e-9],
            "p": [0.5, 0.1 + 0.2, 0.25, 1.0],
            "x": [1.5, -2.0, 0.0, 3e10],
            "shop": ["süd", 'a "b", c', "x", "x"],
            "id": [1, 2, 3, 4],
            "minutes": [0.5, 0.25, 0.0, 1.0],
            "other": [1, 2, 3, 4],
        }
    )


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv.gz", "jsonl", "json.gz"])
def test_every_table_gives_the_same_log(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    log = read(table(), **ROLES)
    made = write_log(log, path)
    assert (made.path, made.rows) == (str(path), 4)
    assert made.left_out == ("column 'other' (no role)",)
    assert columns(read(str(path), **ROLES)) == columns(log)


def test_empty_texts_are_not_written_as_missing_ones(tmp_path: Path) -> None:
    empty = table().set_column(4, "shop", pa.array(["a", "", "b", "c"]))
    with pytest.raises(UsageError, match="column 'shop' holds empty texts"):
        write_log(read(empty, **ROLES), tmp_path / "log.csv")
    write_log(read(empty, **ROLES), tmp_path / "log.jsonl")
    again = read(str(tmp_path / "log.jsonl"), **ROLES)
    assert columns(again) == columns(read(empty, **ROLES))


def test_from_csv_numbers_become_numbers(tmp_path: Path) -> None:
    write_log(read(table(), **ROLES | {"context": "x"}), tmp_path / "log.csv")
    write_log(read(str(tmp_path / "log.csv"), **ROLES | {"context": "x"}), tmp_path / "2.parquet")
    written = pq.read_table(tmp_path / "2.parquet")
    assert {str(written.schema.field(x).type) for x in ("click", "p", "minutes")} == {"double"}
    assert written["item"].to_pylist() == ["a", "01", "a", "b"]


def test_times_and_missing_numbers_in_json(tmp_path: Path) -> None:
    rows = {
        "action": [1, 2],
        "reward": [0, 1],
        "propensity": [0.5, 0.5],
        "t": pa.array([0, 10**15], pa.timestamp("us", "UTC")),
        "v": [[1.0, float("nan")], [2.0, 3.0]],
        "day": pa.array([0, 1], pa.date32()),
    }
    log = read(rows, time="t", key="day", context="v", missing="indicator")
    with pytest.warns(UserWarning, match="'v' in 1 row"):
        write_log(log, tmp_path / "log.jsonl")
    first, second = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(first)["v"] == [1.0, None]
    assert json.loads(second)["t"] == "2001-09-09T01:46:40+00:00"
    assert json.loads(second)["day"] == "1970-01-02"


@pytest.mark.parametrize("kind", ["struct", "map"])
def test_probabilities_by_label(kind: str, tmp_path: Path) -> None:
    objects: Any = [{"a": 0.5, "b": 0.5}, {"a": 0.25, "b": 0.75}]
    if kind == "map":
        pairs = [list(x.items()) for x in objects]
        objects = pa.array(pairs, pa.map_(pa.string(), pa.float64()))
    rows = pa.table({"action": ["a", "b"], "reward": [0, 1], "mu": objects})
    log = read(rows, propensities="mu")
    write_log(log, tmp_path / "log.jsonl")
    write_log(log, tmp_path / "log.parquet")
    for name in ("log.jsonl", "log.parquet"):
        assert columns(read(str(tmp_path / name), propensities="mu")) == columns(log)


def test_vectors_and_splits(tmp_path: Path) -> None:
    log = Log.from_arrays(
        action=[0, 1] * 20,
        reward=[0, 1] * 20,
        propensities=np.full((40, 2), 0.5),
        actions=[0, 1],
        context=np.arange(40.0).reshape(-1, 1),
    )
    with pytest.raises(UsageError, match=r"holds lists or objects, and .* is CSV"):
        write_log(log, tmp_path / "log.csv")
    assert not (tmp_path / "log.csv").exists()
    half = log.split(0.5).test
    write_log(half, tmp_path / "half.parquet")
    write_log(half, tmp_path / "half.jsonl")
    roles: dict[str, Any] = {"propensities": "propensities", "context": "x0", "actions": [0, 1]}
    for name in ("half.parquet", "half.jsonl"):
        assert columns(read(str(tmp_path / name), **roles)) == columns(half)


def test_rows_that_break_a_rule_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(b"old")
    bad = table().set_column(2, "p", pa.array([0.5, 2.0, 0.5, 2.0]))
    with pytest.raises(DataError, match="2 rows"):
        write_log(read(bad, **ROLES), path)
    assert path.read_bytes() == b"old"
    assert [x.name for x in tmp_path.iterdir()] == ["log.parquet"]


def test_what_no_table_holds(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown ending"):
        write_log(read(table(), **ROLES), tmp_path / "log.xyz")
    with pytest.raises(UsageError, match="path is 3; expected a text or a Path"):
        write_log(read(table(), **ROLES), 3)  # type: ignore[arg-type]
    roles = {x: y for x, y in ROLES.items() if x != "propensity"}
    log = read(table(), **roles, behavior=Uniform(["01", "a", "b"]))
    with pytest.raises(UsageError, match="computed by behavior"):
        write_log(log, tmp_path / "log.parquet")
    net = read(table(), **ROLES, action_cost={"a": 0.1, "01": 0.0, "b": 0.0})
    assert "the costs of actions" in write_log(net, tmp_path / "log.parquet").left_out
    assert write_log(net, tmp_path / "log.vw").rows == 4


def test_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("piwo.formats.tables.BATCH_ROWS", 2)
    monkeypatch.setattr("piwo.sources.table.batches_of", lambda x: x.to_batches(max_chunksize=3))
    big = pa.concat_tables([table()] * 10).set_column(5, "id", pa.array(np.arange(40)))
    write_log(read(big, **ROLES), tmp_path / "log.parquet")
    assert pq.ParquetFile(tmp_path / "log.parquet").num_row_groups > 3
    assert columns(read(str(tmp_path / "log.parquet"), **ROLES)) == columns(read(big, **ROLES))


def changing(**roles: Any) -> Log:
    table = {
        "action": ["a", "b", "c"],
        "reward": [1.0, 0.0, 1.0],
        "could": [["a", "b"], ["b"], ["c", "a", "b"]],
        "p": [[0.75, 0.25], [1.0], [0.2, 0.3, 0.5]],
        "q": [0.75, 1.0, 0.2],
    }
    return read(table, eligible="could", **roles)


@pytest.mark.parametrize("roles", [{"propensities": "p"}, {"propensity": "q"}])
@pytest.mark.parametrize("ending", ["parquet", "jsonl", "json.gz"])
def test_eligible_actions_are_kept(ending: str, roles: dict[str, Any], tmp_path: Path) -> None:
    log = changing(**roles)
    write_log(log, tmp_path / f"log.{ending}")
    again = read(str(tmp_path / f"log.{ending}"), eligible="could", **roles)
    assert columns(again) == columns(log)
    found = next(again.each_batch()).eligible
    assert found is not None
    assert (found.starts.tolist(), found.codes.tolist()) == ([0, 2, 3, 6], [0, 1, 1, 2, 0, 1])
    uniform = Uniform(log.actions)
    # weights of a policy that is uniform over each list: 0.5/0.75, 1, (1/3)/0.2
    assert evaluate(again, uniform).value == pytest.approx((0.5 / 0.75 + 1 / 0.6) / 3)


@pytest.mark.parametrize("roles", [{"propensities": "p"}, {"propensity": "q"}])
def test_formats_without_eligible_actions_refuse_them(
    roles: dict[str, Any], tmp_path: Path
) -> None:
    log = changing(**roles)
    message = "eligible actions change from row to row .*which .* cannot say; write .parquet"
    for ending in ("csv", "tsv.gz"):
        with pytest.raises(UsageError, match=message) as caught:
            write_log(log, tmp_path / f"log.{ending}")
        assert "propensities" not in str(caught.value)
    with pytest.raises(UsageError, match=r"--cb cannot say; write kind='cb_adf'"):
        write_vw(log, tmp_path / "log.vw")
    with pytest.raises(UsageError, match=message):
        to_obp(log)
    assert not list(tmp_path.iterdir())


def test_features_of_actions_are_reported_as_left_out(tmp_path: Path) -> None:
    items = {"action": ["a", "b", "c"], "size": [1.0, 2.0, 3.0]}
    log = changing(propensity="q", items=items)
    assert "the features of actions" in write_log(log, tmp_path / "log.jsonl").left_out


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_decimals_are_numbers_in_every_format(ending: str, tmp_path: Path) -> None:
    prices = pa.array([Decimal("1.50"), Decimal("2.25"), Decimal(3)], pa.decimal128(6, 2))
    given = {"action": ["a", "b", "a"], "reward": [1, 0, 1], "propensity": [0.5] * 3}
    log = read(pa.table(given | {"price": prices}), context="price")
    write_log(log, tmp_path / f"log.{ending}")
    again = read(str(tmp_path / f"log.{ending}"), context="price")
    assert columns(again) == columns(log)
