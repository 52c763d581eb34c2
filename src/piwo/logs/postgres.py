"""Tables and queries of PostgreSQL, streamed as Arrow batches by ADBC; every pass sees one and the same snapshot."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from piwo.errors import FileError, UsageError
from piwo.logs.duckdb_errors import one_line
from piwo.logs.repeatable import chance
from piwo.logs.sources import BATCH_ROWS, Fragment, decoded, pieces_of, quoted

__all__ = ["PostgresSource", "is_postgres", "postgres_source"]

_BEGIN = "begin transaction isolation level repeatable read read only"
_IN_ORDER = (
    "set local synchronize_seqscans = off",
    "set local max_parallel_workers_per_gather = 0",
    "set local enable_indexscan = off",
    "set local enable_indexonlyscan = off",
    "set local enable_bitmapscan = off",
)
"""A table is read from its first page to its last: the same order at every pass of a snapshot."""
_CASTS = {"numeric": "float8", "_numeric": "float8[]"}
_ADDRESS = re.compile(r"postgres(ql)?://([^/@#?\s]*@)?[^/@#?\s]*(/[^@#?\s]*)?(\?[^@#\s]*)?")
_CLOCK = re.compile(
    r"\b(?:(?:now|(?:transaction|statement|clock)_timestamp|timeofday)\s*\(|(?:current_|local)time(?:stamp)?\b)",
    re.IGNORECASE,
)
"""What tells the time of the transaction, and every pass has one of its own."""
_QUERY = re.compile(r"\s*(select|with|values|table)[\s(*'\"]", re.IGNORECASE)


def is_postgres(text: str) -> bool:
    """Tell whether a text is an address of PostgreSQL.

    >>> is_postgres("postgresql://me@host/db#clicks")
    True
    """
    return re.match(r"postgres(ql)?://", text) is not None


def postgres_source(text: str) -> PostgresSource:
    """Return the rows of postgresql://...#TABLE, #SCHEMA.TABLE or #select ...

    The address is libpq's, in which a # is written %23; a password is better kept in ~/.pgpass or PGPASSWORD.

    Raises:
        FileError: where ADBC's driver is not installed, and where the server, table or query fails.
        UsageError: where no table and no query stands behind a #, and where a password is not written as addresses ask.
    """
    address, mark, asked = text.partition("#")
    query = _QUERY.match(asked) is not None
    if not _ADDRESS.fullmatch(address) or ("@" in asked and not query):
        raise UsageError(
            "the address of PostgreSQL (not shown, as it may hold a password) has / @ # ? or a space too many; "
            "write them as %2F %40 %23 %3F %20 in names and passwords, or use ~/.pgpass"
        )
    if not mark or not asked.strip():
        raise UsageError(
            f"got {_shown(address)!r}, expected postgresql://USER@HOST/DATABASE#TABLE, or a query in place of the table"
        )
    name = f"{_shown(address)}#{asked}"
    session = _Session(address, name)
    if query:
        return PostgresSource(session, asked.strip().rstrip(";"), name, steady=False)
    schema, table, kind = session.table(asked)
    return PostgresSource(session, f"select * from {quoted(schema)}.{quoted(table)}", name, steady=kind == "r")


def _shown(address: str) -> str:
    """Return an address without user, password and options."""
    parts = urlsplit(address)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """Turn what ADBC and the server say into one line without a password."""
    import adbc_driver_manager

    try:
        yield
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as cause:
        told = one_line(re.split(r"Query was:|\bLINE \d+:", str(cause))[0]).rstrip(".")
        if "snapshot" in told and "invalid" in told:
            told = "the snapshot that all passes read has ended with its connection; read the log again"
        advice = "check the address, the names in the query or in the condition (where=), and what the user may read"
        raise FileError(f"PostgreSQL could not give the rows of {name}: {told}; {advice}") from None


class _Session:
    """A transaction that is open as long as somebody holds it; it keeps the snapshot."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = address, name
        with _errors_of_import(), _errors(name):
            self._connection = _connect(address)
            weakref.finalize(self, self._connection.close)
            self._ask(_BEGIN)
            self.snapshot, self.seen = self._rows("select pg_export_snapshot(), pg_current_snapshot()::text")[0]

    def _ask(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

    def _rows(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query as ADBC would give them."""
        with _errors(self.name), self._connection.cursor() as cursor:
            return cursor.adbc_execute_schema(sql)

    def volatile(self, names: Sequence[str]) -> list[str]:
        """Return which of these names are functions that may give another value at each call."""
        sql = (
            "select proname::text from pg_proc where provolatile = 'v' and proname = any($1::text[]) "
            "and prorettype <> 'tsm_handler'::regtype order by 1"
        )
        with _errors(self.name):
            return [x for (x,) in self._rows(sql, "{" + ",".join(names) + "}")]

    def table(self, asked: str) -> tuple[str, str, str]:
        """Return schema, name and kind of the one table or view that is called so."""
        sql = (
            "select nspname::text, relname::text, relkind::text, pg_table_is_visible(c.oid) from pg_class c "
            "join pg_namespace n on n.oid = relnamespace where relkind in ('r', 'p', 'v', 'm', 'f') "
            "and (nspname || '.' || relname = $1 or (relname = $1 and pg_table_is_visible(c.oid)))"
        )
        with _errors(self.name):
            found = self._rows(sql, asked)
        if len(found) != 1:
            what = f"{len(found)} tables are called" if found else "no table"
            raise FileError(f"{what} {asked!r} in {self.name.partition('#')[0]!r}, expected #TABLE or #SCHEMA.TABLE")
        return found[0][0], found[0][1], found[0][2]


@contextmanager
def _errors_of_import() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise FileError(
            "PostgreSQL is read by ADBC's driver, which is not installed; pip install 'piwo[postgres]', or "
            "give a query on a DuckDB connection that has the database attached: Log.from_sql(..., connection=...)"
        ) from None


def _connect(address: str) -> Any:
    from adbc_driver_postgresql import dbapi

    return dbapi.connect(address, autocommit=True)


@dataclass(frozen=True)
class PostgresFragment:
    """Columns of the whole answer, on a connection of its own that sees the snapshot."""

    address: str = field(repr=False)
    name: str
    snapshot: str
    sql: str
    start: int = 0

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, as the server sends them."""
        with _errors(self.name), _connect(self.address) as connection, connection.cursor() as cursor:
            for statement in (_BEGIN, f"set transaction snapshot {quoted(self.snapshot, chr(39))}", *_IN_ORDER):
                cursor.execute(statement)
            cursor.execute(self.sql)
            for record in cursor.fetch_record_batch():
                for at in range(0, record.num_rows, BATCH_ROWS):
                    yield record.slice(at, BATCH_ROWS)

    def pieces(self) -> Iterator[Fragment]:
        """Yield the rows as they come, a few batches at a time."""
        return pieces_of(self.records(), self.start)


class PostgresSource:
    """A table, or the answer to a query, in one snapshot: what others change later is not seen by any pass."""

    rows = None

    def __init__(self, session: _Session, sql: str, name: str, steady: bool) -> None:
        self.name, self.steady, self._session, self._asked = name, steady, session, sql
        _refuse_chance(session, sql, name)
        found = session.schema(f"select * from ({sql}\n) as piwo_rows")
        chosen = [_as_arrow_knows(x) for x in found]
        self.sql = f"select {', '.join(chosen)} from ({sql}\n) as piwo_rows"
        self.schema: pa.Schema = session.schema(self.sql).remove_metadata()

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the one fragment that there is."""
        listed = ", ".join(quoted(x) for x in columns)
        return [self._fragment(f"select {listed} from ({self.sql}) as piwo_rows")]

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        records = self._fragment(f"select distinct {quoted(column)} from ({self.sql}) as piwo_rows").records()
        return decoded(pa.Table.from_batches(list(records), pa.schema([self.schema.field(column)])).column(0))

    def where(self, condition: str) -> PostgresSource:
        """Return the rows for which a condition holds; the server decides, in its own SQL."""
        sql = f"select * from ({self._asked}\n) as piwo_rows where (\n{condition}\n)"
        return PostgresSource(self._session, sql, f"{self.name} where {condition}", self.steady)

    def identity(self) -> tuple[Any, ...]:
        """Return address and query, and which transactions the snapshot sees."""
        return ("postgresql", _shown(self._session.address), self.sql, str(self.schema), self._session.seen)

    def _fragment(self, sql: str) -> PostgresFragment:
        return PostgresFragment(self._session.address, self.name, self._session.snapshot, sql)


def _refuse_chance(session: _Session, sql: str, name: str) -> None:
    """Raise where a query may give other rows at each pass: see `logs.repeatable`, here by the server's own words."""
    plain = re.sub(r"'(?:[^']|'')*'", "''", sql)
    called = sorted({x.lower() for x in re.findall(r'(\w+)"?\s*\(', plain)})
    clock = _CLOCK.search(plain)
    if clock:
        raise UsageError(
            f"{clock[0].rstrip('( ')} in {name} is another time at every pass, and a log is read several times; "
            "write the time itself, such as timestamptz '2026-01-31 12:00+00', or current_date where days are enough"
        )
    sample = re.search(r"\btablesample\b(?!.*\brepeatable\b)", plain, re.IGNORECASE | re.DOTALL)
    what = "a sample without a seed" if sample else next((f"{x}()" for x in session.volatile(called)), None)
    if what is not None:
        raise UsageError(chance(what, name, "abs(hashtext(id::text)) % 10 < 9"))


def _as_arrow_knows(column: pa.Field) -> str:
    """Return a column as one of numbers, times or text: ADBC gives numeric as text, and more types by its own names."""
    name = quoted(column.name)
    kind = (column.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    cast = _CASTS.get(kind, "text" if isinstance(column.type, pa.BaseExtensionType) else None)
    return name if cast is None else f"{name}::{cast} as {name}"
