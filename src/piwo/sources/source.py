"""What every source of rows offers, and how rows are cut into batches.

A source knows its columns and splits into fragments, which engines map over. A fragment is
picklable and can be read again. Tables are split into slices, Parquet files into row groups. A
query (SQL, CSV, JSON, a filter) is a single fragment: DuckDB reads it with its own threads, and its
rows are folded piece by piece as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "Fragment",
    "Source",
    "Streamed",
    "batches_of",
    "cut",
    "decoded",
    "fragment_rows",
    "list_entries",
    "pieces_of",
    "rows_within",
    "type_family",
]

BATCH_ROWS = 65_536
"""Rows of a batch: its arrays stay in a core's cache."""
BATCH_BYTES = 2**25
"""Bytes of a batch as float64. Rows of thousands of numbers (propensity vectors, a wide context)
make smaller batches."""


@runtime_checkable
class Fragment(Protocol):
    """A part of a source that can be read on its own, in any process."""

    @property
    def start(self) -> int:
        """The row number of its first row."""
        ...

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches of at most `BATCH_ROWS` rows."""
        ...


@runtime_checkable
class Streamed(Fragment, Protocol):
    """A fragment of any size, read as a stream: its first rows are folded while more are read."""

    def pieces(self) -> Iterator[Fragment]:
        """Yield its rows in order, in memory, cut at the same rows every time."""
        ...


@runtime_checkable
class Source(Protocol):
    """Rows in some place."""

    @property
    def name(self) -> str:
        """Its name in messages, without passwords."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        ...

    @property
    def rows(self) -> int | None:
        """The number of rows; None if only a pass can count them."""
        ...

    @property
    def steady(self) -> bool:
        """Whether every pass gives the same rows in the same order."""
        ...

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the fragments, which read only these columns."""
        ...

    def source_id(self) -> tuple[Any, ...]:
        """Return what identifies these rows: plain values, the same in every process."""
        ...


def batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    """Return a table as batches of at most `BATCH_ROWS` rows; nothing is copied.

    >>> [len(x) for x in batches_of(pa.table({"x": [1, 2, 3]}))]
    [3]
    """
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=BATCH_ROWS)
    return batches


def fragment_rows() -> int:
    """Return how many rows a fragment should have: a few batches.

    >>> fragment_rows()
    262144
    """
    return 4 * BATCH_ROWS


def cut(record: pa.RecordBatch, width: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in parts whose numbers fit into `BATCH_BYTES`.

    Args:
        record: rows; every entry of a list or an object counts.
        width: further numbers that are computed for each row.

    >>> [len(x) for x in cut(pa.record_batch({"x": [1, 2, 3]}), width=2**21)]
    [2, 1]
    """
    rows = record.num_rows
    step = rows_within(list_entries(record) / max(rows, 1) + width)
    if rows <= step:
        yield record
        return
    for at in range(0, rows, step):
        yield record.slice(at, step)


def list_entries(record: pa.RecordBatch) -> int:
    """Return how many entries the lists and objects of some rows have.

    >>> list_entries(pa.record_batch({"p": [[1, 2], [3]]}))
    3
    """
    entries = 0
    for column in record.columns:
        family = type_family(column.type)
        if family == "list":
            # The sum of no rows is null.
            entries += pc.sum(pc.list_value_length(column)).as_py() or 0
        elif family == "map" and len(column):
            entries += column.offsets[-1].as_py() - column.offsets[0].as_py()
        elif family == "struct":
            entries += len(column) * column.type.num_fields
    return entries


def rows_within(width: float) -> int:
    """Return how many rows of `width` numbers each make a batch.

    >>> rows_within(0), rows_within(2**20)
    (65536, 4)
    """
    if not width:
        return BATCH_ROWS
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / (8 * width))))


@dataclass(frozen=True)
class _Piece:
    """Rows of a stream, in memory until they are folded."""

    table: pa.Table
    start: int

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, cut at the same rows no matter how they arrived."""
        for record in batches_of(self.table.combine_chunks()):
            yield from cut(record)


def pieces_of(records: Iterable[pa.RecordBatch], start: int = 0) -> Iterator[Fragment]:
    """Yield the rows of a stream as fragments of a few batches each.

    >>> batch = pa.record_batch({"x": [1, 2]})
    >>> [piece.start for piece in pieces_of([batch] * 3)]
    [0]
    """
    held: list[pa.RecordBatch] = []
    step = count = 0
    for record in records:
        if not step:
            # The first row decides, so that every pass cuts at the same rows.
            step = 4 * rows_within(list_entries(record.slice(0, 1)))
        held.append(record)
        count += record.num_rows
        if count >= step:
            table = pa.Table.from_batches(held)
            whole = count - count % step
            for at in range(0, whole, step):
                yield _Piece(table.slice(at, step), start + at)
            held, count, start = table.slice(whole).to_batches(), count - whole, start + whole
    if count:
        yield _Piece(pa.Table.from_batches(held), start)


def decoded(values: Any) -> pa.Array:
    """Return values as one plain array, however they are encoded.

    >>> decoded(pa.chunked_array([["a"], ["a"]]).dictionary_encode()).to_pylist()
    ['a', 'a']
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return values


def type_family(kind: pa.DataType) -> str:
    """Return the family of a type; files of one log may differ within it.

    >>> type_family(pa.int8()), type_family(pa.large_string()), type_family(pa.date32())
    ('integer', 'text', 'date32[day]')
    """
    types = pa.types
    if types.is_dictionary(kind):
        return type_family(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list"
    if types.is_map(kind) or types.is_struct(kind):
        # Files of one log may name other labels.
        return "map" if types.is_map(kind) else "struct"
    return str(kind)
