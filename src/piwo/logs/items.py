"""Features of actions: a table with one row a label, such as ads or articles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, Items, label_array
from piwo.logs.batch import Floats
from piwo.logs.column_names import require_columns
from piwo.logs.columns import Columns
from piwo.logs.encoding import Encoding, learn_features, mark_among_numbers
from piwo.logs.features import Features
from piwo.logs.inline import pairs_of
from piwo.logs.item_values import FEATURES, advice_on, is_feature, unusable_features
from piwo.logs.log import Log
from piwo.logs.reader import Reader
from piwo.logs.source_of import contexts_of, paths_of, source_of
from piwo.logs.validation import Schema
from piwo.messages import argument
from piwo.sources.frames import is_frame, refuse_twice
from piwo.sources.lazy import column_names, is_lazy, lazy_source
from piwo.sources.query import ColumnType, QuerySource
from piwo.sources.source import Fragment, Source
from piwo.sources.table import TableSource
from piwo.visible import type_text

__all__ = ["encoded", "has_items", "item_features", "items_of", "learn_item_features"]


def items_of(
    items: Any,
    label: str,
    actions: Actions | None = None,
    types: Mapping[str, ColumnType] | None = None,
) -> Actions:
    """Return the actions that a table of items lists, with their features.

    Args:
        items: a data frame (also a LazyFrame), or a file or query; one row a label.
        label: the column of the labels.
        actions: the list, each of which needs a row; None: all labels, in the order of their rows.
        types: which columns are numbers and which are text, for files that do not say it.

    Raises:
        DataError: for a label that is missing, there twice or without a row; for missing values.
        UsageError: for a table without features.

    >>> ads = items_of({"ad": ["b", "a"], "price": [2.0, 3.0]}, "ad")
    >>> ads.labels, ads.items.table["price"].to_pylist()
    (('b', 'a'), [2.0, 3.0])
    """
    table = _table(items, label, types or {})
    refuse_twice(table.column_names)
    require_columns([label], table.column_names, "label of items")
    labels = label_array(table[label], label)
    _check_labels(labels, label)
    features = table.drop_columns([label])
    if features.num_columns == 0 or features.num_rows == 0:
        raise UsageError(
            f"{argument('items')} has {features.num_columns} columns next to {label!r} and "
            f"{features.num_rows:,} rows, expected a row a label, with features"
        )
    for name in features.column_names:
        _check_values(features[name].combine_chunks(), name, labels)
    listed = Actions(labels.to_pylist())
    if actions is None:
        return listed.with_items(Items(label, features))
    rows = actions.positions_in(listed)
    absent = np.flatnonzero(rows < 0)
    if len(absent):
        raise DataError(
            f"{argument('items')} has no row for {len(absent)} of {len(actions)} actions, such as "
            f"{actions.labels[absent[0]]!r}; add one for each"
        )
    return actions.with_items(Items(label, features.take(rows)))


def _table(items: Any, label: str, types: Mapping[str, ColumnType]) -> pa.Table:
    """Return the rows of a data frame, a file or a query."""
    paths = None
    if not is_frame(items):
        paths = paths_of(items)
    if is_lazy(items):
        source: Source = lazy_source(items, column_names(items))
    elif paths is None:
        source = source_of(items, Columns())
    else:
        # A label keeps its zeros and digits.
        source = contexts_of(paths, {**types, label: "text"}, every=True)
        for doubt in source.doubts.values() if isinstance(source, QuerySource) else ():
            raise DataError(f"{argument('items')}: {doubt.removeprefix('context ')}")
    records: list[pa.RecordBatch] = []
    for fragment in source.fragments(source.schema.names):
        records += fragment.records()
    return pa.Table.from_batches(records, source.schema).combine_chunks()


def _check_labels(labels: pa.Array, column: str) -> None:
    """Raise for labels that are missing or there twice."""
    if labels.null_count:
        raise DataError(
            f"{argument('items')}: column {column!r} is missing in {labels.null_count:,} rows; "
            "each item needs a label"
        )
    counts = pc.value_counts(labels)
    many = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(many):
        raise DataError(
            f"{argument('items')} lists {len(many)} labels twice or more, such as "
            f"{many[0]['values'].as_py()!r}; give each item one row"
        )


def _check_values(values: pa.Array, column: str, labels: pa.Array) -> None:
    """Raise for a column that is no feature, and for missing and infinite values."""
    if not is_feature(values.type):
        raise UsageError(
            f"{argument('items')}: column {column!r} has {type_text(values.type)}, expected "
            f"{FEATURES}"
        )
    for state, bad in unusable_features(values):
        if bad.any():
            first = labels[int(np.argmax(bad))].as_py()
            raise DataError(
                f"{argument('items')}: column {column!r} is {state} for {int(bad.sum())} labels, "
                f"such as {first!r}; {advice_on(state)}"
            )
    mark = mark_among_numbers(values)
    if mark is not None:
        raise DataError(
            f"{argument('items')}: column {column!r} holds numbers and {mark!r}; fill or drop such "
            "items first, or turn the column into text labels"
        )


def learn_item_features(items: Items, encoding: Encoding) -> Features:
    """Return how the columns of items are encoded; see `learn_features`.

    >>> items = Items("ad", pa.table({"price": [2.0, 3.0], "shop": ["x", "y"]}))
    >>> learn_item_features(items, Encoding()).names
    ('price', 'shop=x', 'shop=y')
    """
    names: Sequence[str] = items.table.column_names
    reader = Reader(Schema(Columns(), None))
    source = TableSource(items.table, "the items")
    return learn_features(names, source, reader, encoding, what="items: column")


@dataclass(frozen=True)
class _PairFragment:
    """The objects of a fragment's lists, as rows."""

    whole: Fragment
    reader: Reader
    column: str
    start: int = 0

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the objects as Arrow batches."""
        for record, _ in self.reader.records(self.whole):
            yield pairs_of(record[self.column], self.column)[1]


@dataclass(frozen=True)
class _Pairs:
    """The objects of a column as the rows of a source."""

    log: Log
    column: str
    name: str = "the items"
    rows: int | None = None
    steady: bool = True

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the features."""
        return pa.schema(list(self.log.source.schema.field(self.column).type.value_type))

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002
        """Return the fragments of the source, with all features."""
        reader = self.log.reader(labels=False, context=False)
        # What selects the rows is among these.
        names = dict.fromkeys([*self.log.wanted(), self.column])
        parts = self.log.source.fragments(list(names))
        return [_PairFragment(part, reader, self.column) for part in parts]

    def source_id(self) -> tuple[Any, ...]:
        """Return what identifies the rows."""
        return ("pairs", self.column, *self.log.source.source_id())


def has_items(log: Log) -> bool:
    """Whether a log has features of the actions; this does not look at the rows.

    >>> import piwo
    >>> has_items(piwo.Log.from_arrays(action=["a"], reward=[0], propensity=[0.5]))
    False
    """
    declared = log.declared_actions is not None and log.declared_actions.items is not None
    return declared or log.columns.item_features is not None


def item_features(log: Log) -> Features:
    """Return how the features of the actions of a log become numbers; see `learn_features`.

    Of features inside the log, the rows that it selects say which levels there are.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a"],
    ...     reward=[1],
    ...     propensity=[0.5],
    ...     eligible=[["a", "b"]],
    ...     items=[[{"price": 2.0, "shop": "x"}, {"price": 3.0, "shop": "y"}]],
    ... )
    >>> item_features(log).names
    ('price', 'shop=x', 'shop=y')
    """
    column = log.columns.item_features
    if column is None:
        assert log.actions.items is not None
        return learn_item_features(log.actions.items, log.encoding)
    pairs = _Pairs(log, column)
    names, reader = pairs.schema.names, Reader(Schema(Columns(), None))
    what = f"column {column!r}: feature"
    return learn_features(names, pairs, reader, log.encoding, what=what, numbered=False)


def encoded(items: Items, features: Features) -> Floats:
    """Return the encoded features of items, (K, f).

    Raises:
        DataError: for columns that are missing, or of another type than they were learned from.

    >>> encoded(Items("ad", pa.table({"x0": [2.0, 3.0]})), Features.numeric(1)).tolist()
    [[2.0], [3.0]]
    """
    try:
        return np.ascontiguousarray(features.encode(items.table))
    except DataError as wrong:
        raise DataError(f"{argument('items')}: {wrong}") from None
