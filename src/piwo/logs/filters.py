"""Filters: the rows of a log for which an SQL condition holds (`where=`), decided by DuckDB as it reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from piwo.errors import UsageError
from piwo.logs.duckdb_errors import one_line
from piwo.logs.postgres import PostgresSource
from piwo.logs.sources import ParquetSource, QuerySource, Source, TableSource, quoted

__all__ = ["condition", "filtered", "mentioned"]


def condition(text: Any) -> str:
    """Return the text of an SQL condition, seen to be one expression.

    Raises:
        UsageError: for anything else.

    >>> condition("day >= '2026-01-01'")
    "day >= '2026-01-01'"
    """
    import duckdb

    if not isinstance(text, str):
        raise UsageError(f"where={text!r} is no condition, expected SQL as text, such as \"day >= '2026-01-01'\"")
    try:
        duckdb.SQLExpression(text)
    except duckdb.Error as cause:
        raise UsageError(
            f"where={text!r} is not one SQL condition ({one_line(cause)}), expected such as \"day >= '2026-01-01'\""
        ) from None
    return text


def mentioned(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Return which columns a condition may look at, by their names in it.

    >>> mentioned('Day > 3 and "user id" is not null', ["day", "user id", "item"])
    ('day', 'user id')
    """
    import duckdb

    data = text.encode()
    starts = [at for at, _ in duckdb.tokenize(text)]
    words = [data[at:end].decode().strip() for at, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    plain = {(x[1:-1].replace('""', '"') if x.startswith('"') else x).casefold() for x in words}
    return tuple(x for x in names if x.casefold() in plain)


def filtered(source: Source, where: str, numbers: Mapping[str, str] | None = None) -> Source:
    """Return the rows of a source for which a condition holds, in the same order.

    Parquet files and row groups that cannot have such rows are not read: DuckDB knows that from the names of folders
    and from the statistics in the files. A row for which the condition is null is left out, as in SQL.

    Args:
        source: the rows.
        where: the condition, in DuckDB's SQL.
        numbers: SQL types under which the condition sees columns that are read as text.

    Raises:
        UsageError: for what is no condition, for one that may hold for other rows at each pass, and for sources that
            have no columns of their own.

    >>> filtered(TableSource(pa.table({"x": [1, 2, 3]})), "x > 1").rows
    2
    """
    if isinstance(source, PostgresSource):
        return source.where(where)
    text, name = condition(where), f"{source.name} where {where}"
    if isinstance(source, TableSource):
        return TableSource(_of_table(source.table, text, name), name)
    if isinstance(source, ParquetSource):
        return QuerySource(_sql(source.sql(), text), name, steady=True, files=source.paths)
    if isinstance(source, QuerySource):
        listed = source.schema.names
        sql = _sql(source.sql, text) if not numbers else _seen_as_numbers(source.sql, text, listed, numbers)
        return QuerySource(sql, name, source.connection, source.steady, files=source.files, setup=source.setup)
    raise UsageError(
        f"got where={where!r} for {source.name}, expected files, a query or a data frame; leave rows out first"
    )


def _sql(rows: str, where: str) -> str:
    return f"select * from ({rows}) where (\n{where}\n)"


def _seen_as_numbers(rows: str, where: str, listed: Collection[str], numbers: Mapping[str, str]) -> str:
    """Return the rows as they are, and let the condition see some columns as numbers."""
    row = quoted("piwo: a row")
    seen = [f"cast({quoted(x)} as {numbers[x]}) as {quoted(x)}" if x in numbers else quoted(x) for x in listed]
    inner = f"select {row}, {', '.join(seen)} from ({rows}) as {row}"
    back = ", ".join(f"{row}.{quoted(x)} as {quoted(x)}" for x in listed)
    return f"select {back} from ({inner}) where (\n{where}\n)"


def _of_table(table: pa.Table, where: str, name: str) -> pa.Table:
    """Return the rows, of the types that they have."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("piwo_rows", table)
        source = QuerySource(f"select cast((\n{where}\n) as boolean) as keep from piwo_rows", name, connection)
        kept = [x["keep"] for part in source.fragments(["keep"]) for x in part.records()]
        return table.filter(pa.chunked_array(kept, pa.bool_()))
