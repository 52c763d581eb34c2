"""Rows that another pass might give differently are copied once, and the copy goes when it is no
longer needed."""

import gc
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.errors import DataError, FileError
from piwo.sources.source import Fragment, Source
from piwo.sources.spool import spooled
from piwo.sources.table import TableSource

ROWS = 150_000


@dataclass
class Shuffled:
    """A source that gives its rows in a new order at each pass, as a parallel query may."""

    table: pa.Table
    passes: int = 0
    name: str = "the query"
    steady: bool = False
    rows: int | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        self.passes += 1
        order = np.random.default_rng(self.passes).permutation(self.table.num_rows)
        return TableSource(self.table.take(order)).fragments(columns)

    def distinct(self, column: str) -> pa.Array:
        return self.table[column].unique()

    def identity(self) -> tuple[str, ...]:
        return ("shuffled",)


class Lost:
    """A part that cannot be read."""

    start = 0

    def records(self) -> Iterator[pa.RecordBatch]:
        raise DataError("the connection was lost")


@pytest.fixture
def shuffled() -> Shuffled:
    rng = np.random.default_rng(0)
    return Shuffled(
        pa.table(
            {
                "id": np.arange(ROWS),
                "text": pa.array(np.char.mod("item %d", np.arange(ROWS) % 7)).dictionary_encode(),
                "tiny": rng.random(ROWS) * 1e-300,
                "list": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(2 * ROWS)), 2),
            }
        )
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def read(source: Source) -> pa.Table:
    return pa.Table.from_batches(
        [x for part in source.fragments(source.schema.names) for x in part.records()]
    )


@pytest.mark.parametrize("in_memory", [0, 1_000_000, 2**40])
def test_a_copy_has_the_same_rows_in_one_order_wherever_it_is_kept(
    shuffled: Shuffled, folder: Path, in_memory: int
) -> None:
    copy = spooled(shuffled, ["id", "text", "tiny", "list"], in_memory)
    assert copy.steady
    assert copy.name == "the query"
    once, again = read(copy), read(copy)
    assert once.equals(again)
    order = once["id"].to_numpy()
    original = shuffled.table.take(order)
    for name in ("tiny", "list"):
        assert once[name].combine_chunks().equals(original[name].combine_chunks())
    assert once["text"].to_pylist()[:1000] == original["text"].to_pylist()[:1000]
    assert sorted(order) == list(range(ROWS))
    assert next(x.start for x in copy.fragments(["id"])) == 0
    assert len(list(folder.iterdir())) == (in_memory < 2**40)


def test_the_file_goes_with_the_copy(shuffled: Shuffled, folder: Path) -> None:
    copy = spooled(shuffled, ["id"], 0)
    assert list(folder.iterdir())
    del copy
    gc.collect()
    assert not list(folder.iterdir())


def test_a_failure_in_the_middle_leaves_no_file(shuffled: Shuffled, folder: Path) -> None:
    @dataclass
    class Torn(Shuffled):
        def fragments(self, columns: Sequence[str]) -> list[Fragment]:
            return [*super().fragments(columns), Lost()]

    with pytest.raises(DataError, match="the connection was lost"):
        spooled(Torn(shuffled.table), ["id"], 0)
    assert not list(folder.iterdir())


def test_no_room_is_one_line(
    shuffled: Shuffled, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(
        FileError, match=r"rows of the query do not fit on disk at .*No space left.*set TMPDIR"
    ):
        spooled(shuffled, ["id"], 0)


def test_no_rows_are_refused(shuffled: Shuffled) -> None:
    with pytest.raises(DataError, match="no rows in the query"):
        spooled(Shuffled(shuffled.table.slice(0, 0)), ["id"])


def test_a_split_of_rows_that_change_their_order_is_a_split(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piwo.logs.log.spooled", partial(spooled, in_memory=0))
    table = pa.table(
        {
            "action": np.arange(20_000) % 3,
            "reward": np.ones(20_000),
            "propensity": np.full(20_000, 1 / 3),
            "x": np.arange(20_000.0),
        }
    )
    split = piwo.read(Shuffled(table), context="x").split(seed=3)
    sides = [
        np.concatenate([b.context[:, 0] for b in one.each_batch(context=True)])
        for one in (split.train, split.test)
    ]
    assert sorted(np.concatenate(sides)) == list(range(20_000))
    assert len(sides[0]) == split.train_rows
    assert list(folder.iterdir())
