"""Filters: the rows of a source for which an SQL condition holds, decided by DuckDB as it reads."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from piwo.errors import UsageError
from piwo.messages import argument
from piwo.sources.addresses import shown
from piwo.sources.clusters import Cluster, Merge, One, Partition
from piwo.sources.parquet import ParquetSource
from piwo.sources.postgres import PostgresSource
from piwo.sources.query import QueryFragment, QuerySource, quoted
from piwo.sources.repeatable import words_of
from piwo.sources.source import Fragment, Source
from piwo.sources.table import TableSource

__all__ = ["condition", "filtered", "filtered_query", "mentioned"]


def condition(text: Any) -> str:
    """Return the text of an SQL condition after checking that it is one expression.

    Raises:
        UsageError: for anything else.

    >>> condition("day >= '2026-01-01'")
    "day >= '2026-01-01'"
    """
    import duckdb

    where = argument("where")
    if not isinstance(text, str):
        raise UsageError(
            f'{where}={text!r} is not a condition, expected SQL as text, such as "day >= '
            "'2026-01-01'\""
        )
    try:
        duckdb.SQLExpression(text)
    except duckdb.Error as cause:
        raise UsageError(
            f'{where}={text!r} is not one SQL condition ({shown(cause)}), expected such as "day '
            ">= '2026-01-01'\""
        ) from None
    return text


_WHOLE_ROWS = ("piwo_rows", "unnamed_subquery", "columns", "piwo: a row")
"""Words that can stand for all columns of a row."""


def mentioned(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns whose names occur in a condition.

    >>> mentioned('Day > 3 and "user id" is not null', ["day", "user id", "item"])
    ('day', 'user id')
    """
    words, plain = words_of(text), set()
    # #2 is the second column, and the name of a table a whole row of it.
    code = " ".join(word for word in words if not word.startswith("'"))
    if re.search(r"#\s*\d", code):
        return tuple(names)
    for word in words:
        if word.startswith('"'):
            word = word[1:-1].replace('""', '"')  # noqa: PLW2901 (the name without quotes)
        plain.add(word.casefold())
    if any(word.startswith(_WHOLE_ROWS) for word in plain):
        return tuple(names)
    return tuple(x for x in names if x.casefold() in plain)


def filtered(source: Source, where: str) -> Source:
    """Return the rows of a source for which a condition holds, in the same order.

    Parquet files and row groups that cannot have such rows are not read: DuckDB sees that from the
    names of folders and the statistics in the files. A row for which the condition is null is left
    out, as in SQL.

    Args:
        source: the rows.
        where: the condition, in DuckDB's SQL.

    Raises:
        UsageError: for anything but a condition, for one that may hold for other rows at each pass,
            and for sources of other kinds.

    >>> filtered(TableSource(pa.table({"x": [1, 2, 3]})), "x > 1").rows
    2
    """
    if isinstance(source, PostgresSource):
        return source.where(where)
    text, name = condition(where), f"{source.name} where {where}"
    if isinstance(source, TableSource):
        return TableSource(_rows_kept(source.table, text, name), name, named=source.named)
    if isinstance(source, ParquetSource):
        made = QuerySource(_sql(source.sql(), text), name, steady=True, files=source.paths)
        made.folder = source.folder
        return made
    if isinstance(source, QuerySource):
        return filtered_query(source, text)
    if isinstance(source, Cluster):
        # Each worker runs a query of its own, but the clocks are stopped here, for all of them.
        with _decisions(source.schema.empty_table(), text, name) as probe:
            return FilteredCluster(source, name, text, probe.setup)
    raise UsageError(
        f"got {argument('where')}={where!r} for {source.name}, expected files, a query "
        "or a data frame; leave rows out first"
    )


def filtered_query(
    source: QuerySource, where: str, kinds: Mapping[str, str] | None = None
) -> QuerySource:
    """Return the rows of a query for which a condition holds.

    Args:
        source: the rows.
        where: the condition, in DuckDB's SQL.
        kinds: column -> the SQL type that the condition sees, for columns that rows have as text.
    """
    text = condition(where)
    sql = _sql(source.sql, text)
    if kinds:
        sql = _sql_with_kinds(source.sql, text, source.schema.names, kinds)
    return QuerySource(
        sql,
        f"{source.name} where {where}",
        source.connection,
        source.steady,
        files=source.files,
        setup=source.setup,
    )


def _sql(rows: str, where: str) -> str:
    return f"select * from ({rows}) where (\n{where}\n)"


def _sql_with_kinds(
    rows: str, where: str, columns: Collection[str], kinds: Mapping[str, str]
) -> str:
    """Return a query for the rows as they are, whose condition sees other types of some columns."""
    row = quoted("piwo: a row")
    seen, back = [], []
    for name in columns:
        column = quoted(name)
        back.append(f"{row}.{column} as {column}")
        if name in kinds:
            column = f"cast({column} as {kinds[name]}) as {column}"
        seen.append(column)
    inner = f"select {row}, {', '.join(seen)} from ({rows}) as {row}"
    return f"select {', '.join(back)} from ({inner}) where (\n{where}\n)"


@contextmanager
def _decisions(table: pa.Table, where: str, name: str) -> Iterator[QuerySource]:
    """Open a query that gives, for each row of a table, whether the condition holds."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("piwo_rows", table)
        yield QuerySource(_decision_sql(where), name, connection)


def _decision_sql(where: str) -> str:
    return f"select cast((\n{where}\n) as boolean) as keep from piwo_rows"


def _rows_kept(table: pa.Table, where: str, name: str) -> pa.Table:
    """Return the rows for which a condition holds, with their types."""
    with _decisions(table, where, name) as source:
        (fragment,) = source.fragments(["keep"])
        return table.filter(_answer(fragment))


def _answer(fragment: Fragment) -> pa.ChunkedArray:
    return pa.chunked_array([record["keep"] for record in fragment.records()], pa.bool_())


@dataclass(frozen=True, eq=False)
class FilteredCluster(Cluster):
    """The rows of a cluster for which a condition holds; DuckDB decides on the workers.

    Args:
        source: all rows.
        name: of the source in messages.
        where: the condition.
        setup: statements that stop the clocks that the condition reads.
    """

    source: Cluster
    name: str
    where: str
    setup: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        return self.source.schema

    def fold(self, columns: Sequence[str], one: One, merge: Merge) -> bytes:
        """Return the merged states of the rows kept in every partition."""
        of_kept = partial(_of_kept, tuple(columns), self.where, self.setup, self.name, one)
        return self.source.fold(self._read(columns), of_kept, merge)

    def together(self, column: str) -> FilteredCluster:
        """Return the same rows with equal values of a column as neighbors."""
        return replace(self, source=self.source.together(column))

    def head(self, columns: Sequence[str]) -> Fragment:
        """Return a few kept rows: of the source's head, or of the first partition with any."""
        rows = self.source.head(self._read(columns))
        kept = _Kept(rows, tuple(columns), self.where, self.setup, self.name)
        first = [x for x in kept.records() if x.num_rows]
        if not first:
            found = self.fold(columns, _first_batch, _first_filled)
            first = list(pa.ipc.open_stream(found)) if found else []
        return Partition(0, tuple(columns), first)

    def _read(self, columns: Sequence[str]) -> list[str]:
        """Return these columns and those that the condition reads."""
        read = list(self.schema.names)
        # COLUMNS(*) in DuckDB's SQL means all of them.
        if "columns" not in self.where.casefold():
            read = list(mentioned(self.where, read))
        return list(dict.fromkeys((*columns, *read)))


@dataclass(frozen=True)
class _Kept:
    """Fragment: the rows of another fragment for which the condition holds."""

    fragment: Fragment
    columns: tuple[str, ...]
    where: str
    setup: tuple[str, ...]
    name: str

    @property
    def start(self) -> int:
        """The row number of its first row."""
        return self.fragment.start

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are kept, these columns of them."""
        import duckdb

        for record in self.fragment.records():
            with duckdb.connect() as connection:
                connection.register("piwo_rows", pa.Table.from_batches([record]))
                decision = QueryFragment(
                    _decision_sql(self.where),
                    ("keep",),
                    connection,
                    setup=self.setup,
                    name=self.name,
                )
                keep = _answer(decision).combine_chunks()
            yield record.select(list(self.columns)).filter(keep)


def _of_kept(
    columns: tuple[str, ...],
    where: str,
    setup: tuple[str, ...],
    name: str,
    one: One,
    fragment: Fragment,
) -> bytes:
    """Return the state of the rows that are kept; this runs on workers."""
    return one(_Kept(fragment, columns, where, setup, name))


def _first_batch(fragment: Fragment) -> bytes:
    """Return the first rows of a partition as an Arrow stream; nothing if it has none."""
    for record in fragment.records():
        if record.num_rows:
            file = io.BytesIO()
            with pa.ipc.new_stream(file, record.schema) as stream:
                stream.write_batch(record.slice(0, 1000))
            return file.getvalue()
    return b""


def _first_filled(parts: Iterable[bytes]) -> bytes:
    return next((x for x in parts if x), b"")
