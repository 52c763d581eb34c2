"""Columns of objects {label: number}, such as the propensities of all actions by label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.logs.actions import Actions, Label
from piwo.logs.features import is_number
from piwo.logs.findings import Findings
from piwo.messages import argument

__all__ = ["is_labeled", "labels_of", "matrix_of_labels", "merged_labels"]

Numbers = npt.NDArray[np.float64]


def is_labeled(kind: pa.DataType) -> bool:
    """Whether an Arrow type is an object: a struct, or a map from labels.

    >>> is_labeled(pa.struct([("a", pa.float64())])), is_labeled(pa.list_(pa.float64()))
    (True, False)
    """
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind))


def labels_of(values: pa.Array) -> pa.Array:
    """Return the distinct labels of a column of objects.

    >>> labels_of(pa.array([{"a": 1.0}, {"b": 1.0}])).to_pylist()
    ['a', 'b']
    """
    if pa.types.is_map(values.type):
        return pc.unique(_inside(values, values.keys))
    names = []
    for field, column in zip(values.type, values.flatten(), strict=True):
        if column.null_count < len(column):
            names.append(field.name)
    return pa.array(names, pa.string())


def merged_labels(labels: Sequence[Label], named: Sequence[Label]) -> list[Label]:
    """Return labels and those that objects name, each once, all text or all whole numbers.

    >>> merged_labels([9, 10], ["10", "11"]), merged_labels([9, 10], ["10", "011"])
    ([9, 10, 11], ['9', '10', '011'])
    """
    known = set(map(str, labels))
    more = [x for x in named if str(x) not in known]
    texts = [str(x) for x in (*labels, *more)]
    if all(isinstance(x, int) for x in labels):
        # Names in objects are text, also those of whole numbers; 011 is not one.
        try:
            numbers = [int(x) for x in texts]
        except ValueError:
            return list(texts)
        if list(map(str, numbers)) == texts:
            return list(numbers)
    return list(texts)


def matrix_of_labels(
    values: pa.Array, column: str, actions: Actions, findings: Findings
) -> Numbers | None:
    """Return objects {label: number} as an (n, K) matrix, 0 for labels that an object lacks.

    A struct has a field for every label of the column; one that is null is a label that the row
    lacks. None after noting rows without an object, and labels that are not actions or come twice.

    Args:
        values: structs, or maps from labels.
        column: the name to use in messages.
        actions: the action list.
        findings: takes what is wrong.

    Raises:
        DataError: for objects of something else than numbers.
    """
    absent = pc.is_null(values).to_numpy(zero_copy_only=False)
    advice = "correct or drop such rows yourself first; nothing is filled in"
    wrong = findings.note(column, "is missing", advice, absent)
    labels, rows, numbers = _entries(values, column)
    codes = actions.codes(labels, column)
    known = codes >= 0
    matrix = np.zeros((len(values), len(actions)))
    matrix[rows[known], codes[known]] = numbers[known]
    unknown = np.zeros(len(values), np.bool_)
    unknown[rows[~known]] = True
    if unknown.any():
        listed = f"{len(actions)} actions ({actions.preview()})"
        rule = f"gives probabilities to labels that are not among the {listed}"
        example = labels[int(np.argmin(known))].as_py()
        advice = (
            f"such as {example!r}; add them to {argument('actions', '[...]')} or correct the column"
        )
        wrong |= findings.note(column, rule, advice, unknown)
    # A label that a row has twice fills one cell twice.
    filled = np.zeros(matrix.shape, np.bool_)
    filled[rows[known], codes[known]] = True
    doubled = filled.sum(axis=1) < np.bincount(rows[known], minlength=len(values))
    wrong |= findings.note(column, "has a label twice", "correct the log", doubled)
    return None if wrong else matrix


def _entries(values: pa.Array, column: str) -> tuple[pa.Array, npt.NDArray[np.int64], Numbers]:
    """Return label, row and number of every entry; numbers that are missing in a map are NaN."""
    count = len(values)
    if pa.types.is_map(values.type):
        lengths = np.diff(values.offsets.to_numpy(zero_copy_only=False))
        numbers = _numbers(_inside(values, values.items), column)
        return _inside(values, values.keys), np.repeat(np.arange(count), lengths), numbers
    names, rows, parts = [], [np.empty(0, np.int64)], [np.empty(0)]
    for code, entries in enumerate(values.flatten()):
        present = np.flatnonzero(entries.is_valid().to_numpy(zero_copy_only=False))
        if len(present):
            names.append(np.full(len(present), code))
            rows.append(present)
            parts.append(_numbers(entries, column)[present])
    fields = pa.array([field.name for field in values.type], pa.string())
    at = np.concatenate([np.empty(0, np.int64), *names])
    return fields.take(pa.array(at)), np.concatenate(rows), np.concatenate(parts)


def _inside(values: pa.Array, entries: pa.Array) -> pa.Array:
    """Return the entries of the rows of a map, which may be a part of a larger one."""
    offsets = values.offsets
    first = offsets[0].as_py()
    return entries.slice(first, offsets[-1].as_py() - first)


def _numbers(entries: pa.Array, column: str) -> Numbers:
    if not (is_number(entries.type) or pa.types.is_null(entries.type)):
        raise DataError(
            f"column {column!r} holds objects of {entries.type}, expected a number for each label"
        )
    if pa.types.is_boolean(entries.type):
        entries = entries.cast(pa.int8())
    real = entries.cast(pa.float64(), safe=False)
    return np.asarray(real.to_numpy(zero_copy_only=False), np.float64)
