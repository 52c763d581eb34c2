"""The source that is meant by a path, a glob, a list of them, a query, a frame or a cluster."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import UsageError
from piwo.logs.columns import Columns
from piwo.sources.addresses import is_remote
from piwo.sources.checksums import require_pages
from piwo.sources.csv import csv_source, header_of
from piwo.sources.databases import database_source, is_database
from piwo.sources.datasets import DatasetSource, is_dataset
from piwo.sources.filters import condition, filtered, mentioned
from piwo.sources.frames import is_frame, to_table
from piwo.sources.gzip_files import require_undamaged
from piwo.sources.hive import hive_options, partitions_of
from piwo.sources.names import readable
from piwo.sources.parquet import ParquetSource, remote_parquet
from piwo.sources.paths import files_of, kind_of
from piwo.sources.query import QuerySource, file_list, quoted, refuse_doubled
from piwo.sources.source import Source
from piwo.sources.table import TableSource

__all__ = ["paths_of", "source_of"]

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
    made = _unfiltered(source, paths)
    if where is None:
        return made
    if isinstance(made, ParquetSource):
        # DuckDB would join numbers and text of different files without an error.
        names = made.schema.names
        asked = (*columns.resolve(names).used(), *mentioned(condition(where), names))
        partitions = {x.name for x in made.partitions}
        inside = [x for x in asked if x not in partitions]
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


def _unfiltered(source: Any, paths: list[str] | None) -> Source:
    if hasattr(source, "fragments"):
        made: Source = source
        return made
    clustered = _clustered(source)
    if clustered is not None:
        return clustered
    if is_dataset(source):
        return DatasetSource(source)
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
    message = (
        f"cannot read a log from {type(source).__name__}, expected a path, a glob, a "
        "query or a data frame"
    )
    if hasattr(source, "collect"):
        message += "; call .collect() on it first"
    raise UsageError(message)


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
) -> Source:
    """Return a source over CSV or JSON lines: columns with a role as text, the context as typed.

    Read as text, a label keeps its zeros and digits, and validation counts and names a word in a
    number column instead of stopping the read. A condition gets such columns as numbers.
    """
    require_undamaged(path for path in paths if not is_remote(path))
    partitions = partitions_of(paths)
    if kind == "csv":
        names = [*header_of(paths[0]).names, *(x.name for x in partitions)]
        columns = columns.resolve(names)
        seen = _mentioned(where, names)
        made = csv_source(
            paths, texts=columns.scalars(), numbers=(*columns.used(), *seen), partitions=partitions
        )
    else:
        for path in paths:
            refuse_doubled(_first_keys(path), f"the first line of {path!r}")
        hive = hive_options(partitions)
        reader = f"read_json({file_list(paths)}, format='newline_delimited', {hive}"
        found = QuerySource(f"select * from {reader})", name=paths[0])
        columns = columns.resolve(found.schema.names)
        seen = _mentioned(where, found.schema.names)
        roles, known = columns.scalars(), {x.name for x in partitions}
        types: dict[str, str] = {}
        for name in (*columns.used(), *seen):
            if name in roles:
                types[name] = "VARCHAR"
            else:
                types[name] = _json_type(found.schema.field(name).type)
        for name in known:
            # The folder gives the value and its type.
            types.pop(name, None)
        made = QuerySource(
            f"select * from {reader}, columns={_struct(types)})",
            name=paths[0],
            steady=True,
            files=paths,
        )
    if where is None:
        return made
    numbers = {*columns.numbers().values(), *columns.policies}
    numbers &= set(seen)
    return filtered(made, where, dict.fromkeys(sorted(numbers), "DOUBLE"))


def _mentioned(where: str | None, names: Sequence[str]) -> Sequence[str]:
    """Return the columns that a condition mentions."""
    if where is None:
        return ()
    return mentioned(condition(where), names)


def _first_keys(path: str) -> list[str]:
    """Return the keys of the first JSON object, with repeated ones; none if it is not an object."""
    try:
        opened = gzip.open if path.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            pairs = json.loads(file.readline(), object_pairs_hook=list)
        return [str(x[0]) for x in pairs]
    except (OSError, EOFError, ValueError, TypeError, IndexError, RecursionError, zlib.error):
        # DuckDB reads the file next and reports the error.
        return []


def _struct(types: Mapping[str, str]) -> str:
    """Return a DuckDB struct of column types."""
    fields = [f"{quoted(name, chr(39))}: '{kind}'" for name, kind in types.items()]
    return "{" + ", ".join(fields) + "}"


def _json_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return "DOUBLE[]"
    if pa.types.is_temporal(kind):
        return "TIMESTAMP"
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return "VARCHAR"
    return "DOUBLE"
