"""The source that is meant by a path, a glob, a list of them, a query, a frame or a cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import UsageError
from piwo.logs.columns import Columns
from piwo.sources.addresses import is_remote
from piwo.sources.checksums import require_pages
from piwo.sources.csv import csv_query, header_of
from piwo.sources.databases import database_source, is_database
from piwo.sources.datasets import DatasetSource, is_dataset
from piwo.sources.filters import condition, filtered, filtered_query, mentioned
from piwo.sources.frames import is_frame, to_table
from piwo.sources.gzip_files import require_undamaged
from piwo.sources.hive import partitions_of
from piwo.sources.json_lines import (
    json_columns,
    json_files,
    json_query,
    refuse_merged_labels,
)
from piwo.sources.lazy import column_names, is_lazy, lazy_source
from piwo.sources.names import readable
from piwo.sources.parquet import ParquetSource, remote_parquet
from piwo.sources.paths import files_of, kind_of
from piwo.sources.query import ColumnType, QuerySource, refuse_doubled
from piwo.sources.source import Source
from piwo.sources.table import TableSource

__all__ = ["contexts_of", "paths_of", "slates_of", "source_of"]

_SPARK = "spark:"
"""Prefix of the name of a Spark table, or of a query for Spark."""
_SQL = re.compile(
    # A comment ends at its first */: were it free to go on, many comments would take for ever.
    r"^(?:\s|--[^\n]*\n|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|\()*(select|with|from|values)[\s*('\"]",
    re.IGNORECASE,
)


def source_of(
    source: Any,
    columns: Columns,
    where: str | None = None,
    paths: list[str] | None = None,
) -> Source:
    """Return the source of a path, address, glob, list of paths, query or data frame.

    Args:
        source: as in `piwo.read`.
        columns: the roles; columns of text files with a role are read as text.
        where: an SQL condition on the rows.
        paths: what `paths_of` gave, if it was called before.

    Raises:
        FileError: if a path or glob matches no file.
        UsageError: for unknown file types and objects.
    """
    if paths is None:
        paths = paths_of(source)
    if paths is not None:
        kind = kind_of(paths)
        if kind != "parquet":
            return _text_source(paths, kind, columns, where)
    made = _unfiltered(source, paths, columns, where)
    if where is None:
        return made
    if isinstance(made, ParquetSource):
        # DuckDB would join numbers and text of different files without an error.
        names = made.schema.names
        asked = (*columns.resolve(names).used(), *mentioned(condition(where), names))
        partitions = {x.name for x in made.partitions}
        inside = [x for x in asked if x not in partitions]
        for name in inside:
            # DuckDB would give the second of two such labels another name.
            if pa.types.is_struct(made.schema.field(name).type):
                fields = [field.name for field in made.schema.field(name).type]
                refuse_doubled(fields, f"with a condition, column {name!r}")
        made.require_same(inside)
        require_pages(_files_with_rows(made, where), inside)
    return filtered(made, where)


def _files_with_rows(source: ParquetSource, where: str) -> list[str]:
    """Return the files that have rows for which a condition holds; others are not read whole."""
    if len(source.paths) == 1:
        return list(source.paths)
    listed = source.sql().removesuffix(")") + ", filename='piwo file')"
    kept = filtered(QuerySource(listed, source.name), where)
    found: set[str] = set()
    for fragment in kept.fragments(["piwo file"]):
        for record in fragment.records():
            found.update(pc.unique(record.column(0)).to_pylist())
    return [x for x in source.paths if readable(x) in found]


def _unfiltered(
    source: Any, paths: list[str] | None, columns: Columns, where: str | None
) -> Source:
    if hasattr(source, "fragments"):
        made: Source = source
        return made
    clustered = _clustered(source)
    if clustered is not None:
        return clustered
    if is_dataset(source):
        return DatasetSource(source)
    if is_lazy(source):
        return _of_lazy(source, columns, where)
    if is_frame(source):
        return TableSource(to_table(source))
    if paths is not None:
        if is_remote(paths[0]):
            return remote_parquet(paths)
        return ParquetSource(paths)
    if isinstance(source, str):
        if is_database(source):
            return database_source(source)
        return QuerySource(source)
    raise UsageError(
        f"cannot read a log from {type(source).__name__}, expected a path, a glob, a "
        "query or a data frame"
    )


def _of_lazy(frame: Any, columns: Columns, where: str | None) -> Source:
    """Return the rows of a LazyFrame, with the columns that are used."""
    names = column_names(frame)
    used = [*columns.resolve(names).used(), *_mentioned(where, names)]
    if where is not None and "columns" in where.casefold():
        # COLUMNS(*) in DuckDB's SQL means all of them.
        used = names
    return lazy_source(frame, list(dict.fromkeys(used)))


def _clustered(source: Any) -> Source | None:
    """Return the source of a frame or table of a cluster; None for everything else."""
    # Types are known by name: the modules are optional and slow to import.
    home = type(source).__module__
    if isinstance(source, str) and source.startswith(_SPARK):
        from piwo.sources.spark import SparkSource
        from piwo.sources.spark_session import table_of

        return SparkSource(table_of(source), source)
    if home.startswith("pyspark.sql.") and hasattr(source, "mapInArrow"):
        from piwo.sources.spark import SparkSource

        return SparkSource(source)
    if home.startswith("dask.dataframe.") and hasattr(source, "to_delayed"):
        from piwo.sources.dask import DaskSource

        return DaskSource(source)
    return None


def paths_of(source: Any) -> list[str] | None:
    """Return the files of paths and globs; None for queries and other objects.

    Raises:
        FileError: if a path or glob matches no file.
        UsageError: if a file is given twice.
    """
    if isinstance(source, str) and source.startswith(_SPARK):
        return None
    if (
        isinstance(source, str)
        and not os.path.exists(source)  # noqa: PTH110 - Path.exists raises for a long query
        and (_SQL.match(source) or is_database(source))
    ):
        return None
    if isinstance(source, str | os.PathLike):
        return _each_once(files_of(os.fspath(source)))
    listed = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    if listed and all(isinstance(x, str | os.PathLike) for x in source):
        files: list[str] = []
        for item in source:
            files += files_of(os.fspath(item))
        return _each_once(files)
    return None


def _each_once(paths: list[str]) -> list[str]:
    """Return the paths if all files differ: the rows of a repeated file would count twice."""
    seen: dict[str, str] = {}
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise UsageError(
                f"file {path!r} is given twice (as {seen[real]!r} before); its rows "
                "would count twice"
            )
        seen[real] = path
    return paths


def _text_source(
    paths: Sequence[str],
    kind: str,
    columns: Columns,
    where: str | None,
    types: Mapping[str, ColumnType] | None = None,
) -> QuerySource:
    """Return a source over CSV or JSON: columns with a role as text, the context as typed.

    Read as text, a label keeps its zeros and digits, and validation counts and names a word in a
    number column instead of stopping the read. A condition gets such columns as numbers.

    Args:
        paths: the files.
        kind: "csv", or what `json_kind` gave.
        columns: the roles.
        where: an SQL condition.
        types: what a policy knows of columns, which need not be among the roles.
    """
    if kind == "vw":
        raise UsageError(
            f"{paths[0]!r} is a log of Vowpal Wabbit, expected a table; write it as one first: "
            "piwo convert log.vw log.parquet"
        )
    if types is None:
        require_undamaged(path for path in paths if not is_remote(path))
    known = types or {}
    if kind == "csv":
        partitions = partitions_of(paths)
        names = [*header_of(paths[0]).names, *(x.name for x in partitions)]
    else:
        files = json_files(paths, kind)
        found = json_columns(files)
        names = list(found)
    columns = columns.resolve(names)
    seen = _mentioned(where, names)
    texts = columns.scalars()
    decided = [*columns.used(), *(x for x in known if x in names)]
    if kind == "csv":
        query = csv_query(paths, texts, decided, seen=seen, types=known, partitions=partitions)
    else:
        labels = (columns.action, columns.key, columns.unit, columns.eligible)
        known_labels = [x for x in labels if x is not None]
        refuse_merged_labels(files, found, known_labels, columns.eligible)
        query = json_query(
            files,
            found,
            texts,
            decided,
            seen=seen,
            types=known,
            vector=columns.propensities,
            labels=columns.eligible,
        )
    made = QuerySource(query.sql, name=paths[0], steady=True, files=paths)
    if where is not None:
        numbers = {*columns.numbers().values(), *columns.policies, *columns.outcomes}
        numbers &= set(seen)
        made = filtered_query(made, where, dict.fromkeys(sorted(numbers), "DOUBLE"))
    made.doubts = query.doubts
    made.again = partial(_text_source, paths, kind, columns, where)
    return made


def slates_of(paths: Sequence[str], labels: Sequence[str], where: str | None) -> Source:
    """Return the rows of JSON files of slates, in which lists keep their types.

    Args:
        paths: the files.
        labels: columns that hold lists of labels, that of slates first.
        where: an SQL condition on the rows.

    Raises:
        DataError: for lists that hold labels of several kinds.
        UsageError: for files of other types.
    """
    kind = kind_of(paths, "slates", labels[0])
    if kind == "csv":
        raise UsageError(
            f"{paths[0]!r} is CSV, which has no lists; give Parquet, JSON lines, a data frame or a "
            "query"
        )
    require_undamaged(paths)
    files = json_files(paths, kind)
    found = json_columns(files)
    for name in labels:
        refuse_merged_labels(files, found, [name], name)
    query = json_query(files, found, decided=found, lists=True)
    made = QuerySource(query.sql, name=paths[0], steady=True, files=paths)
    if where is not None:
        return filtered_query(made, where)
    return made


def contexts_of(
    paths: Sequence[str],
    types: Mapping[str, ColumnType],
    eligible: str | None = None,
    every: bool = False,
) -> Source:
    """Return the rows of files that hold contexts or items, no decisions.

    Args:
        paths: the files.
        types: what a policy knows of its columns.
        eligible: the column with lists of the actions that may be chosen; None: none.
        every: whether the types of all columns matter, not only those of the policy.

    Raises:
        DataError: for a column that holds text where the policy has numbers.
    """
    kind = kind_of(paths, "contexts")
    if kind in {"parquet", "dsjson", "vw"}:
        return source_of(paths, Columns())
    require_undamaged(paths)
    if kind == "csv":
        partitions = partitions_of(paths)
        decided: Collection[str] = types
        if every:
            decided = header_of(paths[0]).names
        query = csv_query(paths, decided=decided, types=types, partitions=partitions)
    else:
        files = json_files(paths, kind)
        found = json_columns(files)
        query = json_query(files, found, decided=found, types=types, labels=eligible)
    made = QuerySource(query.sql, name=paths[0], steady=True, files=paths)
    made.doubts = query.doubts
    return made


def _mentioned(where: str | None, names: Sequence[str]) -> Sequence[str]:
    """Return the columns that a condition mentions."""
    if where is None:
        return ()
    return mentioned(condition(where), names)
