"""The actions of a log or a policy: an ordered set of labels, and their codes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import a_kind, shown
from piwo.errors import DataError, UsageError
from piwo.messages import argument
from piwo.sources.frames import whole_texts
from piwo.sources.parquet import ParquetSource
from piwo.sources.source import Source
from piwo.visible import type_text

__all__ = ["Actions", "Items", "Label", "by_dictionary", "is_text", "label_array"]

Label = int | str
_SHORT = 64


def label_array(values: Any, column: str = "action") -> pa.Array:
    """Return `values` as an Arrow array of text or whole numbers; nothing is rounded or merged.

    Args:
        values: an Arrow array, a NumPy array, a data frame column, or a list.
        column: the name to use in errors.

    Returns:
        An Arrow array of strings or integers. Nulls are kept; the caller handles them.

    Raises:
        DataError: for floating-point labels (1.75 must not become 1) and for mixed types.

    >>> label_array(["b", "a"]).to_pylist()
    ['b', 'a']
    """
    array = _arrow(values, column)
    kind = array.type
    if pa.types.is_dictionary(kind):
        if is_text(kind.value_type):
            return array
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_integer(kind):
        return array
    if is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind) and len(array) == array.null_count:
        # pandas gives a column without rows, or without values, this type
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        raise DataError(
            f"column {column!r} holds floating-point numbers, expected text or whole "
            "numbers; convert it yourself (to integer or to text), so that 1.75 "
            "cannot become 1"
        )
    raise DataError(f"column {column!r} has {type_text(kind)}, expected text or whole numbers")


def by_dictionary(source: Source, *columns: str | None) -> Source:
    """Return the same rows, columns of text labels read as dictionaries if they are in Parquet.

    Each distinct text is then searched once, not the text of each row.

    Args:
        source: the rows.
        *columns: names of columns of labels, or of lists of labels; None: no column.

    >>> from piwo.sources.table import TableSource
    >>> table = TableSource(pa.table({"action": ["a"]}))
    >>> by_dictionary(table, "action", None) is table
    True
    """
    if not isinstance(source, ParquetSource):
        return source
    return source.with_dictionaries([x for x in columns if x is not None])


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is text, plain or dictionary-encoded.

    >>> is_text(pa.string()), is_text(pa.int8())
    (True, False)
    """
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    types = pa.types
    plain = types.is_string(kind) or types.is_large_string(kind)
    return bool(plain or types.is_string_view(kind))


def _arrow(values: Any, column: str) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(
            f"{column} is {shown(values)}, expected one label a row: a list, an array, a column"
        )
    if not hasattr(values, "__len__"):
        values = list(values)
    values = whole_texts(values)
    try:
        array = pa.array(values)
    except OverflowError:
        # A number above 2^63 - 1; Arrow tries signed numbers only.
        return _large(values, column)
    except (pa.ArrowException, TypeError, ValueError) as cause:
        line = " ".join(str(cause).split())[:200]
        raise DataError(
            f"column {column!r} mixes types, expected text only or whole numbers only: {line}"
        ) from None
    # Arrow makes chunks of a list whose text exceeds 2 GB.
    if isinstance(array, pa.ChunkedArray):
        return array.combine_chunks()
    return array


def _large(values: Any, column: str) -> pa.Array:
    try:
        return pa.array(values, pa.uint64())
    except (pa.ArrowException, OverflowError, TypeError) as cause:
        line = " ".join(str(cause).split())[:200]
        raise DataError(
            f"column {column!r} holds whole numbers beyond 64 bits; write them as text ({line})"
        ) from None


def _checked_labels(labels: Iterable[Any]) -> tuple[Label, ...]:
    """Return labels as Python texts or whole numbers; raise for anything else."""
    listed: list[Any] = []
    for label in labels:
        if isinstance(label, np.generic):
            label = label.item()  # noqa: PLW2901 - the same label as a Python object
        listed.append(label)
    if not listed:
        raise UsageError(f"{argument('actions')} is empty; give at least one label")
    kinds = set(map(type, listed))
    if kinds == {bool}:
        # Arrow casts booleans of a column to these texts.
        listed = [str(label).lower() for label in listed]
    elif kinds != {int} and not all(isinstance(label, str) for label in listed):
        raise UsageError(
            "action labels are text or whole numbers, all of one kind; got "
            f"{sorted(kind.__name__ for kind in kinds)}"
        )
    label, count = Counter(listed).most_common(1)[0]
    if count > 1:
        raise UsageError(
            f"action label {label!r} is listed twice; each action needs one label of its own"
        )
    return tuple(listed)


@dataclass(frozen=True, eq=False)
class Items:
    """The features of each action of a list, as columns; see `Actions.items`.

    >>> Items("ad", pa.table({"price": [2.0, 3.0]})).table.column_names
    ['price']
    """

    label: str
    """The column of the labels, in the table that these features came from."""
    table: pa.Table
    """(K rows) the other columns, rows in the order of the actions."""
    inline: bool = False
    """Whether features are inside the log, those of each row; `table` then has no rows."""


@dataclass(frozen=True, eq=False)
class Actions:
    """An ordered set of action labels, all text or all whole numbers.

    Inside piwo an action is its position in this list, a code 0..K-1. Labels occur only in input
    and output. Two labels are equal if their texts are equal: 1 equals "1", and "01" equals
    neither.

    Args:
        labels: K distinct labels, in the order of coefficient rows and probability columns.
        seen: whether the list was taken from the rows of a log; it may then lack actions that were
            never logged.

    Raises:
        UsageError: for no labels, doubled labels, or labels that are neither text nor whole
            numbers.

    >>> actions = Actions(["2", "9", "10"])
    >>> actions.codes(["10", "2"]).tolist()
    [2, 0]
    >>> actions.index(9)
    1
    """

    labels: tuple[Label, ...]
    seen: bool = False
    """Whether the list has the actions in a log, rather than all possible actions."""
    items: Items | None = None
    """Features of each action, which policies over joint features act by; None: unknown. Two lists
    with equal labels are equal, whatever their items."""

    def __init__(
        self, labels: Sequence[Label] | npt.NDArray[Any] | Actions, seen: bool = False
    ) -> None:
        if isinstance(labels, str):
            raise UsageError(
                f"{argument('actions')} is the text {labels!r}, expected a list of "
                f"labels; write [{labels!r}]"
            )
        if isinstance(labels, set | frozenset | Mapping) or not hasattr(labels, "__iter__"):
            raise UsageError(
                f"{argument('actions')} is {a_kind(labels)}, expected a list "
                "of labels: their order matters"
            )
        object.__setattr__(self, "labels", _checked_labels(labels))
        object.__setattr__(self, "seen", seen)
        object.__setattr__(self, "items", None)

    def with_items(self, items: Items | None) -> Actions:
        """Return the same list, with features of the actions.

        >>> Actions(["a"]).with_items(None).labels
        ('a',)
        """
        made = copy(self)
        object.__setattr__(made, "items", items)
        return made

    def with_inline_items(self, label: str) -> Actions:
        """Return the same list, whose actions have features in each row of a log.

        >>> Actions(["a"]).with_inline_items("ad").items.inline
        True
        """
        return self.with_items(Items(label, pa.table({}), inline=True))

    @cached_property
    def _array(self) -> npt.NDArray[Any]:
        """The labels as an array that keeps every digit, no larger than the texts."""
        numbers = [x for x in self.labels if isinstance(x, int)]
        limits = np.iinfo(np.int64)
        if numbers and limits.min <= min(numbers) and max(numbers) <= limits.max:
            return np.array(numbers, np.int64)
        # NumPy pads every text to the length of the longest.
        if not numbers and max(map(len, self._position)) <= _SHORT:
            return np.array(self.labels)
        labels = np.empty(len(self.labels), object)
        labels[:] = self.labels
        return labels

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits for these labels in this order."""
        return hashlib.sha256(json.dumps(list(self._position)).encode()).hexdigest()[:32]

    @cached_property
    def _position(self) -> dict[str, int]:
        return {str(label): code for code, label in enumerate(self.labels)}

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Actions) and list(self._position) == list(other._position)

    def __hash__(self) -> int:
        return hash(tuple(self._position))

    def __contains__(self, label: object) -> bool:
        return str(label) in self._position

    def index(self, label: Label) -> int:
        """Return the code of one label.

        Raises:
            UsageError: if the label is not in the list.

        >>> Actions(["a", "b"]).index("b")
        1
        """
        code = self._position.get(str(label))
        if code is None:
            raise UsageError(
                f"action {label!r} is not one of the {len(self)} actions ({self.preview()})"
            )
        return code

    def preview(self) -> str:
        """Return the first labels as text, for messages.

        >>> Actions(range(9)).preview()
        '0, 1, 2, 3, 4, ...'
        """
        shown = ", ".join(map(repr, self.labels[:5]))
        if len(self) > 5:
            shown += ", ..."
        return shown

    def codes(self, values: Any, column: str = "action") -> npt.NDArray[np.int32]:
        """Return the code of every value, -1 if a value is null or not in the list.

        Args:
            values: n labels, in any form that `label_array` takes.
            column: the name to use in errors.

        Returns:
            (n,) int32 codes. Callers handle -1 as an error; raw labels are never used as indices.

        >>> Actions(["a", "b"]).codes(["b", "z"]).tolist()
        [1, -1]
        """
        array = label_array(values, column)
        if pa.types.is_dictionary(array.type):
            # One search for each distinct text, and an index lookup for each row.
            table = self.codes(array.dictionary, column)
            # A null has an index past the table, where -1 is appended.
            indices = pc.fill_null(array.indices, len(table))
            table = np.append(table, np.int32(-1))
            coded: npt.NDArray[np.int32] = table[indices.to_numpy(zero_copy_only=False)]
            return coded
        if self._numbers(array.type) and array.null_count == 0:
            return self._looked_up(array)
        return self._searched(array)

    def _searched(self, array: pa.Array) -> npt.NDArray[np.int32]:
        """Return the codes of labels by a search in the list."""
        if not self._numbers(array.type):
            array = array.cast(pa.string())
        found = pc.index_in(array, value_set=self._values(array.type))
        found = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
        return np.asarray(found, np.int32)

    def _looked_up(self, array: pa.Array) -> npt.NDArray[np.int32]:
        """Return the codes of whole numbers without nulls, from a table for close labels."""
        numbers = array.to_numpy(zero_copy_only=False)
        table, low = self._table
        if (
            table is None
            or len(numbers) == 0
            or numbers.min() < low
            or numbers.max() - low >= len(table)
        ):
            return self._searched(array)
        # The subtraction stays in the type of the column, which may be unsigned.
        coded: npt.NDArray[np.int32] = table[numbers - numbers.dtype.type(low)]
        return coded

    @cached_property
    def _table(self) -> tuple[npt.NDArray[np.int32] | None, int]:
        """Codes by (label - lowest label), -1 in the gaps; None if the labels are too far apart."""
        numbers = [x for x in self.labels if isinstance(x, int)]
        low, high = min(numbers), max(numbers)
        # The table must stay small next to the batches, whatever the labels are.
        if high - low > 64 * len(numbers) + 1024 or low < 0:
            return None, low
        table = np.full(high - low + 1, -1, np.int32)
        table[np.array(numbers) - low] = np.arange(len(numbers), dtype=np.int32)
        return table, low

    def _values(self, kind: pa.DataType) -> pa.Array:
        if self._numbers(kind):
            return pa.array(self.labels, kind)
        return self._texts

    @cached_property
    def _texts(self) -> pa.Array:
        """The labels as text: of very many, an array takes as long as the search for a batch."""
        return pa.array(list(self._position), pa.string())

    def _numbers(self, kind: pa.DataType) -> bool:
        """Whether whole numbers can be compared as numbers: all labels fit the column's type."""
        if not pa.types.is_integer(kind) or not isinstance(self.labels[0], int):
            return False
        limits = np.iinfo(kind.to_pandas_dtype())
        numbers = [x for x in self.labels if isinstance(x, int)]
        return int(limits.min) <= min(numbers) and max(numbers) <= int(limits.max)

    def take(self, codes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Return the labels of the given codes as a NumPy array.

        >>> Actions([10, 20]).take(np.array([1, 1, 0])).tolist()
        [20, 20, 10]
        """
        taken: npt.NDArray[Any] = self._array[codes]
        return taken

    def positions_in(self, other: Actions) -> npt.NDArray[np.int32]:
        """Return, for each of these labels, its code in `other`, or -1 if `other` lacks it.

        >>> Actions(["a", "b"]).positions_in(Actions(["b", "c"])).tolist()
        [-1, 0]
        """
        codes = [other._position.get(key, -1) for key in self._position]
        return np.array(codes, np.int32)
