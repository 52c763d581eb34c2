"""Logs whose rows lie on other machines: what is asked of every one of their partitions, there.

A cluster source folds: `fold(columns, one, merge)` hands every partition to `one` where its rows
lie, and what comes back, a few bytes each, to `merge`, level by level. Rows are numbered within
their partition alone, because no pass promises another one's order.
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
"""What is made of a partition."""
Merge = Callable[[Iterable[bytes]], bytes]
"""What is made of several of these; of none, too."""


class Cluster(ABC):
    """Base of every source whose rows lie on other machines, which map and fold by themselves. It knows no formula."""

    name: str
    rows: ClassVar[int | None] = None
    steady: ClassVar[bool] = False

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""

    @abstractmethod
    def fold(self, columns: Sequence[str], one: One, merge: Merge) -> bytes:
        """Return the merge of what one makes of every partition, reading only these columns.

        Raises:
            DataError: in one line, where the cluster gives up.
        """

    def source_id(self) -> tuple[Any, ...]:
        """Tell nothing: a cluster repeats what fails by itself.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"no checkpoint can be kept of {self.name}, whose rows lie in a cluster: it repeats "
            "what fails by itself; compute without a checkpoint"
        )

    @abstractmethod
    def head(self, columns: Sequence[str]) -> Fragment:
        """Return a few rows, here; none only where there are no rows at all."""

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (as every source)
        """Refuse: rows do not leave the cluster.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"rows of {self.name} stay in the cluster, and this needs them on one machine; use "
            "what works on sums (evaluate, check, certify, the Ridge and Exhaustive oracles), or "
            "read a sample that fits"
        )


@dataclass(frozen=True)
class Partition:
    """Fragment: the rows of one partition, where they lie; they can be read once.

    Args:
        number: of the partition.
        columns: how its columns are called.
        batches: its rows; the names in them do not count.
    """

    number: int
    columns: Sequence[str]
    batches: Iterable[pa.RecordBatch]

    @property
    def start(self) -> int:
        """The row number of its first row."""
        return first_of(self.number)

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches of about `BATCH_ROWS` rows, whatever the cluster sends at once."""
        held: list[pa.RecordBatch] = []
        for batch in self.batches:
            held.append(pa.RecordBatch.from_arrays(batch.columns, names=list(self.columns)))
            if (
                sum(len(x) for x in held) >= BATCH_ROWS
                or sum(x.nbytes for x in held) >= BATCH_BYTES
            ):
                yield from _joined(held)
                held = []
        yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        yield from (
            pa.Table.from_batches(batches).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        )
    else:
        yield from (x.slice(at, BATCH_ROWS) for x in batches for at in range(0, len(x), BATCH_ROWS))
