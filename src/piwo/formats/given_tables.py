"""Tables that a user gives, as views of one DuckDB cursor: files, queries and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from piwo.checks import a_kind
from piwo.errors import UsageError
from piwo.logs.source_of import paths_of
from piwo.sources.addresses import is_remote
from piwo.sources.csv import csv_query, header_of
from piwo.sources.frames import is_frame, to_table
from piwo.sources.gzip_files import require_undamaged
from piwo.sources.hive import partitions_of
from piwo.sources.json_lines import json_columns, json_files, json_query
from piwo.sources.lazy import column_names, is_lazy, lazy_source
from piwo.sources.parquet import ParquetSource, remote_parquet
from piwo.sources.paths import kind_of
from piwo.sources.query import QuerySource
from piwo.visible import visible

__all__ = ["GivenTables"]


class GivenTables:
    """Views of what was given, on one cursor.

    Args:
        cursor: of DuckDB.

    >>> from piwo.sources.query import cursor_of
    >>> with cursor_of("a table") as cursor:
    ...     found = GivenTables(cursor).view("sold", {"id": ["a", "b"]}, ["id"])
    >>> found
    {'id': 'VARCHAR'}
    """

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor
        # the files of LazyFrames, which are removed with them
        self._kept: list[ParquetSource] = []

    def view(self, name: str, source: Any, texts: Sequence[str]) -> dict[str, str]:
        """Make a source a view of this name; return its columns and their types.

        Args:
            name: of the view, in the plural for messages.
            source: a path, a glob, a list of them, a query or a data frame, also a LazyFrame.
            texts: columns that are text in files which do not state types, such as ids.

        Raises:
            FileError: for files that are missing or cannot be read.
            UsageError: for anything else.
        """
        sql = self._sql(name, source, texts)
        self.cursor.execute(f"create temp view {name} as {sql}")
        described = self.cursor.execute(f"describe {name}").fetchall()
        return {column: kind for column, kind, *_ in described}

    def _sql(self, name: str, source: Any, texts: Sequence[str]) -> str:
        if is_lazy(source):
            rows = lazy_source(source, column_names(source))
            self._kept.append(rows)
            return rows.sql()
        if is_frame(source):
            self.cursor.register(f"given_{name}", to_table(source))
            return f"select * from given_{name}"
        return _sql_of(source, name, texts)


def _sql_of(source: Any, name: str, texts: Sequence[str]) -> str:
    """Return the query for a path, a glob, a list of them, or a query."""
    paths = paths_of(source)
    if paths is None:
        if not isinstance(source, str):
            raise UsageError(
                f"the {name} are {a_kind(source)}, expected a path, a glob, a query or a data frame"
            )
        return QuerySource(source).sql
    kind = kind_of(paths, "contexts")
    if kind == "parquet":
        if is_remote(paths[0]):
            return remote_parquet(paths).sql
        return ParquetSource(paths).sql()
    if kind in {"dsjson", "vw"}:
        raise UsageError(
            f"{visible(paths[0])!r} is a {kind} log, whose lines have their rewards; give tables"
        )
    require_undamaged(paths)
    if kind == "csv":
        names = header_of(paths[0]).names
        # An id is text whatever it looks like.
        known = [x for x in names if x in texts]
        return csv_query(paths, known, names, partitions=partitions_of(paths)).sql
    files = json_files(paths, kind)
    found = json_columns(files)
    return json_query(files, found, [x for x in texts if x in found], found).sql
