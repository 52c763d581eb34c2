"""A table in memory as a source."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from piwo.sources.lines import RowLines
from piwo.sources.source import BATCH_ROWS, Fragment, Source, batches_of, fragment_rows

__all__ = ["TableSource", "has_name"]


@dataclass(frozen=True)
class TableSlice:
    """Fragment: rows of an Arrow table."""

    table: pa.Table
    start: int

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        yield from batches_of(self.table)


@dataclass(frozen=True)
class TableSource:
    """A table in memory.

    Args:
        table: the rows.
        name: of the source in messages.
        skipped: how many lines of the files that it was read from are not rows, by reason.
        named: whether the name is that of files: a data frame has no name of its own.
        lines: where in these files its rows are; None: not known.
    """

    table: pa.Table
    name: str = "the data frame"
    skipped: Mapping[str, int] = field(default_factory=dict)
    named: bool = False
    lines: RowLines | None = field(default=None, compare=False)
    steady: ClassVar[bool] = True

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return slices of a few batches each."""
        table, step = self.table.select(list(columns)), fragment_rows()
        return [TableSlice(table.slice(at, step), at) for at in range(0, table.num_rows, step)]

    def source_id(self) -> tuple[Any, ...]:
        """Return a digest of the rows."""
        digest = hashlib.sha256()
        for at in range(0, self.rows, BATCH_ROWS):
            # Combined, so that the chunks of the table make no difference.
            for record in self.table.slice(at, BATCH_ROWS).combine_chunks().to_batches():
                digest.update(record.serialize())
        return ("table", str(self.schema), self.rows, digest.hexdigest())


def has_name(source: Source) -> bool:
    """Return whether a source has a name of its own, as files have, and data frames have not.

    >>> has_name(TableSource(pa.table({"x": [1]})))
    False
    """
    return source.named if isinstance(source, TableSource) else True
