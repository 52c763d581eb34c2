"""Spark DataFrames that are Parquet files: which are, and that what executors read is what Spark
would give."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.errors import DataError
from piwo.reductions import Digest, reduce
from piwo.sources import spark_files
from piwo.sources.spark import SparkSource
from piwo.sources.spark_files import ParquetFiles
from tests.engines.clusters import Accident, SparkFilesHome, go_wrong_once
from tests.reductions import test_laws as laws

pytestmark = [
    pytest.mark.clusters,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::FutureWarning"),
]

N = 400


def rows(first: int = 0) -> pa.Table:
    i = np.arange(first, first + N)
    return pa.table(
        {
            "action": pa.array(np.array(["a", "b"])[i % 2]),
            "reward": (i % 4 == 0).astype(float),
            "propensity": np.full(N, 0.5),
            "day": i % 5,
            "x y": i / N,
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(3):
        pq.write_table(rows(N * i), tmp_path / f"part-{i}.parquet", row_group_size=150)
    return tmp_path


def seen(frame: Any) -> tuple[int, list[str]]:
    """Files that executors read, and the columns that they read themselves."""
    found = ParquetFiles.of(frame, SparkSource(frame).schema)
    return len(found.files), found.schema.names


@contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


COLUMNS = rows().schema.names

STEPS: dict[str, tuple[Callable[[Any], Any], tuple[int, list[str]]]] = {
    "the files": (lambda frame: frame, (3, COLUMNS)),
    "some columns, in another order": (
        lambda frame: frame.select("reward", "action"),
        (3, ["reward", "action"]),
    ),
    "without some": (lambda frame: frame.drop("day", "x y"), (3, COLUMNS[:3])),
    "a view": (
        lambda frame: frame.createOrReplaceTempView("seen") or frame.sparkSession.table("seen"),
        (3, COLUMNS),
    ),
    "another name": (lambda frame: frame.withColumnRenamed("day", "date"), (0, [])),
    "the name of another": (
        lambda frame: frame.drop("reward").withColumnRenamed("propensity", "reward"),
        (0, []),
    ),
    "computed": (
        lambda frame: frame.selectExpr("action", "reward / 2 as reward", "propensity"),
        (0, []),
    ),
    "some rows": (lambda frame: frame.where("reward > 0"), (0, [])),
    "the first rows": (lambda frame: frame.limit(10), (0, [])),
    "kept in memory": (lambda frame: frame.cache(), (0, [])),
    "twice": (lambda frame: frame.union(frame), (0, [])),
    "sorted": (lambda frame: frame.orderBy("reward"), (0, [])),
    "without equal rows": (lambda frame: frame.distinct(), (0, [])),
    "with another": (lambda frame: frame.join(frame.select("day").distinct(), "day"), (0, [])),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_between_the_files_and_the_rows_is_seen(spark: Any, folder: Path, step: str) -> None:
    made, expected = STEPS[step]
    frame = made(spark.read.parquet(str(folder)))
    try:
        assert seen(frame) == expected
        if {"action", "reward", "propensity"} <= set(frame.columns):
            there = piwo.check(piwo.read(frame)).to_dict()
            here = piwo.check(piwo.read(frame.toArrow())).to_dict()
            for name in ("rows", "actions", "mean_reward", "ess"):
                assert there[name] == pytest.approx(here[name], rel=1e-12), name
    finally:
        frame.unpersist()


def test_columns_that_files_hold_in_their_own_way_are_read_by_spark(
    spark: Any, folder: Path
) -> None:
    odd = rows(3 * N).append_column("only here", [np.arange(N)])
    odd = odd.set_column(3, "Day", odd["day"])
    pq.write_table(odd, folder / "part-3.parquet")
    asked = (
        "action string, reward double, propensity double, day long, `x y` double, `only here` long"
    )
    frame = spark.read.schema(asked).parquet(str(folder))
    assert seen(frame) == (4, ["action", "reward", "propensity", "x y"])
    log = piwo.read(frame, where='day < 3 and "only here" is null')
    assert len(log) == sum(i % 5 < 3 for i in range(3 * N))


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()], ids=str
)
def test_text_is_text_however_it_is_written(spark: Any, tmp_path: Path, kind: pa.DataType) -> None:
    table = rows()
    written = table.set_column(0, "action", table["action"].cast(kind))
    try:
        pq.write_table(written, tmp_path / "a.parquet")
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow {pa.__version__} writes no {kind}")
    pq.write_table(table, tmp_path / "b.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert "action" in seen(frame)[1]
    log = piwo.read(frame)
    assert log.actions.labels == ("a", "b")
    assert len(log) == 2 * N


LISTS = [
    pa.list_(pa.float64(), 2),
    pa.large_list(pa.float64()),
    pa.list_(pa.field("x", pa.float64(), nullable=False)),
]


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_lists_are_lists_however_they_are_written(
    spark: Any, tmp_path: Path, kind: pa.DataType
) -> None:
    table = rows().append_column("mu", [pa.array([[0.25, 0.75], [0.75, 0.25]] * (N // 2), kind)])
    pq.write_table(table, tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert "mu" in seen(frame)[1]
    log = piwo.read(frame, propensity=None, propensities="mu", actions=["a", "b"])
    here = piwo.read(table, propensity=None, propensities="mu", actions=["a", "b"])
    uniform = piwo.policies.Uniform(["a", "b"])
    assert piwo.evaluate(log, uniform).value == pytest.approx(
        piwo.evaluate(here, uniform).value, rel=1e-12
    )


def test_types_that_differ_are_read_by_spark(spark: Any, tmp_path: Path) -> None:
    table = rows().append_column("when", [pa.array([0] * N, pa.timestamp("us", tz="Asia/Tokyo"))])
    table = table.append_column("small", [pa.array([1] * N, pa.uint8())])
    pq.write_table(table.append_column("both", [[[0.5, 0.5]] * N]), tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert seen(frame) == (1, [*COLUMNS, "both"])
    with setting(spark, "spark.sql.execution.arrow.useLargeVarTypes", "true"):
        assert seen(frame) == (1, [*COLUMNS, "both"])
        assert reduce(piwo.read(frame), Digest()).rows == N


def test_a_column_that_folders_name_is_theirs(spark: Any, tmp_path: Path) -> None:
    """Spark takes day from the folder, whatever the file in it says."""
    for day in (7, 8):
        (tmp_path / f"day={day}").mkdir()
        table = rows()
        table = table.set_column(
            3, "day", table["day"].cast(pa.int32())
        )  # the type that Spark gives to folders
        pq.write_table(table, tmp_path / f"day={day}" / "a.parquet")
    frame = spark.read.parquet(str(tmp_path))
    files, columns = seen(frame)
    assert (files, sorted(columns)) == (2, sorted(set(COLUMNS) - {"day"}))
    assert len(piwo.read(frame, where="day = 7")) == N


def test_a_table_of_the_catalog_is_its_files(spark: Any, folder: Path) -> None:
    spark.sql("drop table if exists decisions_in_files")
    spark.sql(f"create table decisions_in_files using parquet location '{folder}'")
    try:
        assert seen(spark.table("decisions_in_files"))[0] == 3
        assert len(piwo.read("spark:decisions_in_files")) == 3 * N
        assert (
            len(
                piwo.read(
                    "spark:select action, reward, propensity from decisions_in_files where day = 0"
                )
            )
            == 240
        )
    finally:
        spark.sql("drop table decisions_in_files")


def test_a_table_in_parts_is_its_files_without_the_column_of_the_folders(
    spark: Any, tmp_path: Path
) -> None:
    for day in (7, 8):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(rows().drop(["day"]), tmp_path / f"day={day}" / "a.parquet")
    columns = "action string, reward double, propensity double, `x y` double, day int"
    spark.sql("drop table if exists decisions_by_day")
    spark.sql(
        f"create table decisions_by_day ({columns}) using parquet partitioned by (day) location "
        f"'{tmp_path}'"
    )
    try:
        spark.sql("msck repair table decisions_by_day")
        assert seen(spark.table("decisions_by_day")) == (
            2,
            ["action", "reward", "propensity", "x y"],
        )
        assert reduce(piwo.read("spark:decisions_by_day"), Digest()).rows == 2 * N
        assert len(piwo.read("spark:decisions_by_day", where="day = 7")) == N
        assert seen(spark.sql("select * from decisions_by_day where day = 7")) == (0, [])
        assert len(piwo.read("spark:select * from decisions_by_day where day = 7")) == N
    finally:
        spark.sql("drop table decisions_by_day")


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("file:/b/day%3D1%20%25/a.parquet", "/b/day=1 %/a.parquet"),
        ("file:///b", "/b"),
        ("s3a://b/a", None),
        ("hdfs://n:8020/a", None),
        ("dbfs:/a", None),
        ("file://host/a", None),
        ("/a", None),
    ],
)
def test_paths_that_not_all_machines_share_are_read_by_spark(
    monkeypatch: pytest.MonkeyPatch, address: str, path: str | None
) -> None:
    pytest.importorskip("py4j", reason="needs Spark: pip install 'piwo[spark]'")
    relation = SimpleNamespace(
        options=lambda: SimpleNamespace(contains=lambda _: False),
        location=lambda: SimpleNamespace(inputFiles=lambda: [address, "file:/c"]),
        partitionSchema=lambda: SimpleNamespace(fieldNames=list),
    )
    monkeypatch.setattr(spark_files, "_relation", lambda frame: relation)
    session = SimpleNamespace(
        sparkContext=None, conf=SimpleNamespace(get=lambda name, value: value)
    )
    scan = spark_files.scan_of(SimpleNamespace(sparkSession=session))
    assert (scan and sorted(scan[0])) == (path and sorted([path, "/c"]))


def test_sessions_that_show_no_plans_read_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = pytest.importorskip("py4j.protocol", reason="needs Spark: pip install 'piwo[spark]'")

    def refused(frame: Any) -> Any:
        raise errors.Py4JError("Method queryExecution([]) is not whitelisted")

    monkeypatch.setattr(spark_files, "_relation", refused)
    remote, closed = SimpleNamespace(), SimpleNamespace(sparkContext=None)
    for session in (remote, closed):
        frame = SimpleNamespace(sparkSession=session)
        assert ParquetFiles.of(frame, rows().schema).tasks(["reward"]) == []


def test_a_file_that_is_named_twice_is_read_twice(spark: Any, folder: Path) -> None:
    frame = spark.read.parquet(str(folder), str(folder / "part-0.parquet"))
    assert seen(frame) == (0, [])
    assert reduce(piwo.read(frame), Digest()).rows == 4 * N


def test_a_column_that_folders_name_is_theirs_in_any_case(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "Day=7").mkdir()
    table = rows()
    table = table.set_column(3, "day", table["day"].cast(pa.int32()))
    pq.write_table(table, tmp_path / "Day=7" / "a.parquet")
    frame = spark.read.parquet(str(tmp_path)).select("action", "reward", "propensity", "day")
    assert seen(frame) == (1, ["action", "reward", "propensity"])
    assert len(piwo.read(frame, where="day = 7")) == N


def test_columns_whose_names_differ_in_case_are_refused_by_spark(
    spark: Any, tmp_path: Path
) -> None:
    pq.write_table(rows().append_column("REWARD", [np.ones(N)]), tmp_path / "a.parquet")
    frame = spark.read.schema("action string, reward double, propensity double").parquet(
        str(tmp_path)
    )
    assert seen(frame) == (1, ["action", "propensity"])
    with pytest.raises(DataError, match=r"^Spark could not read the Spark DataFrame: "):
        reduce(piwo.read(frame, actions=["a", "b"]), Digest())


def test_damaged_files_are_left_out_where_spark_is_told_to(spark: Any, folder: Path) -> None:
    damaged = folder / "part-1.parquet"
    frame = spark.read.parquet(str(folder))
    damaged.write_bytes(b"PAR1" + bytes(900) + damaged.read_bytes()[904:])
    assert seen(frame)[0] == 3
    asked = spark.read.option("ignoreCorruptFiles", True).schema(frame.schema).parquet(str(folder))
    assert seen(asked) == (0, [])
    with setting(spark, "spark.sql.files.ignoreCorruptFiles", "true"):
        assert seen(frame) == (0, [])
        assert reduce(piwo.read(frame), Digest()).rows == 2 * N


def test_days_of_the_old_calendar_are_read_by_spark(spark: Any, tmp_path: Path) -> None:
    old = str(tmp_path / "old")
    with setting(spark, "spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"):
        spark.sql("select date'1200-01-01' as day, 1.5D as reward").write.parquet(old)
    assert seen(spark.read.parquet(old)) == (1, ["reward"])
    new = tmp_path / "new.parquet"
    pq.write_table(pa.table({"day": pa.array([0], pa.date32()), "reward": [1.5]}), new)
    assert seen(spark.read.parquet(str(new))) == (1, ["day", "reward"])
    assert seen(spark.read.option("datetimeRebaseMode", "LEGACY").parquet(str(new))) == (0, [])


def test_columns_by_number_are_read_by_spark(spark: Any, folder: Path) -> None:
    frame = spark.read.parquet(str(folder))
    with setting(spark, "spark.sql.parquet.fieldId.read.enabled", "true"):
        assert seen(frame) == (0, [])


def test_rows_in_memory_are_spark_s_whenever_they_came_there(spark: Any, folder: Path) -> None:
    frame = spark.read.parquet(str(folder))
    assert seen(frame)[0] == 3
    frame.cache().count()
    try:
        assert seen(frame) == (0, [])
    finally:
        frame.unpersist()


def test_other_formats_are_read_by_spark(
    spark: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = str(tmp_path_factory.mktemp("other") / "csv")
    spark.read.parquet(str(folder)).write.option("header", True).csv(place)
    assert seen(spark.read.option("header", True).csv(place)) == (0, [])
    assert seen(spark.range(5)) == (0, [])


def test_files_without_rows_and_no_files_are_an_error_as_ever(spark: Any, tmp_path: Path) -> None:
    reader = spark.read.schema("action string, reward double, propensity double")
    for files in (0, 1):
        with pytest.raises(DataError, match="no rows in the Spark DataFrame"):
            reduce(piwo.read(reader.parquet(str(tmp_path)), actions=["a"]), Digest())
        assert seen(reader.parquet(str(tmp_path)))[0] == files
        pq.write_table(rows().slice(0, 0), tmp_path / "a.parquet")


def test_a_file_that_goes_away_is_one_line(spark: Any, folder: Path) -> None:
    log = piwo.read(spark.read.parquet(str(folder)))
    assert reduce(log, Digest()).rows == 3 * N
    (folder / "part-1.parquet").unlink()
    with pytest.raises(
        DataError,
        match=r"^Spark could not read [^\n]*FileNotFoundError: [^\n]*part-1.parquet[^\n]*$",
    ):
        reduce(log, Digest())


@dataclass(frozen=True)
class Stumbles(Digest):
    """A digest that meets an accident where it is summed, once."""

    accident: Accident = "raises"
    once: str = ""

    def update(self, state: Any, batch: Any) -> Any:
        go_wrong_once(self.accident, self.once)
        return super().update(state, batch)


@pytest.mark.parametrize("accident", ["raises", "killed"])
def test_a_task_that_fails_and_a_worker_that_dies_change_nothing(
    spark: Any, tmp_path: Path, accident: Any
) -> None:
    from pyspark import cloudpickle as sparks_own

    import tests.engines.clusters
    import tests.sources.test_spark_files as here

    sparks_own.register_pickle_by_value(tests.engines.clusters)
    sparks_own.register_pickle_by_value(here)
    (tmp_path / "rows").mkdir()
    table = laws.table()
    frame = SparkFilesHome(spark, tmp_path / "rows").frame([table.slice(0, 700), table.slice(700)])
    assert seen(frame)[0] == 2
    roles = {"propensity": "propensity", "weight": "weight", "actions": range(laws.ACTIONS)}
    once = tmp_path / "once"
    found = reduce(piwo.read(frame, **roles), Stumbles(accident=accident, once=str(once)))
    assert once.exists()
    assert found == reduce(piwo.read(table, **roles), Digest())


def test_a_file_that_is_written_anew_is_one_line(spark: Any, folder: Path) -> None:
    """Its first row groups would be as many rows as before."""
    log = piwo.read(spark.read.parquet(str(folder)))
    assert reduce(log, Digest()).rows == 3 * N
    table = pq.read_table(folder / "part-1.parquet")
    pq.write_table(
        pa.concat_tables([table, rows(9 * N)]), folder / "part-1.parquet", row_group_size=150
    )
    with pytest.raises(
        DataError,
        match=r"^Spark could not read [^\n]*part-1.parquet' had \d+ bytes[^\n]*now[^\n]*$",
    ):
        reduce(log, Digest())
