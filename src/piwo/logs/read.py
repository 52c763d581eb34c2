"""Make a log of files, globs, queries, data frames or arrays."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from piwo.checks import real_array
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.columns import (
    ARRAYS,
    ROLES,
    Columns,
    Roles,
    documents_roles,
    refuse_unknown,
)
from piwo.logs.dsjson import read_dsjson
from piwo.logs.encoding import DEFAULT_ENCODING, Encoding, Missing
from piwo.logs.log import Log
from piwo.logs.validation import Behavior
from piwo.messages import argument
from piwo.sources.addresses import is_remote
from piwo.sources.csv import csv_source, header_of
from piwo.sources.databases import database_source, is_database
from piwo.sources.filters import condition, filtered, mentioned
from piwo.sources.frames import is_frame, refuse_twice, same_index, to_table, unmasked
from piwo.sources.hive import hive_options, partitions_of
from piwo.sources.parquet import ParquetSource, remote_parquet
from piwo.sources.paths import files_of, kind_of
from piwo.sources.query import QuerySource, file_list, quoted, refuse_doubled
from piwo.sources.source import Source
from piwo.sources.table import TableSource

__all__ = ["log_of_arrays", "read"]

SPARK = "spark:"
"""Prefix of the name of a Spark table, or of a query for Spark."""
_SQL = re.compile(
    r"^(\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|from|values)[\s*('\"]", re.IGNORECASE | re.DOTALL
)


@documents_roles(ROLES)
def read(
    source: Any,
    *,
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    behavior: Behavior | None = None,
    normalize: bool = False,
    missing: Missing = "refuse",
    max_levels: int = DEFAULT_ENCODING.max_levels,
    hash_size: int = DEFAULT_ENCODING.hash_size,
    where: str | None = None,
    **roles: Unpack[Roles],
) -> Log:
    """Return a log over files, a query or a data frame: what was logged, and what columns mean.

    Rows are validated whenever they are read: a missing or impossible value is an error that names
    the column, the rule, how many rows and the first of them. Nothing is filled, clipped or
    dropped. How text becomes columns, and which context values are missing, is learned in one pass
    and saved with policies.

    Args:
        source: a path or glob (Parquet, CSV, JSON lines), a list of them, a DuckDB query, any data
            frame, "spark:TABLE", "spark:select ...", a Spark or Dask DataFrame (rows stay in the
            cluster), or a `Source`.
        actions: the action list; None: the sorted distinct labels.
        reward_range: the declared (lo, hi) of the reward (of -cost for costs); never inferred; hi
            may be inf.
        behavior: the behavior policy as an object with `probabilities(X)`.
        normalize: divide each row of `propensities` by its sum.
        missing: what to do about missing context values (null or NaN): "refuse" such rows, or
            "indicator": a context column that has any gets one more column, which is 1 for missing
            values, and its other columns are 0 there. An infinite value is always refused.
        max_levels: a text column of at most so many distinct values becomes one column a value
            (one-hot); a text column with more is hashed.
        hash_size: columns that a hashed text fills, a power of two; see `logs.Feature`.
        where: an SQL condition on any columns, such as "day >= '2026-01-01'"; the log has the rows
            for which it holds. It must not depend on the decision or the reward, unless another
            population is meant.
        **roles: the columns, by role. A default propensity column is read only if propensities
            are given in no other way:

    Returns:
        A `Log`.

    Raises:
        FileError: for files that are missing or cannot be read.
        DataError: for columns that do not exist (near names are shown).
        UsageError: for arguments that do not exist (near names are shown) or exclude each other.

    Warns: PiwoWarning: if that pass finds columns to hash, or missing values with
        missing="indicator".

    >>> log = read(
    ...     {"item": ["a", "b"], "click": [0, 1], "p": [0.5, 0.5]},
    ...     action="item",
    ...     reward="click",
    ...     propensity="p",
    ... )
    >>> log.actions.labels
    ('a', 'b')
    """
    refuse_unknown(read, roles, ROLES)
    columns = Columns.of_roles(roles, behavior is not None)
    encoding = Encoding(max_levels, hash_size, missing)
    paths = _paths(source)
    if paths is not None and kind_of(paths) == "dsjson":
        states_itself = behavior is not None or normalize or where is not None
        if states_itself or replace(columns, context=()) != Columns():
            takes = ", ".join(argument(x) for x in ("context", "actions", "reward_range"))
            raise UsageError(
                f"{paths[0]!r} is a dsjson log, whose lines state action, cost and propensity; "
                f"give at most {takes}"
            )
        log = read_dsjson(
            paths, context=columns.context, actions=actions, reward_range=reward_range
        )
        return replace(log, encoding=encoding)
    return Log.of(
        _source(source, paths, columns, where),
        columns,
        actions,
        reward_range=reward_range,
        behavior=behavior,
        normalize=normalize,
        encoding=encoding,
    )


def source_of(source: Any, columns: Columns, where: str | None = None) -> Source:
    """Return the source that a path, address, glob, list of paths, query or data frame means.

    Raises:
        FileError: where a path or glob matches no file.
        UsageError: for file types and objects that are not known.
    """
    return _source(source, _paths(source), columns, where)


def _source(source: Any, paths: list[str] | None, columns: Columns, where: str | None) -> Source:
    """Return the source that is meant; `paths`: its files, if it is files."""
    if paths is not None and (kind := kind_of(paths)) != "parquet":
        return text_source(paths, kind, columns, where)
    made = _as_it_is(source, paths)
    if where is None:
        return made
    if isinstance(made, ParquetSource):  # DuckDB would join numbers and text without an error
        names = made.schema.names
        asked = (*columns.resolve(names).used(), *mentioned(condition(where), names))
        partitions = {x.name for x in made.partitions}
        made.require_same([x for x in asked if x not in partitions])
    return filtered(made, where)


def _as_it_is(source: Any, paths: list[str] | None) -> Source:
    if hasattr(source, "fragments"):
        made: Source = source
        return made
    clustered = _clustered(source)
    if clustered is not None:
        return clustered
    if is_frame(source):
        return TableSource(to_table(source))
    if paths is not None:
        return remote_parquet(paths) if is_remote(paths[0]) else ParquetSource(paths)
    if isinstance(source, str):
        return database_source(source) if is_database(source) else QuerySource(source)
    lazy = "; call .collect() on it first" if hasattr(source, "collect") else ""
    raise UsageError(
        f"cannot read a log from {type(source).__name__}, expected a path, a glob, a query or a "
        f"data frame{lazy}"
    )


def _clustered(source: Any) -> Source | None:
    """Return the source of a frame or table of a cluster; None for everything else."""
    home = type(source).__module__
    if isinstance(source, str) and source.startswith(SPARK):
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


def _paths(source: Any) -> list[str] | None:
    """Return the files that paths and globs mean; None for queries and other objects."""
    if isinstance(source, str) and source.startswith(SPARK):
        return None
    if (
        isinstance(source, str)
        and not os.path.exists(source)
        and (_SQL.match(source) or is_database(source))
    ):
        return None
    if isinstance(source, str | os.PathLike):
        return _each_once(files_of(os.fspath(source)))
    listed = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    if listed and all(isinstance(x, str | os.PathLike) for x in source):
        return _each_once([path for item in source for path in files_of(os.fspath(item))])
    return None


def _each_once(paths: list[str]) -> list[str]:
    """Return the paths if all files differ: a file that is read twice would count twice."""
    seen: dict[str, str] = {}
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise UsageError(
                f"file {path!r} is given twice (as {seen[real]!r} before); its rows would count "
                "twice"
            )
        seen[real] = path
    return paths


def text_source(
    paths: Sequence[str], kind: str, columns: Columns, where: str | None = None
) -> Source:
    """Return a source over CSV or JSON lines: roles as text, the context as it is.

    Read as text, a label keeps its zeros and digits, and a word in a number column is counted and
    named by validation instead of stopping the read. A condition sees such columns as numbers.
    """
    partitions = partitions_of(paths)
    if kind == "csv":
        names = [*header_of(paths[0]).names, *(x.name for x in partitions)]
        columns = columns.resolve(names)
        seen = () if where is None else mentioned(condition(where), names)
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
        seen = () if where is None else mentioned(condition(where), found.schema.names)
        roles, known = columns.scalars(), {x.name for x in partitions}
        types = {
            x: "VARCHAR" if x in roles else _json_type(found.schema.field(x).type)
            for x in dict.fromkeys((*columns.used(), *seen))
            if x not in known
        }
        made = QuerySource(
            f"select * from {reader}, columns={_struct(types)})",
            name=paths[0],
            steady=True,
            files=paths,
        )
    if where is None:
        return made
    return filtered(
        made,
        where,
        {x: "DOUBLE" for x in (*columns.numbers().values(), *columns.policies) if x in seen},
    )


def _first_keys(path: str) -> list[str]:
    """Return the keys of the first JSON object, with repeated ones; none if it is not an object."""
    try:
        opened = gzip.open if path.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            pairs = json.loads(file.readline(), object_pairs_hook=list)
        return [str(x[0]) for x in pairs]
    except (OSError, EOFError, ValueError, TypeError, IndexError):
        return []  # DuckDB then reports the error


def _struct(types: Mapping[str, str]) -> str:
    """Return a DuckDB struct of column types."""
    return (
        "{" + ", ".join(f"{quoted(name, chr(39))}: '{kind}'" for name, kind in types.items()) + "}"
    )


def _json_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return "DOUBLE[]"
    if pa.types.is_temporal(kind):
        return "TIMESTAMP"
    return "VARCHAR" if pa.types.is_string(kind) or pa.types.is_null(kind) else "DOUBLE"


def log_of_arrays(
    given: Mapping[str, Any],
    context: Any,
    policies: Mapping[str, Any],
    actions: Any,
    options: Mapping[str, Any],
) -> Log:
    """Return the log of arrays, one entry a row; see `Log.from_arrays`."""
    if not isinstance(policies, Mapping):
        raise UsageError(
            f"{argument('policies')} is a {type(policies).__name__}, expected a mapping from name "
            "to probabilities"
        )
    clash = next((x for x in policies if str(x) in ARRAYS), None)
    if clash is not None:
        raise UsageError(f"policy {clash!r} has the name of a role; rename it")
    present = {name: values for name, values in given.items() if values is not None}
    indexed = {**present, **policies}
    if context is not None:
        indexed["context"] = context
    same_index(indexed)
    known = None if actions is None else Actions(actions)
    if "propensities" in present:
        present["propensities"] = _vector_columns(present["propensities"], known)
    table: dict[Any, Any] = {**present, **policies}
    context_names: tuple[str, ...] = ()
    if context is not None:
        extra = _context_columns(context)
        taken = [str(x) for x in table]
        clash = next((x for x in extra if x in taken), None)
        if clash is not None:
            raise UsageError(
                f"context column {clash!r} has the name of a role or a policy; rename it"
            )
        context_names = tuple(extra)
        table.update(extra)
    unsized = next((name for name, values in table.items() if not hasattr(values, "__len__")), None)
    if unsized is not None:
        kind = type(table[unsized]).__name__
        raise UsageError(f"{unsized} is a {kind}, expected an array or a list with one entry a row")
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {count}" for name, count in lengths.items())
        raise DataError(
            f"columns of different lengths ({shown}); every column needs one entry a row"
        )
    # an array becomes a column with the name of its role
    optional: dict[str, Any] = {role: role for role in ARRAYS if role in present}
    names = tuple(str(x) for x in policies)
    columns = Columns(propensity=None, context=context_names, policies=names)
    columns = replace(columns, **optional)
    return Log.of(TableSource(to_table(table), "the arrays"), columns, known, **options)


def _context_columns(context: Any) -> dict[str, Any]:
    if is_frame(context):
        table = to_table(context)
        refuse_twice(table.column_names)
        return {name: table[name] for name in table.column_names}
    matrix = _matrix(context, "the context")
    if matrix.ndim != 2:
        raise UsageError(
            f"the context has shape {matrix.shape}, expected (n, d); write x.reshape(-1, 1) for "
            "one column"
        )
    return {f"x{i}": np.ascontiguousarray(matrix[:, i]) for i in range(matrix.shape[1])}


def _matrix(values: Any, name: str) -> Any:
    """Return values as an array of numbers, masked entries as NaN."""
    try:
        matrix = np.asarray(unmasked(values))
        return matrix if matrix.dtype.kind in "biuf" else real_array(matrix)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} cannot be read as an (n, d) array of numbers: it holds text, times, complex "
            "numbers or rows of different lengths; give numbers, or a data frame with named "
            "columns"
        ) from None


def _vector_columns(vectors: Any, known: Actions | None) -> Any:
    """Return (n, K) propensities in the order of the actions; frames are matched by name."""
    if known is None:
        raise UsageError(
            f"full propensity vectors need {argument('actions', '[...]')}, the labels of their "
            "columns in order"
        )
    if is_frame(vectors):
        table = to_table(vectors)
        named = Actions(table.column_names)
        order = known.positions_in(named)
        if len(named) != len(known) or (order < 0).any():
            raise DataError(
                f"the propensity columns are {named.preview()}, expected exactly the actions "
                f"{known.preview()}"
            )
        vectors = np.column_stack([table[int(i)].to_numpy() for i in order])
    matrix = _matrix(vectors, "propensities").astype(np.float64, copy=False)
    if matrix.ndim != 2 or matrix.shape[1] != len(known):
        raise DataError(
            f"propensities have shape {matrix.shape}, expected (n, {len(known)}), one column an "
            "action"
        )
    return matrix
