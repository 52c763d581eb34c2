"""The context of one decision as the row that policies see, without a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.checks import a_kind
from piwo.errors import DataError
from piwo.logs.batch import Floats
from piwo.logs.features import Feature, Features
from piwo.logs.hashing import hashed_place

__all__ = ["RowEncoder", "is_utf8", "number_of", "text_of"]

_Writer: TypeAlias = Callable[[Any, Floats], bool]
"""Writes the columns of one value, which are 0, and returns whether it is a level never seen."""
_ORDINARY = frozenset({float, int})
_MISSING_ADVICE = (
    "give one, or learn the policy from a log that is read with columns for missing values "
    "(missing='indicator')"
)
"""For a context value that is missing, if the policy has no column for it."""


class RowEncoder:
    """Encodes one context as `Features.encode` does, to the last bit.

    Args:
        features: the encoding.

    >>> from piwo.logs.features import Feature
    >>> encoder = RowEncoder(
    ...     Features((Feature("age"), Feature("color", "levels", ("blue", "red"))))
    ... )
    >>> encoder.row({"color": "red", "age": 7})[0].tolist()
    [[7.0, 0.0, 1.0]]
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self._parts: list[tuple[str, slice, _Writer]] = []
        self._others: list[tuple[str, slice, _Writer]] = []
        self._numbers: list[str] = []
        places: list[int] = []
        at = 0
        for item in features.items:
            place = slice(at, at + item.width)
            part = (item.column, place, _writer(item))
            self._parts.append(part)
            if item.kind == "number":
                self._numbers.append(item.column)
                places.append(at)
            else:
                self._others.append(part)
            at = place.stop
        self._places = np.array(places, np.intp)
        self._all_numbers = all(x.kind == "number" and not x.missing for x in features.items)

    def row(self, context: Mapping[str, Any] | Sequence[float]) -> tuple[Floats, int]:
        """Return the (1, d) matrix of one context, and how many of its levels were never seen.

        Args:
            context: the value of each column; or, if all columns are numbers, these in order.

        Raises:
            DataError: for a column that is missing, and a value that cannot be used.
        """
        if not isinstance(context, Mapping):
            context = self.named(context)
        out = np.zeros((1, self.features.width))
        unseen = 0
        parts = self._others if self._wrote_numbers(context, out) else self._parts
        for column, place, write in parts:
            try:
                value = context[column]
            except KeyError:
                raise DataError(
                    f"context column {column!r} is missing, expected a value for each of "
                    f"{', '.join(self.features.columns[:8])}"
                ) from None
            unseen += write(value, out[0, place])
        return out, unseen

    def _wrote_numbers(self, context: Mapping[str, Any], out: Floats) -> bool:
        """Write all numbers at once, if each is an ordinary one; else nothing."""
        try:
            values = [context[column] for column in self._numbers]
            if not _ORDINARY.issuperset(map(type, values)):
                return False
            numbers = np.array(values, np.float64)
        except (KeyError, OverflowError):
            return False
        if not np.isfinite(numbers).all():
            return False
        out[0, self._places] = numbers
        return True

    def named(self, context: Any) -> dict[str, Any]:
        """Return column -> value of a context that is a list of numbers.

        Raises:
            DataError: for another length, and if a column is not a number.
        """
        columns = self.features.columns
        if not (self._all_numbers and _is_list(context)):
            received = "None" if context is None else a_kind(context)
            listed = ", such as {}, as the policy looks at no column"
            if columns:
                listed = f": {', '.join(columns[:8])}"
            raise DataError(
                f"the context is {received}, expected a mapping from column to value{listed}"
            )
        if len(context) != len(columns):
            raise DataError(f"the context has {len(context)} numbers, expected {len(columns)}")
        return dict(zip(columns, context, strict=True))


def _writer(item: Feature) -> _Writer:
    """Return the function that writes the columns of one value."""
    plain = {"number": _number, "levels": _level, "hashed": _hashed, "vector": _vector}[item.kind]
    write = plain(item)

    def checked(value: Any, out: Floats) -> bool:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            if not item.missing:
                raise DataError(
                    f"context column {item.column!r} is missing, expected a value; "
                    f"{_MISSING_ADVICE}"
                )
            out[-1] = 1.0
            return False
        return write(value, out)

    return checked


def _number(item: Feature) -> _Writer:
    def write(value: Any, out: Floats) -> bool:
        out[0] = number_of(item.column, value)
        return False

    return write


def _level(item: Feature) -> _Writer:
    places = {level: i for i, level in enumerate(item.levels)}

    def write(value: Any, out: Floats) -> bool:
        place = places.get(text_of(item.column, value))
        if place is None:
            return True
        out[place] = 1.0
        return False

    return write


def _hashed(item: Feature) -> _Writer:
    def write(value: Any, out: Floats) -> bool:
        place, sign = hashed_place(item.column, text_of(item.column, value), item.size)
        out[place] = sign
        return False

    return write


def _vector(item: Feature) -> _Writer:
    def write(value: Any, out: Floats) -> bool:
        entries = _entries(item, value)
        absent = np.isnan(entries).any()
        if np.isinf(entries).any() or (absent and not item.missing):
            raise DataError(
                f"context column {item.column!r} has missing or infinite entries; {_MISSING_ADVICE}"
            )
        if absent:
            out[-1] = 1.0
        else:
            out[: item.size] = entries
        return False

    return write


def _entries(item: Feature, value: Any) -> npt.NDArray[np.float64]:
    """Return a list as `size` numbers; entries that are None are NaN."""
    try:
        entries = np.asarray(value)
        if entries.dtype.kind == "O":
            entries = entries.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        entries = np.empty(0, np.str_)
    if entries.dtype.kind not in "iufb" or entries.shape != (item.size,):
        raise DataError(f"context column {item.column!r} is not a list of {item.size} numbers")
    return entries.astype(np.float64)


def _is_list(value: Any) -> bool:
    """Whether a value is a plain sequence; text is not."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def number_of(column: str, value: Any) -> float:
    """Return a value as a number; booleans are 1 and 0, as in columns of a log.

    >>> number_of("hour", 7), number_of("member", True)
    (7.0, 1.0)

    Raises:
        DataError: for what is not a finite number.
    """
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise DataError(
            f"context column {column!r} is {a_kind(value)}, expected a number; give the context "
            "the types that the log had"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"context column {column!r} is {number}, expected a finite number")
    return number


def text_of(column: str, value: Any) -> str:
    """Return a value as Arrow writes it as text.

    >>> text_of("shop", 7), text_of("shop", True)
    ('7', 'true')

    Raises:
        DataError: for what is not text, a number or a boolean, and for text that is not Unicode.
    """
    if isinstance(value, str):
        if not is_utf8(value):
            raise DataError(f"context column {column!r} is not valid text (UTF-8)")
        return value
    if isinstance(value, bool):
        return str(value).lower()
    try:
        if isinstance(value, int):
            return str(value)
        # Rare, and Arrow has its own way to write such numbers.
        return str(pa.array([value]).cast(pa.large_string())[0].as_py())
    except (pa.ArrowException, ValueError, OverflowError):
        raise DataError(f"context column {column!r} is {a_kind(value)}, expected text") from None


def is_utf8(text: str) -> bool:
    r"""Whether a text can be written as UTF-8; half of a surrogate pair, as in JSON, cannot.

    >>> is_utf8("grün"), is_utf8("\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
