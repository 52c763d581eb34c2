"""How fragments of a log are read, and passes over their raw rows."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.engines.engine import fold
from piwo.engines.task import Task
from piwo.errors import DataError, warn
from piwo.logs.actions import Actions, by_dictionary, label_array
from piwo.logs.batch import Batch
from piwo.logs.columns import Columns
from piwo.logs.eligible import LISTS, is_list, ragged
from piwo.logs.findings import Finding, Refused, merge_findings
from piwo.logs.hashing import key_numbers, time_numbers
from piwo.logs.labeled import is_labeled, labels_of, merged_labels
from piwo.logs.segments import segment_labels
from piwo.logs.units import ROW_NUMBER, UNIT_NUMBER, unit_numbers, whole_units
from piwo.logs.validation import Schema, validate
from piwo.sources.source import (
    BATCH_ROWS,
    Fragment,
    Source,
    cut,
    decoded,
    list_entries,
    rows_within,
)

__all__ = [
    "MOST_COUNTED",
    "CountRows",
    "CountSegments",
    "DistinctValues",
    "FindRefused",
    "Reader",
    "Selector",
    "learn_actions",
    "warn_of",
]

Numbers = npt.NDArray[np.int64]

MOST_COUNTED = 10_000
"""So many values of a column are counted; that there are more is then all that is known."""


@runtime_checkable
class Selector(Protocol):
    """Selects rows by their number or that of their key, never by other contents."""

    def keep(self, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of the selected row numbers."""
        ...


@dataclass(frozen=True)
class Reader:
    """Reads fragments of a log in any process: the meaning of columns, and which rows count."""

    schema: Schema
    selector: Selector | None = None
    by_unit: bool = False
    """Whether batches hold whole units; their rows are neighbors in every fragment."""

    def read(self, fragment: Fragment) -> Iterator[tuple[Batch, tuple[Finding, ...]]]:
        """Yield the validated batches of one fragment, each with its harmless findings.

        Raises:
            Refused: if rows break a rule.
        """
        columns = self.schema.columns
        for record, rows, numbers in self._selected(fragment):
            batch, findings = validate(record, self.schema, rows)
            names = record.schema.names
            if self.by_unit and columns.unit is not None:
                batch = batch.of_units(unit_numbers(record, columns.unit))
            elif columns.time is not None and columns.time in names:
                batch = replace(batch, times=numbers)
                if columns.key is not None and columns.key in names:
                    batch = replace(batch, keys=key_numbers(record[columns.key], columns.key))
            elif columns.unit is None and columns.key is not None and columns.key in names:
                # The numbers are those of keys.
                batch = replace(batch, keys=numbers)
            segments = self.schema.segments
            if segments is not None:
                batch = replace(batch, segments=segments.codes(record[segments.column]))
            yield batch, findings

    def records(self, fragment: Fragment) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """Yield the selected raw rows, with their numbers in the log."""
        for record, rows, _ in self._selected(fragment):
            yield record, rows

    def _selected(self, fragment: Fragment) -> Iterator[tuple[pa.RecordBatch, Numbers, Numbers]]:
        """Yield the selected raw rows, their numbers in the log, and the numbers of their keys."""
        for record, rows, numbers in self.numbered(fragment):
            if self.selector is None:
                yield record, rows, numbers
            else:
                keep = self.selector.keep(numbers)
                yield record.filter(pa.array(keep)), rows[keep], numbers[keep]

    def numbered(
        self,
        fragment: Fragment,
    ) -> Iterator[tuple[pa.RecordBatch, Numbers, Numbers]]:
        """Yield raw rows, their numbers in the log, and the numbers of their keys for selection."""
        start, columns = fragment.start, self.schema.columns
        for record in self._cut(fragment):
            rows = numbers = np.arange(start, start + record.num_rows)
            start += record.num_rows
            names = record.schema.names
            if ROW_NUMBER in names:
                rows = numbers = record[ROW_NUMBER].to_numpy(zero_copy_only=False)
            if columns.time is not None and columns.time in names:
                numbers = time_numbers(record[columns.time], columns.time)
            elif columns.unit is not None and not {columns.unit, UNIT_NUMBER}.isdisjoint(names):
                numbers = unit_numbers(record, columns.unit)
            elif columns.key is not None and columns.key in names:
                numbers = key_numbers(record[columns.key], columns.key)
            yield record, rows, numbers

    def _cut(self, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Yield raw rows in batches whose numbers fit into `BATCH_BYTES`, or of whole units."""
        unit = self.schema.columns.unit
        if not (self.by_unit and unit is not None):
            for whole in fragment.records():
                yield from cut(whole, self._width(whole))
            return
        for whole in whole_units(fragment.records(), unit, BATCH_ROWS):
            most = rows_within(list_entries(whole) / max(whole.num_rows, 1) + self._width(whole))
            yield from whole_units(iter([whole]), unit, most)

    def _width(self, record: pa.RecordBatch) -> int:
        """Return how many numbers the context and the behavior policy compute for a row."""
        features = self.schema.features
        if features is None or not set(record.schema.names).issuperset(features.columns):
            return 0
        listed = self.schema.columns.eligible is not None
        if self.schema.behavior is None or listed:
            return features.width
        return features.width + self.schema.count


@dataclass(frozen=True)
class CountRows(Task[int]):
    """Task: the number of selected rows; they are not validated."""

    reader: Reader

    def empty(self) -> int:
        """Return 0."""
        return 0

    def of_fragment(self, fragment: Fragment) -> int:
        """Return the number of selected rows of a fragment."""
        count = 0
        for record, _ in self.reader.records(fragment):
            count += record.num_rows
        return count

    def merge(self, one: int, other: int) -> int:
        """Return the sum."""
        return one + other


@dataclass(frozen=True)
class DistinctValues(Task[pa.Array | None]):
    """Task: the distinct values of a column, or labels of its objects, in any order; None if empty.

    Args:
        reader: chooses the rows.
        column: name of the column.
    """

    reader: Reader
    column: str

    def empty(self) -> pa.Array | None:
        """Return None."""
        return None

    def of_fragment(self, fragment: Fragment) -> pa.Array | None:
        """Return the distinct values of a fragment."""
        found: pa.Array | None = None
        for record, _ in self.reader.records(fragment):
            if record.num_rows:
                values = record[self.column]
                if is_labeled(values.type):
                    distinct = labels_of(values)
                elif is_list(values.type):
                    distinct = decoded(pc.unique(ragged(values, self.column, LISTS)[1]))
                else:
                    # A dictionary may hold a value twice.
                    distinct = decoded(pc.unique(values))
                found = self.merge(found, distinct)
        return found

    def merge(self, one: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
        """Return the distinct values of both."""
        known = [pa.table({"values": x}) for x in (one, other) if x is not None]
        if not known:
            return None
        # Files of one log may hold int32 and int64, or two types of text.
        return pc.unique(pa.concat_tables(known, promote_options="permissive")["values"])

    def to_bytes(self, state: pa.Array | None) -> bytes:
        """Return the values as an Arrow stream."""
        if state is None:
            return b""
        file = io.BytesIO()
        with pa.ipc.new_stream(file, pa.schema([("values", state.type)])) as stream:
            stream.write_batch(pa.record_batch({"values": state}))
        return file.getvalue()

    def from_bytes(self, data: bytes) -> pa.Array | None:
        """Return the values of an Arrow stream."""
        if not data:
            return None
        table = pa.ipc.open_stream(data).read_all()
        # The bytes may come from a file: Arrow follows offsets without looking at them.
        table.validate(full=True)
        return decoded(table["values"])


@dataclass(frozen=True)
class CountSegments(Task[Mapping[str | None, int]]):
    """Task: label -> how many of the selected rows have it, of at most `MOST_COUNTED` + 1 labels.

    Args:
        reader: chooses the rows.
        column: whose values are counted.
    """

    reader: Reader
    column: str

    def empty(self) -> Mapping[str | None, int]:
        """Return no labels."""
        return {}

    def of_fragment(self, fragment: Fragment) -> Mapping[str | None, int]:
        """Return the labels of a fragment."""
        found = self.empty()
        for record, _ in self.reader.records(fragment):
            labels = segment_labels(record[self.column], self.column)
            counts = pc.value_counts(labels)
            here = dict(zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True))
            found = self.merge(found, here)
        return found

    def merge(
        self, one: Mapping[str | None, int], other: Mapping[str | None, int]
    ) -> Mapping[str | None, int]:
        """Return the counts of both parts together."""
        merged = dict(one)
        for label, rows in other.items():
            if len(merged) > MOST_COUNTED:
                break
            merged[label] = merged.get(label, 0) + rows
        return merged

    def settled(self, state: Mapping[str | None, int]) -> bool:
        """Whether there are so many labels that no more are counted."""
        return len(state) > MOST_COUNTED

    def to_bytes(self, state: Mapping[str | None, int]) -> bytes:
        """Return the counts as JSON."""
        return json.dumps(list(state.items())).encode()

    def from_bytes(self, data: bytes) -> Mapping[str | None, int]:
        """Return the counts of JSON."""
        return dict(json.loads(data))


@dataclass(frozen=True)
class FindRefused(Task[tuple[Finding, ...]]):
    """Task: every broken rule of the whole log, with its count and first rows."""

    reader: Reader

    def empty(self) -> tuple[Finding, ...]:
        """Return nothing."""
        return ()

    def of_fragment(self, fragment: Fragment) -> tuple[Finding, ...]:
        """Return the broken rules of a fragment."""
        found: list[Finding] = []
        for record, rows in self.reader.records(fragment):
            try:
                validate(record, self.reader.schema, rows)
            except Refused as refused:
                found += refused.findings
        return merge_findings(found)

    def merge(
        self,
        one: tuple[Finding, ...],
        other: tuple[Finding, ...],
    ) -> tuple[Finding, ...]:
        """Return one finding for each rule."""
        return merge_findings((*one, *other))


def warn_of(findings: Sequence[Finding]) -> None:
    """Issue one warning for each rule of harmless findings, with its count."""
    for finding in merge_findings(findings):
        warn(str(finding))


def _distinct(source: Source, column: str, reader: Reader, also: Sequence[str]) -> pa.Array | None:
    """Return the distinct labels of a column, which may hold lists or objects of them."""
    searched = source
    if column not in also:
        searched = by_dictionary(source, column)
    return fold(searched, [column, *also], DistinctValues(reader, column))


def learn_actions(
    columns: Columns, source: Source, reader: Reader, also: Sequence[str], name: str
) -> Actions:
    """Return the sorted distinct labels of a log: of logged actions, and of named propensities.

    Args:
        columns: the roles.
        source: the rows.
        reader: chooses the rows.
        also: columns that it needs for that.
        name: of the log in messages.

    Raises:
        DataError: for a column that does not hold labels, or has none.
    """
    column = columns.action
    kind = source.schema.field(column).type
    # Raises for types that are not labels, before anything is read.
    label_array(pa.nulls(0, kind), column)
    found = _distinct(source, column, reader, also)
    if found is None:
        raise DataError(f"no rows in {name}, expected at least one logged decision")
    labels = pc.drop_null(label_array(found, column)).to_pylist()
    if not labels:
        raise DataError(
            f"column {column!r} is missing in every row; the action taken must be logged"
        )
    vectors = columns.propensities
    if vectors is not None and is_labeled(source.schema.field(vectors).type):
        named = _distinct(source, vectors, reader, also)
        labels = merged_labels(labels, label_array(named, vectors).to_pylist())
    if columns.eligible is not None:
        # Raises for a type that is not that of lists of labels, before anything is read.
        empty = pa.nulls(0, source.schema.field(columns.eligible).type)
        label_array(ragged(empty, columns.eligible, LISTS)[1], columns.eligible)
        named = _distinct(source, columns.eligible, reader, also)
        # A missing entry is not a label; its row is refused when it is read.
        known = pc.drop_null(label_array(named, columns.eligible))
        labels = merged_labels(labels, known.to_pylist())
    actions = Actions(sorted(labels), seen=True)
    if columns.item_features is not None:
        return actions.with_inline_items(column)
    return actions
