"""A private copy of rows that another pass might give differently: in memory while it is small, else on disk."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from piwo.errors import DataError, FileError
from piwo.sources.parquet import ParquetSource
from piwo.sources.source import BATCH_ROWS, Source
from piwo.sources.table import TableSource

__all__ = ["IN_MEMORY", "spooled"]

IN_MEMORY = 256 * 2**20
"""Bytes of rows that are kept in memory; more are written to a temporary file."""


def spooled(source: Source, columns: Sequence[str], in_memory: int = IN_MEMORY) -> Source:
    """Return a source with the same rows in the same order at every pass, read from another in one pass.

    What is larger than `in_memory` bytes goes to a Parquet file in the folder for temporary files
    (`TMPDIR` moves it), which is removed with the returned source.

    Args:
        source: a query, say, which may give its rows in another order, or other rows, when it runs
            again.
        columns: what is needed of it.
        in_memory: bytes up to which the rows stay in memory.

    Raises:
        DataError: where there are no rows.
        FileError: where the temporary file cannot be written.

    >>> frame = TableSource(pa.table({"x": [1, 2], "y": [3, 4]}))
    >>> spooled(frame, ["x"]).schema.names
    ['x']
    """
    held: list[pa.RecordBatch] = []
    size = 0
    records = (record for part in source.fragments(columns) for record in part.records())
    for record in records:
        held.append(record)
        size += record.nbytes
        if size > in_memory:
            return _on_disk(source, held, records)
    if not held:
        raise DataError(f"no rows in {source.name}, expected at least one logged decision")
    return TableSource(pa.Table.from_batches(held), source.name)


def _on_disk(source: Source, held: list[pa.RecordBatch], more: Iterator[pa.RecordBatch]) -> Source:
    import pyarrow.parquet as pq

    folder = Path(tempfile.mkdtemp(prefix="piwo-"))
    path = folder / "rows.parquet"
    try:
        with pq.ParquetWriter(path, held[0].schema) as writer:
            while held:
                writer.write_table(pa.Table.from_batches(held), row_group_size=4 * BATCH_ROWS)
                held = [record for record, _ in zip(more, range(16), strict=False)]
        copy = ParquetSource([str(path)])
    except BaseException as cause:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(cause, OSError):
            raise FileError(
                f"the rows of {source.name} do not fit on disk at {str(folder)!r} ({cause}); make "
                "room, or set TMPDIR"
            ) from None
        raise
    copy.name = source.name
    weakref.finalize(copy, shutil.rmtree, folder, ignore_errors=True)
    return copy
