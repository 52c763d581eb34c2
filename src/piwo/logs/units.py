"""Rows of one unit, such as a user, depend on each other: passes by unit see all of them together.

A source by unit is a copy of another, on disk, in which the rows of a unit are neighbors. Its rows
keep their numbers. Clusters bring rows together by their own means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.engines.engine import fold
from piwo.engines.task import Task
from piwo.errors import DataError, FileError
from piwo.logs.batch import unit_slices
from piwo.logs.findings import Finding, Refused, merge_findings
from piwo.logs.hashing import key_numbers
from piwo.messages import argument
from piwo.sources.clusters import Cluster
from piwo.sources.paths import states_of_files
from piwo.sources.source import BATCH_BYTES, Fragment, Source, batches_of
from piwo.sources.temporary import TemporaryFolder

__all__ = [
    "ROW_NUMBER",
    "UNIT_NUMBER",
    "UnitSource",
    "by_unit",
    "order_of_units",
    "unit_numbers",
    "whole_units",
]

UNIT_NUMBER = "piwo:unit"
"""Column of a copy: the number of a row's unit, see `key_numbers`."""
ROW_NUMBER = "piwo:row"
"""Column of a copy: the number of a row in the log."""
_BUCKETS = 1024
"""Units are spread over so many parts of a copy by their numbers."""
_PART_ROWS = 2**20
"""Rows that are sorted at a time; fewer if they are wide."""


def unit_numbers(record: pa.RecordBatch, unit: str) -> npt.NDArray[np.int64]:
    """Return the number of each row's unit, (n,)."""
    if UNIT_NUMBER in record.schema.names:
        numbers: npt.NDArray[np.int64] = record[UNIT_NUMBER].to_numpy(zero_copy_only=False)
        return numbers
    return key_numbers(record[unit], unit, "unit")


def whole_units(
    records: Iterator[pa.RecordBatch], unit: str, most: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of whole units, given rows in which those of a unit are neighbors.

    Args:
        records: the rows; a unit may begin in one batch and end in a later one.
        unit: the column of units.
        most: rows of a batch; only a unit with more rows than this makes a larger one.

    >>> record = pa.record_batch({"u": [1, 1, 2, 2, 2, 3]})
    >>> [len(x) for x in whole_units(iter([record[:4], record[4:]]), "u", 4)]
    [2, 3, 1]
    """
    held: list[pa.RecordBatch] = []
    last: int | None = None
    for record in records:
        if not record.num_rows:
            continue
        numbers = unit_numbers(record, unit)
        # Positions at which another unit begins.
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] if last is None else last))
        last = int(numbers[-1])
        if not len(starts):
            # One unit goes on.
            held.append(record)
            continue
        first, final = int(starts[0]), int(starts[-1])
        held.append(record.slice(0, first))
        yield from _cut(_joined(held), unit, most)
        yield from _cut(record.slice(first, final - first), unit, most)
        held = [record.slice(final)]
    if held:
        yield from _cut(_joined(held), unit, most)


def _joined(records: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return some batches as one."""
    some = [x for x in records if x.num_rows] or list(records[:1])
    if len(some) == 1:
        return some[0]
    table = pa.Table.from_batches(some).combine_chunks()
    return table.to_batches()[0]


def _cut(record: pa.RecordBatch, unit: str, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parts of whole units."""
    if record.num_rows <= most:
        if record.num_rows:
            yield record
        return
    numbers = unit_numbers(record, unit)
    ends = np.append(np.flatnonzero(np.diff(numbers)) + 1, record.num_rows)
    for part in unit_slices(ends, most):
        yield record.slice(part.start, part.stop - part.start)


def by_unit(source: Source, unit: str, kept: bool) -> Source:
    """Return the same rows with those of each unit together.

    Args:
        source: the rows.
        unit: the column of units.
        kept: whether the column itself is read, as context; else the numbers of units suffice.
    """
    if isinstance(source, Cluster):
        return source.together(unit)
    return UnitSource(source, unit, kept)


@dataclass(eq=False)
class UnitSource:
    """A source whose rows of one unit are neighbors: each choice of columns is copied once.

    The copy is in the folder for temporary files (`TMPDIR` moves it) and is removed with this
    object and its fragments. Rows keep their numbers in the log.

    >>> from piwo.sources.table import TableSource
    >>> table = pa.table({"user": ["a", "b", "a"], "x": [1, 2, 3]})
    >>> (fragment,) = UnitSource(TableSource(table), "user").fragments(["x", "user"])
    >>> [sorted(record["x"].to_pylist()) for record in fragment.records()]
    [[1, 2, 3]]
    """

    source: Source
    unit: str
    kept: bool = False
    copies: dict[tuple[str, ...], list[Fragment]] = field(default_factory=dict, repr=False)
    """Columns -> the parts of the copy that has them."""
    copied_from: list[list[tuple[Any, ...]]] = field(default_factory=list, repr=False)
    """The states of the source's files when it was first copied, if it has files."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.source.name

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        return self.source.schema

    @property
    def rows(self) -> int | None:
        """The number of rows, None if only a pass can count them."""
        return self.source.rows

    @property
    def steady(self) -> bool:
        """Whether every pass gives the same rows in the same order."""
        return self.source.steady

    def source_id(self) -> tuple[Any, ...]:
        """Return what identifies these rows."""
        return ("by unit", self.unit, *self.source.source_id())

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the parts of the copy, each with whole units.

        Raises:
            FileError: if the copy cannot be written.
            DataError: if rows have no unit, and if files have changed since the first copy: each
                copy would have other rows.
        """
        wanted = tuple(sorted({*columns, self.unit}))
        self._require_unchanged()
        if wanted not in self.copies:
            made = self._copied(wanted)
            self._require_unchanged()
            self.copies[wanted] = made
        return self.copies[wanted]

    def _require_unchanged(self) -> None:
        try:
            states = states_of_files(getattr(self.source, "files", ()))
        except OSError:
            states = []
        if not self.copied_from:
            self.copied_from.append(states)
        if states != self.copied_from[0]:
            raise DataError(
                f"{self.name} has changed since its rows were read ({argument('unit')}), expected "
                "the same rows every time; read the log again, when nothing writes there"
            )

    def _copied(self, columns: tuple[str, ...]) -> list[Fragment]:
        folder = TemporaryFolder()
        place = str(folder.path)
        try:
            parts, findings = fold(self.source, columns, _Scatter(place, self.unit, self.kept))
        except OSError as cause:
            raise FileError(
                f"the rows of {self.name}, brought together by {self.unit!r}, do not fit on disk "
                f"at {place!r} ({cause}); make room, or set TMPDIR"
            ) from None
        if findings:
            raise Refused(findings)
        return _buckets(parts, folder)


@dataclass(frozen=True)
class _Part:
    """One file of a copy: rows ordered by bucket."""

    path: str
    ends: npt.NDArray[np.int64]
    """(1025,) where each bucket begins, and the number of rows."""
    size: int
    """Bytes of its rows."""


_Scattered = tuple[tuple[_Part, ...], tuple[Finding, ...]]


@dataclass(frozen=True)
class _Scatter(Task[_Scattered]):
    """Task: writes rows to files, ordered by the bucket of their unit."""

    folder: str
    unit: str
    kept: bool
    resumable: ClassVar[bool] = False

    def empty(self) -> _Scattered:
        """Return no parts."""
        return (), ()

    def merge(self, one: _Scattered, other: _Scattered) -> _Scattered:
        """Return the parts of both."""
        return one[0] + other[0], merge_findings(one[1] + other[1])

    def of_fragment(self, fragment: Fragment) -> _Scattered:
        """Return the files that the rows of a fragment were written to."""
        parts, findings = self.empty()
        held: list[pa.RecordBatch] = []
        rows, first = 0, fragment.start
        for record in fragment.records():
            held.append(record)
            rows += record.num_rows
            if rows >= _PART_ROWS // 4 or sum(x.nbytes for x in held) >= BATCH_BYTES:
                parts, findings = self.merge((parts, findings), self._written(held, first))
                first += rows
                held, rows = [], 0
        if rows:
            parts, findings = self.merge((parts, findings), self._written(held, first))
        return parts, findings

    def _written(self, held: Sequence[pa.RecordBatch], first: int) -> _Scattered:
        """Return the file of some rows, or what is wrong with their units."""
        table = pa.Table.from_batches(held).combine_chunks()
        values = table[self.unit].chunk(0)
        row = np.arange(first, first + len(table))
        if values.null_count:
            lacking = row[pc.is_null(values).to_numpy(zero_copy_only=False)]
            return (), (_missing(self.unit, lacking),)
        numbers = key_numbers(values, self.unit, "unit")
        # The first bits of the 63-bit numbers; a stable order of 16-bit numbers takes linear time.
        bucket = (numbers >> 53).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")
        counts = np.bincount(bucket, minlength=_BUCKETS)
        if not self.kept:
            table = table.drop_columns([self.unit])
        table = table.append_column(UNIT_NUMBER, pa.array(numbers))
        table = table.append_column(ROW_NUMBER, pa.array(row))
        (record,) = table.take(pa.array(order)).combine_chunks().to_batches()
        from tempfile import NamedTemporaryFile

        with (
            NamedTemporaryFile(dir=self.folder, suffix=".arrow", delete=False) as file,
            pa.ipc.new_file(file, record.schema) as writer,
        ):
            writer.write_batch(record)
        ends = np.concatenate([[0], np.cumsum(counts)])
        return (_Part(file.name, ends, record.nbytes),), ()


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries, also in lists."""
    for i, column in enumerate(table.schema):
        kind = _plain_type(column.type)
        if kind != column.type:
            table = table.set_column(i, column.name, table[i].cast(kind))
    return table


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        return pa.list_(kind.value_type.value_type)
    if pa.types.is_large_list(kind) and pa.types.is_dictionary(kind.value_type):
        return pa.large_list(kind.value_type.value_type)
    return kind


def _missing(unit: str, rows: npt.NDArray[np.int64]) -> Finding:
    return Finding(
        unit,
        "is missing",
        "every row belongs to a unit: give such rows one, or drop them yourself first",
        len(rows),
        tuple(rows[:5].tolist()),
    )


def _buckets(parts: Sequence[_Part], folder: TemporaryFolder) -> list[Fragment]:
    """Return fragments of whole units, each small enough to be sorted in memory."""
    if not parts:
        return []
    sizes = np.sum([np.diff(part.ends) for part in parts], axis=0)
    total = int(sizes.sum())
    width = max(1.0, sum(part.size for part in parts) / max(1, total))
    most = min(_PART_ROWS, int(4 * BATCH_BYTES / width))
    found: list[Fragment] = []
    first = rows = 0
    for bucket, size in enumerate(sizes.tolist()):
        if rows and rows + size > most:
            found.append(_Bucket(tuple(parts), first, bucket, folder))
            first, rows = bucket, 0
        rows += size
    found.append(_Bucket(tuple(parts), first, len(sizes), folder))
    return found


@dataclass(frozen=True)
class _Bucket:
    """Fragment: the rows of some buckets, sorted by unit."""

    parts: tuple[_Part, ...]
    first: int
    last: int
    folder: Any
    """Keeps the files; a path in other processes."""
    start: int = 0
    """Unused: rows carry their numbers."""

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, those of a unit as neighbors."""
        tables = []
        for part in self.parts:
            begin, end = int(part.ends[self.first]), int(part.ends[self.last])
            if begin < end:
                with pa.memory_map(part.path) as file:
                    record = pa.ipc.open_file(file).get_batch(0)
                tables.append(pa.Table.from_batches([record.slice(begin, end - begin)]))
        if not tables:
            return
        # Files of one log may differ in whether they have dictionaries, and in their types of text
        # or whole numbers.
        if any(table.schema.types != tables[0].schema.types for table in tables):
            tables = [_plain(table) for table in tables]
        table = pa.concat_tables(tables, promote_options="permissive")
        order = order_of_units(table[UNIT_NUMBER].to_numpy())
        yield from batches_of(table.take(pa.array(order)).combine_chunks())


def order_of_units(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return an order in which equal numbers are neighbors, (n,).

    Two passes over 16 bits each take linear time; the few rows whose numbers share these 32 bits
    without being equal are then ordered among themselves.

    >>> numbers = np.array([2**40, 7, 2**40, 7])
    >>> numbers[order_of_units(numbers)].tolist()
    [7, 7, 1099511627776, 1099511627776]
    """
    if not len(numbers):
        return np.empty(0, np.int64)
    upper = (numbers >> 47).astype(np.uint16)
    order = np.argsort((numbers >> 31).astype(np.uint16), kind="stable")
    order = order[np.argsort(upper[order], kind="stable")]
    ordered = numbers[order]
    keys = ordered >> 31
    starts = np.concatenate([[False], keys[1:] != keys[:-1]])
    mixed = np.flatnonzero(~starts[1:] & (ordered[1:] != ordered[:-1])) + 1
    if len(mixed):
        run = np.cumsum(starts)
        shared = np.zeros(int(run[-1]) + 1, np.bool_)
        shared[run[mixed]] = True
        places = np.flatnonzero(shared[run])
        among = order[places]
        order[places] = among[np.argsort(numbers[among], kind="stable")]
    return order
