"""Conditions and hive partitions: the same rows from every kind of source, and partition columns
that are not lost."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import DataError, FileError, UsageError
from piwo.logs import read
from piwo.reductions import Digest, reduce
from piwo.sources.filters import filtered, mentioned
from piwo.sources.hive import partitions_of
from piwo.sources.parquet import ParquetSource
from piwo.sources.table import TableSource

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def table(n: int = 300) -> pa.Table:
    random = np.random.default_rng(2)
    return pa.table(
        {
            "action": [f"0{x}" for x in random.integers(0, 3, n)],
            "reward": (random.random(n) < 0.5) * 0.5,
            "propensity": np.round(random.random(n) * 0.9 + 0.1, 6),
            "x": np.round(random.normal(size=n), 6),
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """One file a day and country, and one in Spark's folder for missing values."""
    for i, day in enumerate(DAYS):
        for j, country in enumerate(("fr", "d%20e")):
            folder = tmp_path / f"day={day}" / f"country={country}"
            folder.mkdir(parents=True)
            pq.write_table(
                table().slice(100 * i + 50 * j, 50), folder / "part.parquet", row_group_size=20
            )
    return tmp_path


def sums(log: piwo.Log) -> Any:
    return reduce(log, Digest())


# --- hive partitions


def test_partitions_are_columns_of_whole_numbers_days_or_text() -> None:
    paths = [
        "y=2026/m=01/d=2026-01-31/t=a/x.parquet",
        "y=7/m=02/d=2025-01-01/t=__HIVE_DEFAULT_PARTITION__/x.parquet",
    ]
    found = {x.name: (str(x.type), x.values) for x in partitions_of(paths)}
    assert found == {
        "y": ("int64", (2026, 7)),
        "m": ("string", ("01", "02")),  # 01 is not 1
        "d": ("date32[day]", (dt.date(2026, 1, 31), dt.date(2025, 1, 1))),
        "t": ("string", ("a", None)),
    }
    assert partitions_of(["a=1/b=2/x.parquet", "a=1/x.parquet"])[0].name == "a"
    assert [x.name for x in partitions_of(["a=1/b=2/x.parquet", "a=1/x.parquet"])] == ["a"]
    assert partitions_of(["a=99999999999999999999/x.parquet"])[0].values == (
        "99999999999999999999",
    )
    assert partitions_of(["a=2026-02-31/x.parquet"])[0].values == ("2026-02-31",)
    assert partitions_of([]) == ()


def values(source: Any, column: str) -> set[Any]:
    records = [x for part in source.fragments([column]) for x in part.records()]
    return set().union(*(x[column].to_pylist() for x in records))


def test_partition_columns_are_there_and_row_groups_stay_fragments(lake: Path) -> None:
    log = read(f"{lake}/*/*/*.parquet", context=["country", "x"])
    assert len(log.source.fragments(["action"])) == 6
    assert log.features is not None
    (levels,) = [x.levels for x in log.features.items if x.column == "country"]
    assert levels == ("d e", "fr")
    context = np.concatenate([batch.context for batch in log.each_batch(context=True)])
    assert context[:50, 0].tolist() == [1.0] * 50  # sorted by name: "d%20e" comes first
    assert context[50:100, 1].tolist() == [1.0] * 50
    assert np.sort(context[:, 2]).tolist() == np.sort(table()["x"].to_numpy()).tolist()
    source = log.source
    assert sorted(values(source, "day")) == [dt.date.fromisoformat(x) for x in DAYS]
    (record,) = [x for f in source.fragments(["day"])[:1] for x in f.records()]
    assert (record.num_rows, record.schema.names[-1]) == (50, "day")


def test_a_column_that_the_files_hold_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "x=9").mkdir()
    pq.write_table(table(), tmp_path / "x=9" / "a.parquet")
    source = ParquetSource([str(tmp_path / "x=9" / "a.parquet")])
    assert source.schema.names == table().schema.names
    assert values(source, "x") != {9}
    assert filtered(source, "x < 9").schema.names == table().schema.names


def test_missing_partition_values_are_missing(tmp_path: Path) -> None:
    for name in ("a", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"action={name}").mkdir()
        pq.write_table(table(3).drop_columns("action"), tmp_path / f"action={name}" / "a.parquet")
    with pytest.raises(DataError, match="column 'action' is missing in 3 rows"):
        sums(read(f"{tmp_path}/*/*.parquet"))


def test_csv_and_json_have_partition_columns_too(tmp_path: Path) -> None:
    for i, day in enumerate(DAYS):
        (tmp_path / f"day={day}").mkdir()
        frame = table().slice(100 * i, 100).to_pandas()
        frame.to_csv(tmp_path / f"day={day}" / "a.csv", index=False)
        frame.to_json(
            tmp_path / f"day={day}" / "a.jsonl", orient="records", lines=True, double_precision=15
        )
    for ending in ("csv", "jsonl"):
        path = f"{tmp_path}/*/a.{ending}"
        kept = read(path, where="day >= '2026-01-02' and reward > 0.2", context="x")
        assert sums(kept) == sums(read(table().slice(100), where="reward > 0.2"))
        assert read(path, context="day").columns.context == ("day",)


# --- conditions


@pytest.fixture
def every_source(tmp_path: Path) -> dict[str, Any]:
    rows = table()
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=40)
    rows.to_pandas().to_csv(tmp_path / "a.csv", index=False)
    rows.to_pandas().to_json(
        tmp_path / "a.jsonl", orient="records", lines=True, double_precision=15
    )
    return {
        "table": rows,
        "pandas": rows.to_pandas(),
        "parquet": tmp_path / "a.parquet",
        "csv": tmp_path / "a.csv",
        "jsonl": tmp_path / "a.jsonl",
        "query": f"from '{tmp_path}/a.parquet'",
    }


@pytest.mark.parametrize(
    "where", ["x > 0.5", "reward > 0.2 and x < 1", "action = '01' -- rows of it", "reward * 3 > 1"]
)
def test_a_condition_means_the_same_for_every_source(
    where: str, every_source: dict[str, Any]
) -> None:
    plain = where.partition(" --")[0]
    kept = [
        x
        for x in table().to_pylist()
        if eval(plain.replace(" = ", " == "), {}, x)  # SQL and Python agree on these
    ]
    expected = sums(read(pa.Table.from_pylist(kept)))
    assert 0 < expected.rows < 300
    labels = ["00", "01", "02"]
    expected = sums(read(pa.Table.from_pylist(kept), actions=labels))
    for source in every_source.values():
        assert sums(read(source, where=where, context="x", actions=labels)) == expected


def test_days_are_compared_and_pushed_down(lake: Path) -> None:
    log = read(f"{lake}/*/*/*.parquet", where="day >= '2026-01-02' and country = 'fr'")
    assert sums(log).rows == 100
    assert log.source.steady
    assert log.name.endswith("where day >= '2026-01-02' and country = 'fr'")
    # files that the names of folders rule out are not opened (but the first, for its columns)
    for path in (
        *lake.glob("day=2026-01-01/country=fr/*"),
        *lake.glob("day=2026-01-0[23]/country=d*/*"),
    ):
        path.write_bytes(path.read_bytes()[:-1] + b"X")
    with pytest.raises(FileError):
        sums(read(f"{lake}/*/*/*.parquet"))
    assert sums(log).rows == 100


def test_splits_and_digests_of_conditions_are_steady(lake: Path) -> None:
    log = read(f"{lake}/*/*/*.parquet", where="x > 0")
    parts = log.split(0.5)
    assert (
        parts.train_rows + parts.test_rows
        == sums(log).rows
        == int((table()["x"].to_numpy() > 0).sum())
    )


@pytest.mark.parametrize(
    "where", ["", "x >", "x > 1; drop table y", "x > 1, 2", "x > 1) or (1 = 1", "(select 1"]
)
def test_what_is_no_condition_is_refused(where: str, every_source: dict[str, Any]) -> None:
    for source in every_source.values():
        with pytest.raises(UsageError, match="is not one SQL condition"):
            read(source, where=where)


def test_conditions_that_cannot_be_decided_are_one_line(
    every_source: dict[str, Any], tmp_path: Path
) -> None:
    for source in every_source.values():
        with pytest.raises(DataError, match=r"(?s)nope") as caught:
            sums(read(source, where="nope > 3"))
        said = str(caught.value)
        assert "\n" not in said
        assert not any(x in said for x in ("select ", "read_", "piwo_rows", "Candidate"))
        assert said.endswith("check names and types in the query, or in the condition (where)")
        with pytest.raises(
            DataError, match='"rewrd" not found in FROM clause; did you mean "reward"'
        ):
            sums(read(source, where="rewrd > 3"))
    with pytest.raises(UsageError, match="where=3 is not a condition"):
        read(table(), where=3)  # type: ignore[arg-type]
    (tmp_path / "a.dsjson").write_text("{}")
    with pytest.raises(UsageError, match="dsjson log"):
        read(tmp_path / "a.dsjson", where="x > 1")

    class Other:
        name, fragments, schema = "other rows", None, None

    with pytest.raises(UsageError, match="other rows"):
        filtered(Other(), "x > 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("where", [None, "x < 1e9"])
@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        (
            "action",
            pa.array(range(300)),
            "column 'action' has type string in .* and int64 in .*; write both files",
        ),
        ("x", pa.array(["1"] * 300), "column 'x' has type double in .* and string in"),
        ("reward", None, "column 'reward' is in .* and not in .*; read them as two logs"),
    ],
)
def test_files_that_differ_are_refused_with_and_without_a_condition(
    where: str | None, column: str, values: pa.Array | None, told: str, tmp_path: Path
) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    other = table().drop_columns([column])
    pq.write_table(
        other if values is None else other.append_column(column, values), tmp_path / "b.parquet"
    )
    with pytest.raises(DataError, match=told):
        list(read(f"{tmp_path}/*.parquet", where=where, context="x").each_batch(context=True))


def test_files_may_differ_in_columns_that_are_not_used(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    pq.write_table(table().drop_columns(["x"]), tmp_path / "b.parquet")
    assert sums(read(f"{tmp_path}/*.parquet")) == sums(
        read(f"{tmp_path}/*.parquet", where="reward < 1")
    )
    with pytest.raises(
        DataError, match=r"column 'x' is in .* and not in .*; read them as two logs"
    ):
        read(f"{tmp_path}/*.parquet", where="x < 1")


def test_a_condition_may_leave_no_rows(every_source: dict[str, Any]) -> None:
    for source in every_source.values():
        with pytest.raises(DataError, match="no rows in"):
            sums(read(source, where="x > 1e9", actions=["00"]))


def test_rows_keep_their_types_and_order() -> None:
    rows = pa.table(
        {
            "a": pa.array(["x", None, "y"]).dictionary_encode(),
            "v": pa.array([[1.0]] * 3, pa.list_(pa.float64(), 1)),
        }
    )
    kept = filtered(TableSource(rows), "a is not null")
    assert (kept.schema, kept.rows) == (rows.schema, 2)


def test_names_in_a_condition_are_found() -> None:
    names = ["day", "user id", 'a"b', "é", "value"]
    assert mentioned('"User ID" > 1 and "a""b" = \'day\' and é < value', names) == (
        "user id",
        'a"b',
        "é",
        "value",
    )


def test_the_command_has_conditions(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{lake}/*/*/*.parquet", "--where", "day >= '2026-01-02'"]
    assert main(["evaluate", *words, "--policy", "uniform", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["log"]["rows"] == 200
    assert main(["evaluate", *words, "--policy", "uniform"]) == 0
    assert "--where 'day >= '\"'\"'2026-01-02'\"'\"''" in capsys.readouterr().out
    assert main(["check", words[0], "--where", "day >"]) == 2
    assert "is not one SQL condition" in capsys.readouterr().err
