"""Logs whose rows lie on other machines: what is asked of every one of their partitions, there.

A cluster source folds: `fold(columns, one, merge)` hands every partition to `one` where its rows
lie, and what comes back, a few bytes each, to `merge`, level by level. Rows are numbered within
their partition alone, because no pass promises another one's order.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import UsageError
from piwo.logs.row_labels import first_of
from piwo.logs.validation import Finding, Refused, Schema, merge_findings, validate
from piwo.sources.source import BATCH_BYTES, BATCH_ROWS, Fragment, decoded

__all__ = ["Cluster", "Merge", "One", "Partition", "count_rows", "distinct_values", "verdicts"]

One = Callable[[Fragment], bytes]
"""What is made of a partition."""
Merge = Callable[[Iterable[bytes]], bytes]
"""What is made of several of these; of none, too."""
Kept = Callable[[Fragment], Iterable[pa.RecordBatch]]
"""The rows of a partition that are asked for."""
Records = Callable[[Fragment], Iterable[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]]
"""The same with their numbers in the log."""


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

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column, in no order."""
        return distinct_values(self, [column], lambda fragment: fragment.records())


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


# --- asked of every log


def count_rows(source: Cluster, columns: Sequence[str], kept: Kept) -> int:
    """Return how many rows are kept."""

    def one(fragment: Fragment) -> bytes:
        return _json(sum(record.num_rows for record in kept(fragment)))

    return int(
        json.loads(source.fold(columns, one, lambda parts: _json(sum(map(json.loads, parts)))))
    )


def distinct_values(source: Cluster, columns: Sequence[str], kept: Kept) -> pa.Array:
    """Return the distinct values of the first column in the rows that are kept, in no order."""

    def one(fragment: Fragment) -> bytes:
        return _bytes_of([decoded(pc.unique(record[columns[0]])) for record in kept(fragment)])

    def merge(parts: Iterable[bytes]) -> bytes:
        return _bytes_of([x for part in parts for x in _arrays_of(part)])

    found = _arrays_of(source.fold(columns, one, merge))
    return found[0] if found else decoded(pa.array([], source.schema.field(columns[0]).type))


def verdicts(
    source: Cluster, columns: Sequence[str], schema: Schema, records: Records
) -> tuple[Finding, ...]:
    """Return what the door says of every row, with counts over the whole log."""

    def one(fragment: Fragment) -> bytes:
        found: list[Finding] = []
        for record, rows in records(fragment):
            try:
                validate(record, schema, rows)
            except Refused as refused:
                found += refused.findings
        return _json([asdict(x) for x in merge_findings(found)])

    def merge(parts: Iterable[bytes]) -> bytes:
        return _json(
            [
                asdict(x)
                for x in merge_findings(_findings(x for part in parts for x in json.loads(part)))
            ]
        )

    return tuple(_findings(json.loads(source.fold(columns, one, merge))))


def _findings(made: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    return (Finding(**{**x, "rows": tuple(x["rows"])}) for x in made)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _bytes_of(arrays: list[pa.Array]) -> bytes:
    """Return the distinct values of arrays as an Arrow stream; nothing of no arrays."""
    if not arrays:
        return b""
    values = pc.unique(pa.chunked_array(arrays))
    file = io.BytesIO()
    with pa.ipc.new_stream(file, pa.schema([("values", values.type)])) as stream:
        stream.write_batch(pa.record_batch({"values": values}))
    return file.getvalue()


def _arrays_of(data: bytes) -> list[pa.Array]:
    return [x["values"] for x in pa.ipc.open_stream(data)] if data else []
