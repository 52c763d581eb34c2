"""Filters: the rows of a log for which an SQL condition holds (`where=`), decided by DuckDB as it reads."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from piwo.errors import UsageError
from piwo.messages import argument
from piwo.sources.addresses import shown
from piwo.sources.clusters import Cluster, Merge, One, Partition
from piwo.sources.parquet import ParquetSource
from piwo.sources.postgres import PostgresSource
from piwo.sources.query import QueryFragment, QuerySource, quoted
from piwo.sources.source import Fragment, Source
from piwo.sources.table import TableSource

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
        raise UsageError(
            f"{argument('where')}={text!r} is not a condition, expected SQL as text, such as \"day >= '2026-01-01'\""
        )
    try:
        duckdb.SQLExpression(text)
    except duckdb.Error as cause:
        raise UsageError(
            f'{argument("where")}={text!r} is not one SQL condition ({shown(cause)}), expected such as "day '
            ">= '2026-01-01'\""
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
    words = [
        data[at:end].decode().strip()
        for at, end in zip(starts, [*starts[1:], len(data)], strict=True)
    ]
    plain = {(x[1:-1].replace('""', '"') if x.startswith('"') else x).casefold() for x in words}
    return tuple(x for x in names if x.casefold() in plain)


def filtered(source: Source, where: str, numbers: Mapping[str, str] | None = None) -> Source:
    """Return the rows of a source for which a condition holds, in the same order.

    Parquet files and row groups that cannot have such rows are not read: DuckDB knows that from the
    names of folders and from the statistics in the files. A row for which the condition is null is
    left out, as in SQL.

    Args:
        source: the rows.
        where: the condition, in DuckDB's SQL.
        numbers: SQL types under which the condition sees columns that are read as text.

    Raises:
        UsageError: for what is no condition, for one that may hold for other rows at each pass, and
            for sources that have no columns of their own.

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
        sql = (
            _sql(source.sql, text)
            if not numbers
            else _seen_as_numbers(source.sql, text, listed, numbers)
        )
        return QuerySource(
            sql, name, source.connection, source.steady, files=source.files, setup=source.setup
        )
    if isinstance(source, Cluster):
        with _of_rows(source.schema.empty_table(), text, name) as probe:
            return FilteredCluster(source, name, _Condition(text, probe.setup, name))
    raise UsageError(
        f"got {argument('where')}={where!r} for {source.name}, expected files, a query or a data frame; leave "
        "rows out first"
    )


def _sql(rows: str, where: str) -> str:
    return f"select * from ({rows}) where (\n{where}\n)"


def _seen_as_numbers(
    rows: str, where: str, listed: Collection[str], numbers: Mapping[str, str]
) -> str:
    """Return the rows as they are, and let the condition see some columns as numbers."""
    row = quoted("piwo: a row")
    seen = [
        f"cast({quoted(x)} as {numbers[x]}) as {quoted(x)}" if x in numbers else quoted(x)
        for x in listed
    ]
    inner = f"select {row}, {', '.join(seen)} from ({rows}) as {row}"
    back = ", ".join(f"{row}.{quoted(x)} as {quoted(x)}" for x in listed)
    return f"select {back} from ({inner}) where (\n{where}\n)"


@contextmanager
def _of_rows(table: pa.Table, where: str, name: str) -> Iterator[QuerySource]:
    """Give the query that says of each row of a table whether the condition holds."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("piwo_rows", table)
        yield QuerySource(_asking(where), name, connection)


def _asking(where: str) -> str:
    return f"select cast((\n{where}\n) as boolean) as keep from piwo_rows"


def _of_table(table: pa.Table, where: str, name: str) -> pa.Table:
    """Return the rows, of the types that they have."""
    with _of_rows(table, where, name) as source:
        return table.filter(_answer(source.fragments(["keep"])))


def _answer(fragments: Iterable[Fragment]) -> pa.ChunkedArray:
    return pa.chunked_array([x["keep"] for part in fragments for x in part.records()], pa.bool_())


@dataclass(frozen=True)
class _Condition:
    """What travels to the workers."""

    where: str
    setup: tuple[str, ...]
    """What stops the clocks that the condition looks at."""
    name: str


@dataclass(frozen=True, eq=False)
class FilteredCluster(Cluster):
    """The rows of a cluster for which a condition holds: DuckDB decides, where they lie, in the dialect of all logs."""

    source: Cluster
    name: str
    condition: _Condition

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        return self.source.schema

    def fold(self, columns: Sequence[str], one: One, merge: Merge) -> bytes:
        """Return the merge of what one makes of the rows kept in every partition."""
        return self.source.fold(
            self._looked_at(columns), _OfKept(self.condition, tuple(columns), one), merge
        )

    def head(self, columns: Sequence[str]) -> Fragment:
        """Return a few of the rows that are kept: of the first ones, or of the first partition that has some."""
        kept = _Kept(self.source.head(self._looked_at(columns)), tuple(columns), self.condition)
        first = [x for x in kept.records() if x.num_rows]
        if not first:
            held = self.fold(columns, _first_kept, lambda parts: next((x for x in parts if x), b""))
            first = list(pa.ipc.open_stream(held)) if held else []
        return Partition(0, tuple(columns), first)

    def _looked_at(self, columns: Sequence[str]) -> list[str]:
        names, where = self.schema.names, self.condition.where
        more = (
            names if "columns" in where.casefold() else mentioned(where, names)
        )  # columns(*) means all
        return list(dict.fromkeys((*columns, *more)))


@dataclass(frozen=True)
class _Kept:
    """Fragment: the rows of another one for which the condition holds."""

    fragment: Fragment
    columns: tuple[str, ...]
    of: _Condition

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
                asked = QueryFragment(
                    _asking(self.of.where),
                    ("keep",),
                    connection,
                    setup=self.of.setup,
                    name=self.of.name,
                )
                keep = _answer([asked]).combine_chunks()
            yield record.select(list(self.columns)).filter(keep)


@dataclass(frozen=True)
class _OfKept:
    """What one worker does: hand on the rows that are kept."""

    of: _Condition
    columns: tuple[str, ...]
    one: One

    def __call__(self, fragment: Fragment) -> bytes:
        return self.one(_Kept(fragment, self.columns, self.of))


def _first_kept(fragment: Fragment) -> bytes:
    """Return the first rows of a partition as an Arrow stream; nothing where none is kept."""
    record = next((x for x in fragment.records() if x.num_rows), None)
    if record is None:
        return b""
    file = io.BytesIO()
    with pa.ipc.new_stream(file, record.schema) as stream:
        stream.write_batch(record.slice(0, 1000))
    return file.getvalue()
