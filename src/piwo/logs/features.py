"""How context columns become the numeric matrix that policies and oracles see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import real_array
from piwo.errors import DataError, FileError, warn
from piwo.logs.column_names import require_columns
from piwo.logs.hashing import check_hash_size, hashed_places, key_numbers, scramble
from piwo.messages import argument
from piwo.sources.frames import is_frame, refuse_twice, to_table, unmasked
from piwo.sources.query import ColumnType
from piwo.sources.source import decoded
from piwo.visible import type_text

__all__ = [
    "MISSING_ADVICE",
    "Feature",
    "Features",
    "Kind",
    "is_list",
    "is_number",
    "list_matrix",
    "missing_rows",
    "texts",
]

Kind = Literal["number", "levels", "hashed", "vector", "gap", "digest"]
Matrix: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
MISSING_ADVICE = (
    "fill or drop such rows yourself first, or learn from a log read with "
    f"{argument('missing', 'indicator')}"
)
"""The advice for a missing context value, if the policy or the log has no column for it."""


@dataclass(frozen=True)
class Feature:
    """One context column: a number, a level (one-hot), a hashed text, or a list of numbers.

    A "gap" has three indicator columns: the value is missing, NaN, or infinite. A "digest" has one
    number, which is equal for equal values of any type, and finite.

    A hashed text fills `size` columns: MurmurHash3 of "column=value" chooses one of them and the
    sign of the 1 in it, as in `sklearn.feature_extraction.FeatureHasher(size)`. If values may be
    `missing`, one more column is 1 in the rows without a value, and all others are 0 there.

    Source of the signs: Weinberger, Dasgupta, Langford, Smola, Attenberg 2009 (arXiv 0902.2206),
    Section 2.

    >>> Feature("color", "levels", ("blue", "red"), missing=True).names()
    ('color=blue', 'color=red', 'color is missing')
    """

    column: str
    kind: Kind = "number"
    levels: tuple[str, ...] = ()
    size: int = 1
    """Entries of a list; columns that a text is hashed into, a power of two."""
    missing: bool = False

    @property
    def width(self) -> int:
        """The number of its matrix columns."""
        if self.kind == "levels":
            return len(self.levels) + self.missing
        return self.size + self.missing

    def names(self) -> tuple[str, ...]:
        """Return the names of those matrix columns."""
        if self.kind == "number":
            names = [self.column]
        elif self.kind == "levels":
            names = [f"{self.column}={level}" for level in self.levels]
        else:
            mark = "[{}]"
            if self.kind == "hashed":
                mark = "#{}"
            names = [self.column + mark.format(i) for i in range(self.size)]
        if self.missing:
            names.append(f"{self.column} is missing")
        return tuple(names)

    def fill(self, values: pa.Array, out: npt.NDArray[np.float64]) -> int:
        """Write the (n, width) block of this column into `out`; return the count of unseen levels.

        Without `missing`, a missing value is written as NaN, and the caller raises for it.
        """
        if not self.missing:
            return _FILLS[self.kind](self, values, out)
        block = out[:, :-1]
        unseen = _FILLS[self.kind](self, values, block)
        absent = np.logical_or(*missing_rows(values))
        # A list may lack an entry and hold an infinite one; this row is an error.
        block[absent] = np.where(np.isinf(block[absent]), np.inf, 0.0)
        out[:, -1] = absent
        return unseen


def _fill_number(item: Feature, values: pa.Array, out: Matrix) -> int:
    out[:, 0] = _numbers(values, item.column)
    return 0


def _fill_levels(item: Feature, values: pa.Array, out: Matrix) -> int:
    values = texts(values)
    found = pc.index_in(values, value_set=pa.array(item.levels, values.type))
    codes = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    out[:] = 0.0
    known = codes >= 0
    out[np.flatnonzero(known), codes[known]] = 1.0
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    out[missing] = np.nan
    return int((~known & ~missing).sum())


def _fill_hashed(item: Feature, values: pa.Array, out: Matrix) -> int:
    coded = texts(values).dictionary_encode()
    place, sign = hashed_places(item.column, coded.dictionary, item.size)
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    known = codes >= 0
    out[:] = 0.0
    out[np.flatnonzero(known), place[codes[known]]] = sign[codes[known]]
    out[~known] = np.nan
    return 0


def _fill_vector(item: Feature, values: pa.Array, out: Matrix) -> int:
    out[:], _ = list_matrix(values, item.column, item.size)
    return 0


def _fill_gap(item: Feature, values: pa.Array, out: Matrix) -> int:  # noqa: ARG001
    nulls, nans = missing_rows(values)
    out[:] = np.column_stack([nulls, nans, _infinite_rows(values) & ~nulls & ~nans])
    return 0


def _fill_digest(item: Feature, values: pa.Array, out: Matrix) -> int:
    # 53 bits of a hash are a float64.
    out[:, 0] = (_value_hashes(values, item.column) >> np.uint64(11)).astype(np.float64)
    return 0


def _value_hashes(values: pa.Array, column: str) -> npt.NDArray[np.uint64]:
    """Return a hash of each value, (n,); of a list, of its entries and their places."""
    values = decoded(values)
    found = np.zeros(len(values), np.uint64)
    if is_list(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        # The entries of a null list of fixed size are not in the flattened values.
        counts = np.where(pc.is_null(values), 0, lengths).astype(np.int64)
        rows = np.repeat(np.arange(len(values)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = _value_hashes(values.flatten(), column)
        np.add.at(found, rows, scramble(entries ^ scramble(place.astype(np.uint64))))
        return scramble(found)
    if pa.types.is_null(values.type):
        return found
    if is_number(values.type):
        numbers = _numbers(values, column) + 0.0  # -0.0 is 0.0
        return scramble(numbers.view(np.uint64))
    coded = texts(values).dictionary_encode()
    words = scramble(key_numbers(coded.dictionary, column).astype(np.uint64))
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    known = codes >= 0
    found[known] = words[codes[known]]
    return found


_FILLS: Mapping[str, Callable[[Feature, pa.Array, Matrix], int]] = {
    "number": _fill_number,
    "levels": _fill_levels,
    "hashed": _fill_hashed,
    "vector": _fill_vector,
    "gap": _fill_gap,
    "digest": _fill_digest,
}
"""Kind of a column -> what writes its block, NaN for a missing value, and counts unseen levels."""


def texts(values: pa.Array) -> pa.Array:
    """Return a column as plain text with 64-bit offsets, for more than 2 GB of text."""
    return decoded(values).cast(pa.large_string())


def missing_rows(values: pa.Array) -> tuple[Mask, Mask]:
    """Return the (n,) masks of rows that are null and of rows that are NaN; lists by their entries.

    >>> [mask.tolist() for mask in missing_rows(pa.array([1.0, None, float("nan")]))]
    [[False, True, False], [False, False, True]]
    >>> [mask.tolist() for mask in missing_rows(pa.array([[1.0, None], [float("nan"), 2.0], None]))]
    [[True, False, True], [False, True, False]]
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    nulls = np.array(pc.is_null(values).to_numpy(zero_copy_only=False), np.bool_)
    nans = np.zeros(len(values), np.bool_)
    if is_list(values.type):
        lists = values.filter(pa.array(~nulls))
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        rows = np.repeat(np.flatnonzero(~nulls), lengths)
        null_entries, nan_entries = missing_rows(lists.flatten())
        nulls[rows[null_entries]] = True
        nans[rows[nan_entries]] = True
    elif pa.types.is_floating(values.type):
        # Arrow has no is_nan for half floats.
        found = pc.fill_null(pc.is_nan(values.cast(pa.float64())), fill_value=False)
        nans |= found.to_numpy(zero_copy_only=False)
    return nulls, nans & ~nulls


def _infinite_rows(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the (n,) mask of rows that are infinite; for a list, rows with an infinite entry."""
    found = np.zeros(len(values), np.bool_)
    if is_list(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        # The entries of a null list of fixed size are not in the flattened values.
        counts = np.where(pc.is_null(values), 0, lengths)
        rows = np.repeat(np.arange(len(values)), counts)
        found[rows[_infinite_rows(values.flatten())]] = True
    elif pa.types.is_floating(values.type):
        infinite = pc.fill_null(pc.is_inf(values.cast(pa.float64())), fill_value=False)
        found |= infinite.to_numpy(zero_copy_only=False)
    return found


def _numbers(values: pa.Array, column: str) -> npt.NDArray[np.float64]:
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    if not is_number(values.type):
        raise DataError(
            f"context column {column!r} has {type_text(values.type)}, expected numbers as "
            "when it was first read"
        )
    if pa.types.is_boolean(values.type):
        # Arrow does not cast booleans to floats directly.
        values = values.cast(pa.int8())
    numbers = values.cast(pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def list_matrix(
    values: pa.Array, column: str, size: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return lists as an (n, size) matrix, and the (n,) mask of rows of another length.

    Rows that are missing or of another length are NaN in the matrix, and so are missing entries.

    Raises:
        DataError: if the column does not hold lists of numbers.

    >>> list_matrix(pa.array([[1.0, 2.0], None]), "p", 2)[1].tolist()
    [False, True]
    """
    kind = values.type
    # Lists without any entry have the null type.
    entry = getattr(kind, "value_type", pa.string())
    if not is_list(kind) or not (is_number(entry) or pa.types.is_null(entry)):
        raise DataError(
            f"column {column!r} has {type_text(kind)}, expected lists of {size} numbers"
        )
    # Some versions of Arrow give a missing fixed-size list its length nevertheless.
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(values), -1)
    other = lengths.to_numpy(zero_copy_only=False) != size
    wrong = np.asarray(missing | other, np.bool_)
    matrix = np.full((len(values), size), np.nan)
    if wrong.any():
        values = values.filter(pa.array(~wrong))
    matrix[~wrong] = _numbers(values.flatten(), column).reshape(len(values), size)
    return matrix, wrong


def is_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a list, of fixed size or not."""
    types = pa.types
    variable = types.is_list(kind) or types.is_large_list(kind)
    return bool(variable or types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a number or a boolean."""
    types = pa.types
    real = types.is_floating(kind) or types.is_decimal(kind)
    return bool(real or types.is_integer(kind) or types.is_boolean(kind))


@dataclass(frozen=True)
class Features:
    """The context of a log or a policy: its columns, their order and their encoding.

    Numbers are used as they are; text becomes one column a level (one-hot, every level kept), or is
    hashed if it has many levels; a list column becomes one column an entry. If values may be
    missing, a column such as "age is missing" follows. Data frames are matched by column name, so
    their order does not matter. Plain arrays have the shape (n, d), columns in this order, and are
    taken as encoded; or, if all columns are numbers and some may be missing, they have one column
    each, with NaN for missing values.

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
        if isinstance(names, int):
            names = [f"x{i}" for i in range(names)]
        return cls(tuple(Feature(str(name)) for name in names))

    @classmethod
    def gaps(cls, names: Sequence[str]) -> Features:
        """Return features that mark which values are missing, NaN or infinite, for any columns.

        >>> Features.gaps(["age"]).encode({"age": [1.0, None, float("inf")]}).tolist()
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        """
        return cls(tuple(Feature(name, "gap", size=3) for name in names))

    def with_digests(self) -> Features:
        """Return the features with a number for each value behind them, equal for equal values.

        >>> found = Features.gaps(["age"]).with_digests().encode({"age": ["old", None, "old"]})
        >>> bool(found[0, 3] == found[2, 3]), bool(found[0, 3] == found[1, 3])
        (True, False)
        """
        return Features((*self.items, *(Feature(name, "digest") for name in self.columns)))

    @cached_property
    def width(self) -> int:
        """The number d of matrix columns."""
        return sum(item.width for item in self.items)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the matrix columns."""
        names: list[str] = []
        for item in self.items:
            names += item.names()
        return tuple(names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the source columns."""
        return tuple(item.column for item in self.items)

    @property
    def types(self) -> dict[str, ColumnType]:
        """Which source columns are numbers and which are text, for files that do not say it."""
        found: dict[str, ColumnType] = {}
        for item in self.items:
            if item.kind == "number":
                found[item.column] = "number"
            elif item.kind in {"levels", "hashed"}:
                found[item.column] = "text"
        return found

    def encode(self, context: Any) -> npt.NDArray[np.float64]:
        """Return the (n, d) float64 matrix of a data frame, a mapping of columns, or an array.

        Raises:
            DataError: for a missing column, a missing or infinite value, or an array of another
                width.

        Warns:
            PiwoWarning: if a text column holds levels never seen before; the columns of such a
                value are 0.
        """
        if not is_frame(context):
            return self._checked_array(context)
        table = to_table(context)
        require_columns(self.columns, table.column_names, "context")
        refuse_twice([x for x in table.column_names if x in self.columns])
        columns = dict(zip(table.column_names, table.columns, strict=True))
        matrix, unseen = self.encode_columns(columns, table.num_rows)
        if unseen:
            warn(
                f"{unseen} context values were never seen when the levels were "
                "learned; their columns are all 0"
            )
        bad = ~np.isfinite(matrix)
        if bad.any():
            row, column = np.argwhere(bad)[0].tolist()
            state, advice = "missing", MISSING_ADVICE
            if np.isinf(matrix[row, column]):
                state, advice = "infinite", "fill or drop such rows yourself first"
            raise DataError(
                f"context column {self.sources[column]!r} is {state} at row {row} "
                f"({int(bad.any(axis=1).sum()):,} rows in all); {advice}"
            )
        return matrix

    @property
    def sources(self) -> tuple[str, ...]:
        """For each matrix column, the source column that it is made from."""
        sources: list[str] = []
        for item in self.items:
            sources += [item.column] * item.width
        return tuple(sources)

    def encode_columns(
        self, columns: dict[str, Any], rows: int
    ) -> tuple[npt.NDArray[np.float64], int]:
        """Return the (n, d) matrix of Arrow columns and the count of unseen levels."""
        # In column-major order, because whole columns are written.
        matrix = np.empty((self.width, rows)).T
        at = unseen = 0
        for item in self.items:
            values = columns[item.column]
            if isinstance(values, pa.ChunkedArray):
                values = values.combine_chunks()
            unseen += item.fill(values, matrix[:, at : at + item.width])
            at += item.width
        return matrix, unseen

    def _checked_array(self, context: Any) -> npt.NDArray[np.float64]:
        try:
            matrix = real_array(unmasked(context))
        except (TypeError, ValueError):
            raise DataError(
                "the context array holds text, times or complex numbers, expected "
                "numbers; give a data frame with named columns"
            ) from None
        if (
            matrix.ndim == 2
            and matrix.shape[1] == len(self.items) != self.width
            and self._all_numbers
        ):
            return self.encode(dict(zip(self.columns, matrix.T, strict=True)))
        if matrix.ndim != 2 or matrix.shape[1] != self.width:
            raise DataError(
                f"the context has shape {matrix.shape}, expected (n, {self.width}): "
                f"{', '.join(self.names[:8])}"
            )
        if not np.isfinite(matrix).all():
            row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
            raise DataError(
                f"the context is NaN or infinite at row {row}; fill or drop such rows "
                "yourself first"
            )
        return matrix

    @property
    def _all_numbers(self) -> bool:
        return all(item.kind == "number" for item in self.items)

    def to_spec(self) -> list[dict[str, Any]]:
        """Return a JSON-able description, for policy files."""
        return [{**vars(item), "levels": list(item.levels)} for item in self.items]

    @classmethod
    def from_spec(cls, spec: Any) -> Features:
        """Return the features that `to_spec` of this version or an earlier one described.

        Raises:
            FileError: if the description is damaged.

        >>> Features.from_spec(Features.numeric(2).to_spec()) == Features.numeric(2)
        True
        """
        try:
            items = tuple(_feature(x) for x in spec)
        except (KeyError, TypeError, ValueError) as cause:
            raise FileError(
                f"the description of the context is damaged ({cause!r}); save the policy again"
            ) from None
        for item in items:
            # Policies are not made from these, which only describe values in a log.
            if item.kind not in _FILLS or item.kind in ("gap", "digest"):
                raise FileError(
                    "the description of the context has a kind this version does not "
                    "know; update piwo"
                )
        return cls(items)


def _feature(spec: Any) -> Feature:
    # Policy files of version 1 have no such entry.
    missing = spec.get("missing", False)
    if type(missing) is not bool:
        raise TypeError(f"missing is {missing!r}")
    made = Feature(
        str(spec["column"]), spec["kind"], tuple(spec["levels"]), int(spec["size"]), missing
    )
    if made.kind == "hashed":
        check_hash_size(made.size)
    return made
