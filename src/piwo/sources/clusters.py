"""Logs whose rows are on other machines, which reduce each partition in place.

`fold(columns, one, merge)` calls `one` on every partition, on the machine that has its rows, and
merges the results, a few bytes each, level by level. Rows are numbered within their partition,
because the order of the partitions may differ between passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from piwo.errors import UsageError
from piwo.sources.row_labels import first_of
from piwo.sources.source import BATCH_BYTES, BATCH_ROWS, Fragment

__all__ = ["Cluster", "Merge", "One", "Partition"]

One = Callable[[Fragment], bytes]
"""The state of a partition."""
Merge = Callable[[Iterable[bytes]], bytes]
"""The state of several partitions from the state of each; there may be none."""


class Cluster(ABC):
    """Base of every source whose rows are on other machines, which reduce them there."""

    name: str
    rows: ClassVar[int | None] = None
    steady: ClassVar[bool] = False

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""

    @abstractmethod
    def fold(self, columns: Sequence[str], one: One, merge: Merge) -> bytes:
        """Return the merged states of all partitions, reading only these columns.

        Raises:
            DataError: if the cluster gives up.
        """

    def source_id(self) -> tuple[Any, ...]:
        """Raise: no checkpoint is kept, as a cluster repeats by itself what fails.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"no checkpoint can be kept of {self.name}, whose rows are in a cluster: "
            "it repeats what fails by itself; compute without a checkpoint"
        )

    @abstractmethod
    def head(self, columns: Sequence[str]) -> Fragment:
        """Return a few rows on this machine; none only if the source has no rows."""

    @abstractmethod
    def together(self, column: str) -> Cluster:
        """Return the same rows with equal values of a column as neighbors, in one partition."""

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (as every source)
        """Raise: rows do not leave the cluster.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"rows of {self.name} stay in the cluster, and this needs them on one "
            "machine; use what works on sums (evaluate, check, certify, the Ridge and "
            "Exhaustive oracles), or read a sample that fits"
        )


@dataclass(frozen=True)
class Partition:
    """Fragment: the rows of one partition, on its machine; they can be read once.

    Args:
        number: of the partition.
        columns: the names of its columns.
        batches: its rows; the names in them are replaced.
    """

    number: int
    columns: Sequence[str]
    batches: Iterable[pa.RecordBatch]

    @property
    def start(self) -> int:
        """The row number of its first row."""
        return first_of(self.number)

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches of about `BATCH_ROWS` rows."""
        # Clusters send batches of any size; many small ones would be slow to reduce.
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self.batches:
            held.append(pa.RecordBatch.from_arrays(batch.columns, names=list(self.columns)))
            rows += len(batch)
            size += batch.nbytes
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield from _joined(held)
                held = []
                rows = size = 0
        yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        table = pa.Table.from_batches(batches).combine_chunks()
        yield from table.to_batches(max_chunksize=BATCH_ROWS)
        return
    # A single batch is cut without a copy.
    for batch in batches:
        for at in range(0, len(batch), BATCH_ROWS):
            yield batch.slice(at, BATCH_ROWS)
