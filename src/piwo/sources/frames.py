"""Any data frame as an Arrow table: pandas, polars, Arrow, DuckDB, Ibis, or a mapping of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from piwo.checks import a_kind
from piwo.errors import DataError, UsageError
from piwo.messages import argument
from piwo.visible import MIXED

__all__ = [
    "frames_library",
    "is_frame",
    "refuse_twice",
    "same_index",
    "to_table",
    "unmasked",
    "whole_texts",
]

_FORMAT = "unsupported format string"
"""What Arrow says of a type that it does not know."""


def _refuse_one_column(frame: Any) -> None:
    """Raise for a column of a data frame in place of the frame."""
    if hasattr(frame, "dtype") and frames_library(frame) and not hasattr(frame, "columns"):
        raise UsageError(
            "expected a data frame with a name for each column, got one column alone "
            f"({type(frame).__name__}); name it: {{'action': ...}}"
        )


def is_frame(value: Any) -> bool:
    """Whether `to_table` can take the value.

    >>> is_frame({"a": [1]}), is_frame([1, 2])
    (True, False)
    """
    return isinstance(value, pa.Table | pa.RecordBatch | Mapping) or hasattr(
        value, "__arrow_c_stream__"
    )


def frames_library(value: Any) -> str | None:
    """Return "pandas" or "polars" for their frames and columns; None for anything else.

    >>> frames_library({"a": [1]}) is None
    True
    """
    home = type(value).__module__.split(".")[0]
    if home in {"pandas", "polars"}:
        return home
    return None


def to_table(frame: Any) -> pa.Table:
    """Return a data frame as an Arrow table. Nothing is copied if the frame is Arrow already.

    Args:
        frame: an object with `__arrow_c_stream__`, an Arrow table, or a mapping from column name to
            values.

    Raises:
        UsageError: for anything else.
        DataError: if a column mixes types.

    >>> to_table({"a": [1, 2]}).num_rows
    2
    """
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, Mapping):
        _refuse_unclear(frame)
    _refuse_one_column(frame)
    try:
        if isinstance(frame, Mapping):
            same_index(frame)
            return pa.table({str(name): _column(values) for name, values in frame.items()})
        if hasattr(frame, "__arrow_c_stream__"):
            return _table(frame)
    except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError) as cause:
        if _FORMAT in str(cause):
            raise DataError(
                "the data frame has a column of a type that Arrow does not know, such as whole "
                "numbers of 128 bits (Int128); cast it first, to Int64 or to text"
            ) from None
        raise DataError(
            f"the data frame cannot be read as columns: {_first_line(cause)}; give "
            "each column a name of its own, and values of one type: numbers or text"
        ) from None
    raise UsageError(
        "expected a data frame (pandas, polars, Arrow, DuckDB, ...) or a mapping of "
        f"arrays, got {type(frame).__name__}"
    )


def _table(frame: Any) -> pa.Table:
    library = frames_library(frame)
    if library == "pandas":
        return _pandas_table(frame)
    if library == "polars":
        return _polars_table(frame)
    return pa.table(frame)


def _pandas_table(frame: Any) -> pa.Table:
    """Return a pandas frame with types that Arrow and piwo know.

    Intervals, and categories that are intervals or times, become their text, such as "(0, 10]";
    sparse columns become plain ones. A column that mixes types is kept under a type that is refused
    if the column is used.
    """
    import pandas as pd

    refuse_twice([str(name) for name in frame.columns])
    columns = {name: _plain_pandas(frame[name]) for name in frame.columns}
    try:
        return pa.Table.from_pandas(pd.DataFrame(columns, copy=False), preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.table({str(name): _pandas_column(x) for name, x in columns.items()})


def _plain_pandas(values: Any) -> Any:
    """Return a pandas column or array of numbers, text or times; other kinds are left as they are.

    Categories that are no labels become their text, if that keeps them apart.
    """
    import pandas as pd

    kind = values.dtype
    if isinstance(kind, pd.CategoricalDtype):
        names = [str(x) for x in kind.categories]
        if not _are_labels(kind.categories) and len(set(names)) == len(names):
            return pd.Series(values, copy=False).cat.rename_categories(names)
    elif isinstance(kind, pd.IntervalDtype | pd.PeriodDtype):
        return pd.Series(values, copy=False).map(str, na_action="ignore").astype(object)
    elif isinstance(kind, pd.SparseDtype):
        return pd.Series(values, copy=False).sparse.to_dense()
    return values


def _are_labels(categories: Any) -> bool:
    """Whether categories are text, numbers, or true and false, or a mixture, which is refused."""
    import pandas as pd

    found = pd.api.types.infer_dtype(categories)
    numbers = ("integer", "floating", "mixed-integer", "mixed-integer-float", "decimal")
    return found in {"string", "boolean", "empty", "bytes", *numbers}


def _pandas_column(values: Any) -> Any:
    try:
        return pa.Array.from_pandas(values)
    except (pa.ArrowException, TypeError, ValueError):
        mixed = pa.struct([(MIXED, pa.null())])
        return pa.nulls(len(values), mixed)


def _column(values: Any) -> Any:
    """Return one column of a mapping; a two-dimensional array becomes a column of lists."""
    import numpy as np

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    values = unmasked(values)
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(
            pa.array(whole_texts(np.ascontiguousarray(values).ravel())), values.shape[1]
        )
    library = frames_library(values)
    if library == "polars":
        return values.to_arrow()
    if library == "pandas" and hasattr(values, "dtype"):
        values = _plain_pandas(values)
    values = whole_texts(values)
    try:
        return pa.array(values)
    except OverflowError:
        return pa.array(values, pa.uint64())


def whole_texts(values: Any) -> Any:
    r"""Return a text array of NumPy as objects; anything else as it is.

    Arrow ends the texts of such an array at their first NUL, which makes two labels one.

    >>> import numpy as np
    >>> pa.array(whole_texts(np.array(["a\0b"]))).to_pylist() == ["a\0b"]
    True
    """
    import numpy as np

    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        return values.astype(object)
    return values


def _refuse_unclear(columns: Mapping[Any, Any]) -> None:
    """Raise for two names that are one text, and for columns whose values have no order."""
    seen = set()
    for name, values in columns.items():
        text = str(name)
        if text in seen:
            raise UsageError(
                f"two columns have the name {text!r} as text; give each a name of its own"
            )
        seen.add(text)
        if isinstance(values, set | frozenset | Mapping):
            raise UsageError(
                f"{argument(name)} is {a_kind(values)}, expected an array or "
                "a list with one entry a row"
            )


def refuse_twice(names: Sequence[str]) -> None:
    """Raise if two columns have the same name.

    Raises:
        DataError: naming it.
    """
    seen = set()
    for name in names:
        if name in seen:
            raise DataError(
                f"two columns have the name {name!r}; give each column a name of its own"
            )
        seen.add(name)


def unmasked(values: Any) -> Any:
    """Return a matrix with masked entries as float64 with NaN there; anything else as it is.

    >>> import numpy as np
    >>> unmasked(np.ma.masked_equal([[1, 2]], 2)).tolist()
    [[1.0, nan]]
    """
    import numpy as np

    if isinstance(values, np.ma.MaskedArray) and values.ndim == 2:
        masked: Any = values.astype(np.float64)
        return np.asarray(masked.filled(np.nan))
    return values


def _polars_table(frame: Any) -> pa.Table:
    """Return a polars frame by its own export: older Arrow cannot cast its text views.

    A Categorical or Enum becomes text first: its codes do not survive every version.
    """
    import narwhals as nw

    wrapped = nw.from_native(frame)
    texts = []
    for name, kind in wrapped.collect_schema().items():
        if kind in (nw.Categorical, nw.Enum):
            texts.append(name)
    if texts:
        wrapped = wrapped.with_columns(nw.col(*texts).cast(nw.String))
    table: pa.Table = wrapped.to_arrow()
    return table


def same_index(columns: Mapping[str, Any]) -> None:
    """Raise if pandas Series with different indexes are combined.

    Positions and labels disagree then, and only the user knows which is meant.

    Raises:
        DataError: naming the two columns.
    """
    first: tuple[str, Any] | None = None
    for name, values in columns.items():
        index = getattr(values, "index", None)
        if index is None or callable(index):
            continue
        if first is None:
            first = (name, index)
        elif len(index) != len(first[1]) or not bool((index == first[1]).all()):
            raise DataError(
                f"columns {first[0]!r} and {name!r} have different indexes, expected "
                "the same labels in the same order; align them (df.loc / join) or "
                "drop the indexes (.to_numpy()) first"
            )


def _first_line(cause: Exception) -> str:
    lines = str(cause).splitlines()
    return lines[0] if lines else type(cause).__name__
