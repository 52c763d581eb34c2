"""Copies of rows that may come in another order at the next pass, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Protocol, runtime_checkable

import pyarrow as pa

from piwo.errors import DataError, FileError
from piwo.sources.lines import RowLines
from piwo.sources.parquet import ParquetSource
from piwo.sources.source import BATCH_ROWS, Fragment, Source
from piwo.sources.table import TableSource
from piwo.sources.temporary import TemporaryFolder

__all__ = ["IN_MEMORY", "spooled"]

IN_MEMORY = 256 * 2**20
"""Bytes of rows that are kept in memory; more are written to a temporary file."""
_RECORDS_A_WRITE = 16


@runtime_checkable
class Rows(Protocol):
    """What can be copied: any source, or rows that are read once, such as those of a text file."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the fragments, which read only these columns."""
        ...


def spooled(
    source: Rows,
    columns: Sequence[str],
    in_memory: int | None = None,
    skipped: Mapping[str, int] | None = None,
    lines: RowLines | None = None,
) -> Source:
    """Return a copy of a source, read in one pass, with the same rows and order at every pass.

    What is larger than `in_memory` bytes goes to a Parquet file in the folder for temporary files
    (`TMPDIR` moves it), which is removed with the returned source.

    Args:
        source: such as a query, which may give other rows, or another order, when it runs again.
        columns: those that are copied.
        in_memory: bytes up to which the rows stay in memory; None: `IN_MEMORY`.
        skipped: how many lines are not rows, by reason, complete when the rows are read.
        lines: of the files, of each row.

    Raises:
        DataError: if there are no rows.
        FileError: if the temporary file cannot be written.

    >>> frame = TableSource(pa.table({"x": [1, 2], "y": [3, 4]}))
    >>> spooled(frame, ["x"]).schema.names
    ['x']
    """
    if in_memory is None:
        in_memory = IN_MEMORY
    held: list[pa.RecordBatch] = []
    size = 0
    records = chain.from_iterable(x.records() for x in source.fragments(columns))
    for record in records:
        held.append(record)
        size += record.nbytes
        if size > in_memory:
            copy = _on_disk(source, held, records)
            copy.skipped, copy.lines = skipped or {}, lines
            return copy
    if not held:
        raise DataError(f"no rows in {source.name}, expected at least one logged decision")
    # what is not a source is read from files, once
    named = not isinstance(source, Source)
    return TableSource(pa.Table.from_batches(held), source.name, skipped or {}, named, lines)


def _on_disk(
    source: Rows, held: list[pa.RecordBatch], more: Iterator[pa.RecordBatch]
) -> ParquetSource:
    import pyarrow.parquet as pq

    folder = TemporaryFolder()
    path = folder.path / "rows.parquet"
    try:
        with pq.ParquetWriter(path, held[0].schema) as writer:
            while held:
                writer.write_table(pa.Table.from_batches(held), row_group_size=4 * BATCH_ROWS)
                held = list(islice(more, _RECORDS_A_WRITE))
        copy = ParquetSource([str(path)])
    except BaseException as cause:
        folder.remove()
        if isinstance(cause, OSError):
            raise FileError(
                f"the rows of {source.name} do not fit on disk at {str(folder.path)!r} "
                f"({cause}); make room, or set TMPDIR"
            ) from None
        raise
    copy.name = source.name
    copy.folder = folder
    return copy
