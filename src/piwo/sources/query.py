"""The answer to a DuckDB query as a source, and DuckDB connections."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from piwo.errors import DataError, UsageError
from piwo.sources.duckdb_errors import duckdb_errors
from piwo.sources.names import readable, without_links
from piwo.sources.paths import states_of_files
from piwo.sources.repeatable import reads_checksums, refuse_chance, stopped_clocks
from piwo.sources.source import Fragment, batches_of, pieces_of

__all__ = [
    "ColumnType",
    "QueryFragment",
    "QuerySource",
    "cursor_of",
    "file_list",
    "first_row",
    "quoted",
    "refuse_doubled",
    "rows_of",
]

ColumnType: TypeAlias = Literal["number", "text"]
"""What a policy knows of a column; numbers may be written as true and false."""
_SETTINGS: dict[str, Any] = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
}
"""Settings of connections that piwo opens: a table name never means a Python variable of the same
name, and nothing is downloaded without being asked for."""
_KEEPS_NOTHING: dict[str, Any] = {"enable_external_file_cache": "false"}
"""Every pass reads what the files hold now."""
_PLAIN = re.compile(r"\s*(?:select|from|with|describe)\b(?!.*://)", re.IGNORECASE | re.DOTALL)
"""Queries that leave nothing in a database. DuckDB takes the settings of addresses from the
environment once per database, and they may change while piwo runs."""
_UTC = "set timezone = 'UTC'"
"""The days and hours of an instant, and what a text such as 2026-01-01 means as an instant, must
not depend on the machine; DuckDB would take the zone of the operating system."""
_MANY_COLUMNS = 512
_FEW_ROWS = 2048
"""Rows that DuckDB produces at once, and the fewest that it can."""


@dataclass(frozen=True)
class QueryFragment:
    """Fragment: columns of the whole answer to a query."""

    sql: str
    columns: tuple[str, ...]
    connection: Any = None
    start: int = 0
    setup: tuple[str, ...] = ()
    name: str = "the query"

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        with _relation(self.sql, self.name, self.connection, self.setup) as relation:
            for record in _reader(_columns(relation, self.columns)):
                yield from batches_of(pa.Table.from_batches([record]))

    def pieces(self) -> Iterator[Fragment]:
        """Yield the rows as they arrive, a few batches at a time."""
        return pieces_of(self.records(), self.start)


class QuerySource:
    """The answer to a DuckDB query, which runs again at each pass.

    Every pass gives the same rows: random functions are refused, and clocks are stopped. Their
    order may differ unless `steady`.

    Args:
        sql: the query.
        name: of the source in messages.
        connection: the user's own; None: a new one for each pass.
        steady: whether every pass gives the rows in the same order.
        files: what the query reads, if known: a checkpoint notices when they change.
        setup: statements that run first on each connection.
        rows: the number of rows, if known.
    """

    def __init__(
        self,
        sql: str,
        name: str = "the query",
        connection: Any = None,
        steady: bool = False,
        *,
        files: Sequence[str] = (),
        setup: Sequence[str] = (),
        rows: int | None = None,
    ) -> None:
        self.name, self.connection = name, connection
        self.steady, self.rows = steady, rows
        self.files = tuple(files)
        self.sql = _one_statement(sql, name)
        only_built_in = connection is None and not setup
        with cursor_of(name, connection, setup, sql=self.sql) as cursor:
            refuse_chance(self.sql, name, cursor, only_built_in)
            clocks = stopped_clocks(self.sql, cursor, only_built_in, setup)
            # Files that piwo names were compared before.
            self.unverified = not files and reads_checksums(self.sql, cursor, only_built_in)
        self.setup = (*setup, *clocks)
        with _relation(self.sql, name, connection, self.setup) as relation:
            self.schema: pa.Schema = pa.RecordBatchReader.from_stream(relation.limit(0)).schema
        # What must live as long as this source: the temporary folder that its files are in.
        self.folder: object = None
        # Set for text files, whose columns may be read with other types.
        self.doubts: Mapping[str, str] = {}
        self.again: Callable[[Mapping[str, ColumnType]], QuerySource] | None = None
        self._made: dict[frozenset[tuple[str, ColumnType]], QuerySource] = {}

    def with_types(self, types: Mapping[str, ColumnType]) -> QuerySource:
        """Return the same rows, columns of text files read with these types.

        Args:
            types: column -> what a policy was made from; other columns keep their types.

        Raises:
            DataError: for a column that holds text where the policy has numbers.
        """
        if self.again is None or not any(map(self._has_other, types, types.values())):
            return self
        # Looking at the values takes a pass, so it is done once.
        asked = frozenset(types.items())
        if asked not in self._made:
            self._made[asked] = self.again(types)
        return self._made[asked]

    def _has_other(self, name: str, kind: ColumnType) -> bool:
        """Whether a column is not of this type as it is read now."""
        if name not in self.schema.names:
            return True
        found = self.schema.field(name).type
        if kind == "text":
            return not (pa.types.is_string(found) or pa.types.is_large_string(found))
        number = pa.types.is_integer(found) or pa.types.is_floating(found)
        return not (number or pa.types.is_boolean(found))

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return one fragment."""
        return [
            QueryFragment(
                self.sql, tuple(columns), self.connection, setup=self.setup, name=self.name
            )
        ]

    def source_id(self) -> tuple[Any, ...]:
        """Return the text of the query, and the states of its files if they are known."""
        return (
            "query",
            without_links(self.sql),
            self.setup,
            str(self.schema),
            *states_of_files(self.files),
        )


def _one_statement(sql: str, name: str) -> str:
    """Return the text of one query without a semicolon or comments at its end.

    Raises:
        UsageError: for any other number of statements.
    """
    import duckdb

    with duckdb_errors(name):
        statements = duckdb.extract_statements(sql)
        tokens = duckdb.tokenize(sql)
    if len(statements) != 1:
        raise UsageError(
            f"got {len(statements)} SQL statements, expected one query that gives the rows"
        )
    text = sql.encode()
    end = len(text)
    for at, kind in reversed(tokens):
        if kind != duckdb.token_type.comment and text[at : at + 1] != b";":
            break
        end = at
    return text[:end].decode().strip()


@cache
def _shared_database(process: int) -> Any:  # noqa: ARG001 (the key of the cache)
    """The database of the plain queries of a process.

    To open another takes 10 ms, a cursor of this one 10 µs. A forked process has none of the
    threads of its parent's database, and opens its own.
    """
    import duckdb

    return duckdb.connect(config=_SETTINGS | _KEEPS_NOTHING)


@contextmanager
def cursor_of(
    name: str, connection: Any = None, setup: Sequence[str] = (), *, sql: str = ""
) -> Iterator[Any]:
    """Give a DuckDB cursor of its own, closed at the end; its errors are piwo's, in one line.

    Args:
        name: of the source in messages.
        connection: the user's own; None: one of piwo's.
        setup: statements that run first.
        sql: the query that it is for, if known: plain ones share a database.
    """
    import duckdb

    with duckdb_errors(name):
        if connection is not None:
            opened = connection.cursor()
        elif not setup and _PLAIN.match(sql):
            opened = _shared_database(os.getpid()).cursor()
        else:
            opened = duckdb.connect(config=_SETTINGS)
        with opened as cursor:
            # DuckDB would draw its own bar on stdout, where results go. The settings belong to this
            # cursor alone.
            cursor.execute("set enable_progress_bar = false")
            cursor.execute(_UTC)
            for statement in setup:
                cursor.execute(statement)
            yield cursor


@contextmanager
def _relation(
    sql: str, name: str, connection: Any = None, setup: Sequence[str] = ()
) -> Iterator[Any]:
    """Give a DuckDB relation on a cursor of its own, as an open reader occupies its cursor."""
    import duckdb

    with cursor_of(name, connection, setup, sql=sql) as cursor:
        try:
            relation = cursor.sql(sql)
        except duckdb.CatalogException:
            if connection is None:
                raise
            # Only the user's own connection knows temporary tables and registered data frames.
            relation = None
        if relation is not None:
            yield relation
            return
        with _in_utc(connection):
            yield connection.sql(sql)


@contextmanager
def _in_utc(connection: Any) -> Iterator[None]:
    """Set a user's own connection to UTC while it is read."""
    ((before,),) = connection.execute("select current_setting('TimeZone')").fetchall()
    connection.execute(_UTC)
    try:
        yield
    finally:
        connection.execute(f"set timezone = {quoted(before, chr(39))}")


def rows_of(sql: str, name: str) -> list[tuple[Any, ...]]:
    """Return the few rows of the answer to a query; `name` is the source's in errors.

    >>> rows_of("select unnest([1, 2])", "a query")
    [(1,), (2,)]
    """
    with _relation(sql, name) as relation:
        rows: list[tuple[Any, ...]] = relation.fetchall()
        return rows


def first_row(sql: str, name: str, setup: Sequence[str] = ()) -> tuple[Any, ...]:
    """Return the first row of the answer to a query; `name` is the source's in errors.

    >>> first_row("select 1, 'a'", "a query")
    (1, 'a')
    """
    with _relation(sql, name, setup=setup) as relation:
        row: tuple[Any, ...] = relation.limit(1).fetchall()[0]
        return row


def _columns(relation: Any, names: Sequence[str]) -> Any:
    return relation.project(", ".join(map(quoted, names)))


def _reader(relation: Any) -> Any:
    """Return an Arrow reader of a relation; of rows with lists or many columns few come at once."""
    lists = any(str(x).endswith(("]", ")")) for x in relation.types)
    if not lists and len(relation.types) < _MANY_COLUMNS:
        return pa.RecordBatchReader.from_stream(relation)
    # The method has another name in DuckDB before 1.5.
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return reader(_FEW_ROWS)


def file_list(paths: Sequence[str]) -> str:
    """Return a DuckDB list of file names, none of which is taken for a glob.

    >>> file_list(["a[1].csv"])
    "['a[[]1].csv']"
    """
    listed = []
    for path in paths:
        # In a glob, [*] is the character * itself.
        escaped = re.sub(r"[\[*?]", r"[\g<0>]", readable(path))
        listed.append(quoted(escaped, "'"))
    return "[" + ", ".join(listed) + "]"


def quoted(name: str, mark: str = '"') -> str:
    """Return a name as an SQL identifier, or a text as an SQL literal with mark "'".

    >>> quoted('a"b')
    '"a""b"'
    """
    return mark + name.replace(mark, mark + mark) + mark


def refuse_doubled(names: Sequence[str], place: str) -> None:
    """Raise if two column names differ in case at most: DuckDB takes them for one.

    Raises:
        DataError: naming the two.

    >>> refuse_doubled(["p", "P"], "the header of 'log.csv'")
    Traceback (most recent call last):
    piwo.errors.DataError: the header of 'log.csv' names columns 'p' and 'P', which differ ...
    """
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise DataError(
                f"{place} names columns {seen[name.lower()]!r} and {name!r}, which "
                "differ in case at most; give each column a name of its own"
            )
        seen[name.lower()] = name
