"""A log gives the same rows at every pass: chance is refused wherever it hides, clocks stand
still."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.errors import DataError, UsageError
from piwo.logs import read
from piwo.reductions import Digest, reduce
from piwo.sources.query import QuerySource
from piwo.sources.table import TableSource

N = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as Parquet, CSV, JSON lines and a DuckDB file that has views and macros."""
    place = tmp_path_factory.mktemp("rows")
    random = np.random.default_rng(0)
    rows = pa.table(
        {
            "action": random.integers(0, 2, N).astype(str),
            "reward": random.integers(0, 2, N) * 1.0,
            "propensity": np.full(N, 0.5),
            "id": np.arange(N),
            "x": random.normal(size=N),
        }
    )
    pq.write_table(rows, place / "log.parquet")
    with duckdb.connect(str(place / "log.db")) as connection:
        connection.register("rows", rows)
        connection.execute(f"copy rows to '{place}/log.csv'")
        connection.execute(f"copy rows to '{place}/log.jsonl' (format json)")
        connection.execute("create table log as select * from rows")
        connection.execute("create macro coin(p) as random() < p")
        connection.execute("create macro tossed(p) as table select * from log where coin(p)")
        connection.execute('create view "as is" as select * from log')
        connection.execute('create view "half as many" as select * from tossed(0.5)')
    return place


CONDITIONS = [
    ("random() < 0.9", "random()"),
    ('"RANDOM"() < 0.9', "random()"),
    ("x > 0 and uuid()::varchar < '8'", "uuid()"),
    ("id in (select id from range(9) t(id) using sample 3 rows)", "a sample without a seed"),
]


@pytest.mark.parametrize(("where", "what"), CONDITIONS)
@pytest.mark.parametrize(
    "place", ["log.parquet", "log.csv", "log.jsonl", "duckdb:log.db#log", "frame", "query"]
)
def test_a_condition_that_tosses_coins_is_refused(
    where: str, what: str, place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    source: Any = {"frame": pq.read_table("log.parquet"), "query": "from 'log.parquet'"}.get(
        place, place
    )
    with pytest.raises(UsageError) as caught:
        read(source, where=where)
    assert str(caught.value).startswith(f"{what} in ")
    assert "hash(id)" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("select * from 'log.parquet' where random() < 0.5", "random()"),
        ("select * from 'log.parquet' order by random()", "random()"),
        (
            (
                "with a as (select * exclude reward, (random() < 0.5)::int as reward from "
                "'log.parquet') from a"
            ),
            "random()",
        ),
        ("select * from 'log.parquet' using sample 50%", "a sample without a seed"),
        ("select * from 'log.parquet' tablesample system(50%)", "a sample without a seed"),
        ("from (pivot (select *, random() as r from 'log.parquet') on id)", "random()"),
        ("duckdb:log.db#half as many", "random()"),
    ],
)
def test_a_query_that_tosses_coins_is_refused(
    query: str, what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError) as caught:
        read(query)
    if "pivot" in query and duckdb.__version__ < "2":  # two statements there, refused for that
        assert str(caught.value).startswith("got 2 SQL statements")
    else:
        assert "at every pass" in str(caught.value)
        assert str(caught.value).startswith(f"{what} in ")


def test_functions_of_a_connection_are_known(folder: Path) -> None:
    with duckdb.connect(str(folder / "log.db"), read_only=True) as connection:
        for rows in ("tossed(0.5)", '(select * from "as is" where coin(0.5))', '"half as many"'):
            with pytest.raises(UsageError, match=r"^random\(\) in "):
                piwo.Log.from_sql(f"select * from {rows}", connection=connection)
        connection.create_function("toss", lambda x: x, ["BIGINT"], "BIGINT", side_effects=True)  # type: ignore[list-item, arg-type]
        with pytest.raises(UsageError, match=r"^toss\(\) in "):
            piwo.Log.from_sql("select * from log where toss(id) > 3", connection=connection)
        assert len(piwo.Log.from_sql('select * from "as is"', connection=connection)) == N


def test_what_is_the_same_each_time_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for where in (
        "hash(id) % 10 < 9",
        "x > 0 and 'random()' <> action",
        "case when x is null then error('x') else true end",
    ):
        log = read("log.parquet", where=where)
        assert len({reduce(log, Digest()) for _ in range(3)}) == 1
    for query in (
        "select *, 1 as random from 'log.parquet'",
        "select * from 'log.parquet' tablesample bernoulli(50%) repeatable (7)",
        "select * from 'log.parquet' using sample 50% (bernoulli, 7)",
    ):
        log = read(query)
        assert len({reduce(log, Digest()) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    "clock", ["now()", "current_timestamp", "get_current_timestamp()", "transaction_timestamp()"]
)
def test_clocks_stand_still(clock: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    # one row more each 5 ms, from now on
    log = read(
        "log.parquet", where=f"epoch_ms({clock}) >= {time.time_ns() // 10**6} + 5 * (id - 100)"
    )
    first = reduce(log, Digest())
    time.sleep(0.05)
    assert reduce(log, Digest()) == first
    again = read(
        "log.parquet", where=f"epoch_ms({clock}) >= {time.time_ns() // 10**6} + 5 * (id - 100)"
    )
    assert 0 < first.rows < N
    assert reduce(again, Digest()).rows < N


@pytest.mark.parametrize(
    "clock", ["today()", "current_date", "localtime", "current_time", "localtimestamp"]
)
def test_clocks_keep_their_types(clock: str) -> None:
    source = QuerySource(f"select {clock} as x, typeof({clock}) as kind")
    with duckdb.connect() as connection:
        expected = connection.execute(f"select typeof({clock})").fetchall()
    (record,) = source.fragments(["kind"])[0].records()
    assert record["kind"].to_pylist() == [expected[0][0]]
    assert len(source.setup) == 1


def test_days_keep_their_checkpoint(folder: Path) -> None:
    def made() -> tuple[Any, ...]:
        return read(
            f"{folder}/log.parquet", where="date '2026-01-01' + id::int >= current_date - 7"
        ).source.source_id()

    assert made() == made()


@dataclass(frozen=True)
class Growing:
    """A source that has a row more at each pass."""

    parts: list[TableSource]
    name: str = "a moving log"
    rows: None = None
    steady: bool = True

    @property
    def schema(self) -> pa.Schema:
        return self.parts[0].schema

    def fragments(self, columns: Any) -> Any:
        return self.parts.pop(0).fragments(columns)

    def identity(self) -> tuple[Any, ...]:
        return ()


def test_a_log_that_changes_between_passes_is_told() -> None:
    table = pa.table(
        {"action": ["a", "b", "a"], "reward": [0.0, 1.0, 1.0], "propensity": [0.5] * 3}
    )
    log = read(Growing([TableSource(table.slice(0, n)) for n in (2, 2, 3)]), actions=["a", "b"])
    assert reduce(log, Digest()).rows == 2
    assert reduce(log, Digest()).rows == 2
    with pytest.raises(DataError, match="a moving log had 2 rows at one pass and 3 at another"):
        reduce(log, Digest())
