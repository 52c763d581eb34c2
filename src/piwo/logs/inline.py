"""Features of eligible actions inside a log: lists of objects, one for each eligible action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.errors import DataError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.columns import Columns
from piwo.logs.eligible import Eligible, eligible_of, is_list, predictions_of, ragged
from piwo.logs.features import Features
from piwo.logs.findings import Findings
from piwo.logs.item_values import FEATURES, TOO_LARGE, advice_on, is_feature, unusable_features
from piwo.messages import argument
from piwo.visible import type_text

__all__ = [
    "OBJECTS",
    "eligible_in",
    "encoded_pairs",
    "inline_of",
    "is_objects",
    "object_lists",
    "pairs_of",
]

OBJECTS = "lists of objects, one for each eligible action"
"""What a column of features holds."""
_RULES = {
    "missing": "is missing {!r} of items",
    "infinite": "has an infinite {!r} of items",
    TOO_LARGE: f"has a {{!r}} of items {TOO_LARGE}",
}


def is_objects(kind: pa.DataType) -> bool:
    """Whether a type is that of lists of objects.

    >>> is_objects(pa.list_(pa.struct([("price", pa.float64())]))), is_objects(pa.list_(pa.int8()))
    (True, False)
    """
    return is_list(kind) and pa.types.is_struct(kind.value_type)


def object_lists(values: Any) -> pa.Array | None:
    """Return lists of objects as an Arrow array; None for anything else, such as a table of items.

    >>> object_lists([[{"price": 1.0}], [{"price": 2.0}, {"price": 3.0}]]).type
    ListType(list<item: struct<price: double>>)
    >>> object_lists({"action": ["a"], "price": [1.0]}) is None
    True
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values if is_objects(values.type) else None
    plain = isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)
    if plain or hasattr(values, "columns") or hasattr(values, "schema"):
        return None
    listed = list(values)
    if any(x is not None and not hasattr(x, "__len__") for x in listed):
        # a column of single values
        return None
    first = next((x for x in listed if x is not None and len(x)), None)
    if first is None or isinstance(first, str) or not isinstance(first[0], Mapping):
        return None
    try:
        return pa.array([None if x is None else list(x) for x in listed])
    except (pa.ArrowException, TypeError, ValueError) as cause:
        line = " ".join(str(cause).split())[:200]
        raise DataError(f"{argument('items')} cannot be read as {OBJECTS}: {line}") from None


def pairs_of(values: pa.Array, column: str) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
    """Return where the objects of each row begin, (n + 1,), and all objects as columns.

    A missing object has missing values.

    Raises:
        DataError: if the column does not hold lists of objects.

    >>> starts, pairs = pairs_of(pa.array([[{"price": 1.0}], []]), "ads")
    >>> starts.tolist(), pairs["price"].to_pylist()
    ([0, 1, 1], [1.0])
    """
    if not is_objects(values.type):
        raise DataError(f"column {column!r} has {type_text(values.type)}, expected {OBJECTS}")
    starts, entries = ragged(values, column, OBJECTS)
    names = [field.name for field in entries.type]
    return starts, pa.RecordBatch.from_arrays(entries.flatten(), names=names)


def inline_of(
    values: pa.Array, column: str, eligible: Eligible, actions: Actions, findings: Findings
) -> Eligible:
    """Return the eligible actions with their features; broken rules are in `findings`.

    Args:
        values: n lists of objects, in the order of the eligible actions.
        column: the name to use in errors.
        eligible: of the n rows.
        actions: their labels, for errors.
        findings: collects the rows that break a rule.

    Raises:
        DataError: for a column of another type, and for objects without features.
    """
    starts, pairs = pairs_of(values, column)
    if not pairs.num_columns:
        raise DataError(f"column {column!r} has objects without features, expected {OBJECTS}")
    rule = "has not as many objects as there are eligible actions"
    wrong = np.diff(starts) != eligible.sizes
    if findings.note(column, rule, "give one for each of them, in their order", wrong):
        return eligible
    for name in pairs.schema.names:
        values = pairs[name]
        if not is_feature(values.type):
            raise DataError(
                f"column {column!r}: {name!r} has {type_text(values.type)}, expected {FEATURES}"
            )
        for state, bad in unusable_features(values):
            rule = _RULES.get(state, f"has {state} as {{!r}} of items").format(name)
            _note(findings, column, rule, bad, eligible, actions, advice_on(state))
    return eligible.with_inline(pairs)


def eligible_in(
    record: pa.RecordBatch,
    columns: Columns,
    actions: Actions | None,
    action: npt.NDArray[np.int32],
    findings: Findings,
) -> Eligible | None:
    """Return the actions that could be taken in raw rows, with features if these are read, too.

    None: all actions, or a rule is broken.

    Args:
        record: the rows.
        columns: their roles.
        actions: the list that codes are positions in; None: it is not known yet.
        action: (n,) codes of the logged actions; -1: already refused.
        findings: collects the rows that break a rule.
    """
    name, inline = columns.eligible, columns.item_features
    if name is None or actions is None:
        return None
    found = eligible_of(record[name], name, actions, action, findings)
    predicted, present = columns.predictions, record.schema.names
    if found is not None and predicted is not None and predicted in present:
        found = predictions_of(record[predicted], predicted, found, findings)
    if found is None or inline is None or inline not in present:
        return found
    return inline_of(record[inline], inline, found, actions, findings)


def _note(
    findings: Findings,
    column: str,
    rule: str,
    bad: npt.NDArray[np.bool_],
    eligible: Eligible,
    actions: Actions,
    advice: str,
) -> None:
    """Note the rows of bad pairs, and the label of the first of them."""
    if not bad.any():
        return
    rows = np.zeros(len(eligible), np.bool_)
    rows[eligible.rows[bad]] = True
    label = actions.labels[eligible.codes[int(np.argmax(bad))]]
    findings.note(column, rule, f"such as of {label!r}; {advice}", rows)


def encoded_pairs(eligible: Eligible, features: Features) -> Floats:
    """Return the encoded features of all pairs, (m, f).

    Raises:
        DataError: for features that are missing, or of another type than they were learned from.

    >>> some = Eligible(np.array([0, 1]), np.zeros(1, np.int32))
    >>> with_price = some.with_inline(pa.record_batch({"x0": [2.0]}))
    >>> encoded_pairs(with_price, Features.numeric(1)).tolist()
    [[2.0]]
    """
    assert eligible.inline is not None
    try:
        return np.ascontiguousarray(features.encode(pa.Table.from_batches([eligible.inline])))
    except DataError as wrong:
        raise DataError(f"{argument('items')}: {wrong}") from None
