"""Engines: the same numbers everywhere, clear refusals from workers, progress, and no rows."""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo.engines import reporting, using
from piwo.errors import DataError, PiwoError, PiwoWarning, UsageError
from piwo.logs import Log, read
from piwo.policies import Uniform
from piwo.reductions import ActionTable, Digest, PolicySums, reduce
from piwo.scores import IX
from piwo.sources import source as sources_module
from piwo.sources.table import TableSource


def table(n: int = 1000) -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table(
        {
            "action": random.integers(0, 4, n),
            "reward": random.random(n),
            "propensity": random.random(n) * 0.9 + 0.1,
        }
    )


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 50)


def test_every_source_gives_the_same_state(tmp_path: Path, small_batches: None) -> None:
    rows = table()
    pq.write_table(rows, tmp_path / "one.parquet", row_group_size=70)
    for i in range(4):
        pq.write_table(rows.slice(250 * i, 250), tmp_path / f"part{i}.parquet", row_group_size=60)
    rows.to_pandas().to_csv(tmp_path / "log.csv", index=False)
    rows.to_pandas().to_json(
        tmp_path / "log.jsonl", orient="records", lines=True, double_precision=15
    )
    expected = reduce(read(rows), PolicySums(Uniform(range(4)), IX(0.1)))
    for source in (
        tmp_path / "one.parquet",
        f"{tmp_path}/part*.parquet",
        tmp_path / "log.csv",
        tmp_path / "log.jsonl",
        f"from '{tmp_path}/one.parquet'",
        rows.to_pandas(),
    ):
        result = reduce(read(source, actions=[0, 1, 2, 3]), PolicySums(Uniform(range(4)), IX(0.1)))
        assert result.moments.rows == 1000
        assert result.moments.rho == pytest.approx(expected.moments.rho, rel=1e-12)
        assert result.bets.value == pytest.approx(expected.bets.value, rel=1e-12)


def test_a_refusal_in_a_worker_is_the_refusal_of_the_whole_log(small_batches: None) -> None:
    bad = table().set_column(
        2, "propensity", pa.array(np.where(np.arange(1000) % 400 == 399, 0.0, 0.5))
    )
    words = r"column 'propensity' is 0, .* in 2 rows \(row numbers from 0: 399, 799\)"
    with pytest.raises(DataError, match=words):
        reduce(read(bad), Digest())
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        using(pool),
        pytest.raises(DataError, match=words),
    ):
        reduce(read(bad), Digest())
    # the block that failed left nothing behind
    assert reduce(read(table()), Digest()).rows == 1000


def dies(_: object) -> None:
    """End the process that works on it, as the system does when memory is short."""
    os._exit(9)


class Dying:
    """A mapper whose workers die."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    def map(self, function: object, fragments: list[Any]) -> Any:
        return self.pool.map(dies, range(len(fragments)))


def test_a_worker_that_dies_is_one_line() -> None:
    log = read(table())
    words = "a worker of Dying died .*fewer workers"
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        using(Dying(pool)),
        pytest.raises(PiwoError, match=words) as wrong,
    ):
        reduce(log, Digest())
    assert "\n" not in str(wrong.value)


def test_harmless_findings_become_one_warning(small_batches: None) -> None:
    hair = table().set_column(
        2, "propensity", pa.array(np.where(np.arange(1000) % 10 == 0, 1.00001, 0.5))
    )
    log, words = read(hair), r"in 100 rows .*: 0, 10, 20, 30, 40, "
    with pytest.warns(PiwoWarning, match=words) as caught:
        reduce(log, Digest())
    assert len(caught) == 1
    with (
        ThreadPoolExecutor(3) as pool,
        using(pool),
        pytest.warns(PiwoWarning, match=words) as caught,
    ):
        reduce(log, Digest())
    assert len(caught) == 1


def test_no_rows_are_an_error_whatever_left_them_out() -> None:
    with pytest.raises(DataError, match="no rows in the data frame"):
        reduce(read(table(0), actions=[1]), Digest())

    class Nothing:
        def keep(self, rows: Any) -> Any:
            return np.zeros(len(rows), bool)

    with pytest.raises(DataError, match="no rows in this part of the data frame"):
        reduce(read(table()).where(Nothing()), Digest())


def test_progress_counts_every_row_once(small_batches: None) -> None:
    told: list[tuple[int, int | None]] = []
    lock = Lock()

    def tell(rows: int, total: int | None) -> None:
        with lock:
            told.append((rows, total))

    with reporting(tell):
        reduce(read(table(), actions=range(4)), Digest())
    assert sum(rows for rows, _ in told) == 1000
    assert {total for _, total in told} == {1000}
    assert told[0] == (0, 1000)
    told.clear()
    part = read(table(), actions=range(4)).split(0.7).test
    with reporting(tell):
        reduce(part, Digest())
    assert sum(rows for rows, _ in told) == 1000  # those left out are read too
    told.clear()
    with reporting(tell):
        reduce(read(table(), actions=range(4), where="reward > 0.5"), Digest())
    assert sum(rows for rows, _ in told) == int((table()["reward"].to_numpy() > 0.5).sum())
    told.clear()
    reduce(read(table(), actions=range(4)), Digest())
    assert told == []
    with reporting(tell):
        assert len(read(table()).actions) == 4
    assert sum(rows for rows, _ in told) == 1000  # what is found out of a log is a pass, too


def test_only_the_columns_that_are_needed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    rows = table().append_column("x", pa.array(np.zeros(1000)))
    log = read(rows, context="x")
    log.schema  # noqa: B018
    plain: Callable[..., Any] = TableSource.fragments

    def noted(source: Any, columns: Any) -> Any:
        asked.append(tuple(columns))
        return plain(source, columns)

    monkeypatch.setattr(TableSource, "fragments", noted)
    reduce(log, ActionTable(4))
    assert asked == [("action", "reward", "propensity")]


def test_splitting_does_not_change_what_is_summed(small_batches: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = read(table())
        parts = log.split(0.4, seed=2)
        table_of = ActionTable(4)
        merged = table_of.merge(reduce(parts.train, table_of), reduce(parts.test, table_of))
    assert merged.inverse == pytest.approx(reduce(log, table_of).inverse, rel=1e-12)


def test_arrays_and_frames_are_the_same_log() -> None:
    rows = table()
    arrays = Log.from_arrays(**{x: rows[x].to_numpy() for x in rows.column_names})
    assert reduce(arrays, Digest()) == reduce(read(rows), Digest())


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda fn, parts: None, "map gave None, expected 3 results"),
        (lambda fn, parts: [fn(x) for x in parts[:-1]], "map gave 2 results, expected 3"),
        (lambda fn, parts: [fn(x) for x in [*parts, parts[0]]], "as result 4, expected 3"),
        (lambda fn, parts: [1, 2, 3], "map gave 1 as result 1"),
        (lambda fn, parts: [None] * 3, "map gave None as result 1"),
    ],
)
def test_a_mapper_gives_one_result_a_fragment(gives, message, tmp_path):
    rows = pa.table({"action": ["a", "b"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5]})
    for i in range(3):
        pq.write_table(rows, tmp_path / f"{i}.parquet")
    log = read(str(tmp_path / "*.parquet"), actions=["a", "b"])

    class Mapper:
        def map(self, fn, fragments):
            return gives(fn, list(fragments))

    with using(Mapper()), pytest.raises(UsageError, match=message):
        reduce(log, PolicySums(Uniform(["a", "b"]), IX(0.1)))
