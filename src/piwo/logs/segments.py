"""Segments: the rows of a log by the values of a column, such as a country."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.logs.actions import label_array
from piwo.sources.source import decoded
from piwo.visible import type_text

__all__ = ["Segments", "segment_labels"]


def segment_labels(values: pa.Array, column: str) -> pa.Array:
    """Return the values of a column as text, null where they are missing.

    Whole numbers that a data frame holds as floating-point numbers, because some are missing, are
    whole numbers.

    Args:
        values: of the column.
        column: its name.

    Raises:
        DataError: for numbers that are not whole, and for lists and objects.

    >>> segment_labels(pa.array([1.0, None]), "age").to_pylist()
    ['1', None]
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = decoded(values)
        kind = values.type
    if pa.types.is_floating(kind):
        numbers = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
        whole = pc.and_(
            pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), pa.scalar(2.0**53, kind))
        )
        if pc.all(whole).as_py() is False:
            raise _not_whole(column)
        return numbers.cast(pa.int64()).cast(pa.string())
    if pa.types.is_decimal(kind):
        return _whole_decimals(values, column)
    if pa.types.is_temporal(kind):
        return values.cast(pa.string())
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise DataError(
            f"column {column!r} has {type_text(kind)}, expected text or whole numbers to split by"
        )
    return label_array(values, column).cast(pa.string())


def _whole_decimals(values: pa.Array, column: str) -> pa.Array:
    """Return whole decimals as text, such as 2 for 2.00."""
    try:
        # The widest type without places: the cast fails if digits would be lost.
        return values.cast(pa.decimal256(76, 0)).cast(pa.string())
    except pa.ArrowInvalid:
        raise _not_whole(column) from None


def _not_whole(column: str) -> DataError:
    return DataError(
        f"column {column!r} holds numbers that are not whole, or too large, expected a few values "
        "to split by; write ranges of it into a column of text"
    )


@dataclass(frozen=True)
class Segments:
    """The segments of a log: the values of a column, and how many rows have each.

    >>> Segments("country", ("DE", None), (7, 2)).codes(pa.array([None, "DE"])).tolist()
    [1, 0]
    """

    column: str
    labels: tuple[str | None, ...]
    """Its values as text; None: missing."""
    rows: tuple[int, ...]

    def codes(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """Return the place of each row's label in `labels`, (n,).

        Args:
            values: of the column.

        Raises:
            DataError: for another label, as of rows that were added since the labels were counted.
        """
        texts = segment_labels(values, self.column)
        known = pa.array([x for x in self.labels if x is not None], pa.string())
        places = np.array([at for at, x in enumerate(self.labels) if x is not None], np.int32)
        found = pc.fill_null(pc.index_in(texts, value_set=known), -1)
        inside = found.to_numpy(zero_copy_only=False)
        codes = np.full(len(texts), -1, np.int32)
        codes[inside >= 0] = places[inside[inside >= 0]]
        if None in self.labels:
            missing = pc.is_null(texts).to_numpy(zero_copy_only=False)
            codes[missing] = self.labels.index(None)
        if len(codes) and codes.min() < 0:
            raise DataError(
                f"column {self.column!r} has other values at one pass than at another, expected "
                "the same rows every time; read when nothing writes there"
            )
        return codes
