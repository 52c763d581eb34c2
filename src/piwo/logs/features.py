"""How context columns become the numeric matrix that policies and oracles see."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, FileError, PiwoWarning, UsageError
from piwo.logs.columns import match_names
from piwo.logs.frames import is_frame, refuse_twice, to_table, unmasked

__all__ = ["Feature", "Features", "list_matrix"]

Kind = Literal["number", "levels", "vector"]


@dataclass(frozen=True)
class Feature:
    """One context column: a number, one of several levels (one-hot), or a fixed-size list of numbers.

    >>> Feature("color", "levels", ("blue", "red")).names()
    ('color=blue', 'color=red')
    """

    column: str
    kind: Kind = "number"
    levels: tuple[str, ...] = ()
    size: int = 1

    @property
    def width(self) -> int:
        """Return how many matrix columns it fills."""
        return len(self.levels) if self.kind == "levels" else self.size

    def names(self) -> tuple[str, ...]:
        """Return the names of those matrix columns."""
        if self.kind == "levels":
            return tuple(f"{self.column}={level}" for level in self.levels)
        return (self.column,) if self.kind == "number" else tuple(f"{self.column}[{i}]" for i in range(self.size))

    def fill(self, values: pa.Array, out: npt.NDArray[np.float64]) -> int:
        """Write the (n, width) block of this column into `out`; return the count of unseen levels.

        A missing value is written as NaN; the caller refuses it by name.
        """
        if self.kind == "levels":
            return self._fill_levels(values, out)
        if self.kind == "vector":
            out[:], _ = list_matrix(values, self.column, self.size)
            return 0
        out[:, 0] = _numbers(values, self.column)
        return 0

    def _fill_levels(self, values: pa.Array, out: npt.NDArray[np.float64]) -> int:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        found = pc.index_in(values.cast(pa.string()), value_set=pa.array(self.levels, pa.string()))
        codes = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
        out[:] = 0.0
        known = codes >= 0
        out[np.flatnonzero(known), codes[known]] = 1.0
        missing = pc.is_null(values).to_numpy(zero_copy_only=False)
        out[missing] = np.nan
        return int((~known & ~missing).sum())


def _numbers(values: pa.Array, column: str) -> npt.NDArray[np.float64]:
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    if not _is_number(values.type):
        raise DataError(f"context column {column!r} has type {values.type}, expected numbers as when it was first read")
    filled = (
        values.cast(pa.float64(), safe=False)
        if not pa.types.is_boolean(values.type)
        else values.cast(pa.int8()).cast(pa.float64())
    )
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.float64)


def list_matrix(values: pa.Array, column: str, size: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return an Arrow column of lists as an (n, size) matrix, and the (n,) mask of rows of another length.

    Rows that are missing or of another length are NaN in the matrix, and so are missing entries.

    Raises:
        DataError: where the column does not hold lists of numbers.

    >>> list_matrix(pa.array([[1.0, 2.0], None]), "p", 2)[1].tolist()
    [False, True]
    """
    kind = values.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not (lists and (_is_number(kind.value_type) or pa.types.is_null(kind.value_type))):
        raise DataError(f"column {column!r} has type {kind}, expected lists of {size} numbers")
    # a missing fixed-size list has its length all the same in some versions of Arrow
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    wrong = np.asarray(missing | (lengths != size), np.bool_)
    matrix = np.full((len(values), size), np.nan)
    right = values.filter(pa.array(~wrong)) if wrong.any() else values
    matrix[~wrong] = _numbers(right.flatten(), column).reshape(-1, size)
    return matrix, wrong


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


@dataclass(frozen=True)
class Features:
    """The context of a log or a policy: which columns, in which order, encoded how.

    Numbers are used as they are; text becomes one column a level (one-hot, every level kept); a list column
    becomes one column an entry. Data frames are matched by column name, so their order does not matter; plain
    arrays are taken as (n, d) in this order, unchecked.

    >>> features = Features((Feature("age"), Feature("color", "levels", ("blue", "red"))))
    >>> features.names
    ('age', 'color=blue', 'color=red')
    >>> features.encode({"color": ["red"], "age": [7]}).tolist()
    [[7.0, 0.0, 1.0]]
    """

    items: tuple[Feature, ...]

    @classmethod
    def numeric(cls, names: Sequence[str] | int) -> Features:
        """Return numeric features with the given names, or x0, x1, ... for a count.

        >>> Features.numeric(2).names
        ('x0', 'x1')
        """
        listed = [f"x{i}" for i in range(names)] if isinstance(names, int) else names
        return cls(tuple(Feature(str(name)) for name in listed))

    @cached_property
    def width(self) -> int:
        """Return d, the number of matrix columns."""
        return sum(item.width for item in self.items)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the matrix columns."""
        return tuple(name for item in self.items for name in item.names())

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the source columns."""
        return tuple(item.column for item in self.items)

    def encode(self, context: Any) -> npt.NDArray[np.float64]:
        """Return the (n, d) float64 matrix of a data frame, a mapping of columns, or an (n, d) array.

        Raises:
            DataError: for a missing column, a missing or infinite value, or an array of another width.

        Warns:
            PiwoWarning: where a text column holds levels never seen before; such a row gets zeros for that
                column.
        """
        if not is_frame(context):
            return self._checked_array(context)
        table = to_table(context)
        match_names(self.columns, table.column_names, "context")
        refuse_twice([x for x in table.column_names if x in self.columns])
        matrix, unseen = self.encode_columns({name: table[name] for name in self.columns}, table.num_rows)
        if unseen:
            warnings.warn(
                f"{unseen} context values were never seen when the levels were learned; their columns are all 0",
                PiwoWarning,
                stacklevel=2,
            )
        bad = ~np.isfinite(matrix)
        if bad.any():
            row, column = (int(x[0]) for x in np.nonzero(bad))
            raise DataError(
                f"context column {self.names[column]!r} is missing or infinite at row {row} "
                f"({int(bad.any(axis=1).sum())} rows in all); fill or drop such rows yourself first"
            )
        return matrix

    def encode_columns(self, columns: dict[str, Any], rows: int) -> tuple[npt.NDArray[np.float64], int]:
        """Return the (n, d) matrix of Arrow columns, NaN where missing, and the count of unseen levels."""
        matrix = np.empty((self.width, rows)).T  # columns lie together, as they come and as they are filled
        at = unseen = 0
        for item in self.items:
            values = columns[item.column]
            values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
            unseen += item.fill(values, matrix[:, at : at + item.width])
            at += item.width
        return matrix, unseen

    def _checked_array(self, context: Any) -> npt.NDArray[np.float64]:
        try:
            matrix = np.asarray(unmasked(context), np.float64)
        except (TypeError, ValueError):
            raise DataError(
                "the context array holds text, expected numbers; give a data frame with named columns"
            ) from None
        if matrix.ndim != 2 or matrix.shape[1] != self.width:
            raise DataError(
                f"the context has shape {matrix.shape}, expected (n, {self.width}): {', '.join(self.names[:8])}"
            )
        if not np.isfinite(matrix).all():
            row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
            raise DataError(f"the context is NaN or infinite at row {row}; fill or drop such rows yourself first")
        return matrix

    def to_spec(self) -> list[dict[str, Any]]:
        """Return a JSON-able description, for policy files."""
        return [{"column": x.column, "kind": x.kind, "levels": list(x.levels), "size": x.size} for x in self.items]

    @classmethod
    def from_spec(cls, spec: Any) -> Features:
        """Return the features of a description made by `to_spec`.

        Raises:
            FileError: where the description is damaged.

        >>> Features.from_spec(Features.numeric(2).to_spec()) == Features.numeric(2)
        True
        """
        try:
            items = tuple(Feature(str(x["column"]), x["kind"], tuple(x["levels"]), int(x["size"])) for x in spec)
        except (KeyError, TypeError, ValueError) as cause:
            raise FileError(f"the description of the context is damaged ({cause!r}); save the policy again") from None
        if any(x.kind not in ("number", "levels", "vector") for x in items):
            raise FileError("the description of the context has a kind this version does not know; update piwo")
        return cls(items)

    @classmethod
    def learn(
        cls, columns: Sequence[str], schema: pa.Schema, levels: dict[str, list[str]], sizes: dict[str, int]
    ) -> Features:
        """Return features for source columns of the given Arrow types.

        Args:
            columns: context column names.
            schema: Arrow types by name.
            levels: sorted distinct texts of every text column.
            sizes: list length of every list column.

        Raises:
            UsageError: for a type that is neither number, text nor list of numbers.
        """
        return cls(tuple(cls._feature(name, schema.field(name).type, levels, sizes) for name in columns))

    @staticmethod
    def _feature(name: str, kind: pa.DataType, levels: dict[str, list[str]], sizes: dict[str, int]) -> Feature:
        if name in levels:
            return Feature(name, "levels", tuple(levels[name]))
        if name in sizes:
            return Feature(name, "vector", size=sizes[name])
        if _is_number(kind):
            return Feature(name)
        raise UsageError(f"context column {name!r} has type {kind}, expected numbers, text or lists of numbers")
