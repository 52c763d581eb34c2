"""A polars LazyFrame as a source: it runs once, and its rows are kept in a temporary file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from piwo.errors import DataError, FileError
from piwo.sources.addresses import shown
from piwo.sources.parquet import ParquetSource
from piwo.sources.temporary import TemporaryFolder

__all__ = ["column_names", "is_lazy", "lazy_source"]


def is_lazy(value: Any) -> bool:
    """Whether a value is a polars LazyFrame; polars is not imported for others.

    >>> is_lazy("log.parquet")
    False
    """
    home = type(value).__module__
    return home.partition(".")[0] == "polars" and hasattr(value, "sink_parquet")


def column_names(frame: Any) -> list[str]:
    """Return the names of the columns of a LazyFrame, for which polars plans its query.

    Raises:
        DataError: if the query names columns that do not exist, or cannot be planned.
        FileError: if a file that it scans is missing.
    """
    import polars as pl

    try:
        names: list[str] = frame.collect_schema().names()
    except OSError as cause:
        raise FileError(
            f"polars cannot read what the lazy frame scans ({shown(cause)}); check the path"
        ) from None
    except pl.exceptions.PolarsError as cause:
        raise _failed(cause) from None
    return names


def _failed(cause: Exception) -> DataError:
    """Return the error of a query that fails; polars adds its plan on further lines."""
    first = str(cause).strip().partition("\n")[0] or type(cause).__name__
    return DataError(
        f"polars could not run the lazy frame ({shown(first)}); correct it, or read what its "
        ".collect() gives"
    )


def lazy_source(frame: Any, columns: Sequence[str]) -> ParquetSource:
    """Return the rows of a LazyFrame, which polars streams to a file where its query allows that.

    Each pass over a log must see the same rows, and a LazyFrame may give others when it runs again.

    Args:
        frame: the LazyFrame.
        columns: those that are kept.

    Raises:
        DataError: if the query fails.
        FileError: if the rows do not fit on disk.
    """
    import polars as pl

    folder = TemporaryFolder()
    path = str(folder.path / "rows.parquet")
    try:
        kept = frame.select(list(columns))
        # As in `frames.to_table`: codes of categories do not survive every version.
        kept = kept.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
        try:
            kept.sink_parquet(path)
        except pl.exceptions.InvalidOperationError as cause:
            # Old versions of polars refuse a plan that has a step which they cannot stream, before
            # anything runs; newer ones run that step in memory.
            if "not yet supported in standard engine" not in str(cause):
                raise
            kept.collect().write_parquet(path)
    except OSError as cause:
        raise FileError(
            f"the rows of the lazy frame cannot be read or written ({shown(cause)}); they are kept "
            f"at {str(folder.path)!r}: make room there, or set TMPDIR"
        ) from None
    # functions of the user in the query may raise anything
    except Exception as cause:  # noqa: BLE001
        raise _failed(cause) from None
    made = ParquetSource([path])
    made.name, made.folder = "the lazy frame", folder
    return made
