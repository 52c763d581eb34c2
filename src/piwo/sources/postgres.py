"""Tables and queries of PostgreSQL, streamed as Arrow batches by ADBC's driver (`piwo[postgres]`).

Every pass sees the same snapshot and can only read. The server decides conditions, in its own SQL.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from piwo.errors import FileError, UsageError
from piwo.messages import argument
from piwo.sources.addresses import shown
from piwo.sources.query import quoted
from piwo.sources.repeatable import chance
from piwo.sources.source import Fragment, batches_of, pieces_of

__all__ = ["PostgresSource", "is_postgres", "postgres_source"]

_IN_ORDER = (
    "set local synchronize_seqscans = off",
    "set local max_parallel_workers_per_gather = 0",
    "set local enable_indexscan = off",
    "set local enable_indexonlyscan = off",
    "set local enable_bitmapscan = off",
)
"""A table is read from its first page to its last: the same order at every pass of a snapshot."""
_AS_UTF8 = "set local client_encoding to 'UTF8'"
"""The server's own encoding may be another, which the driver does not look at."""
_AT_UTC = "set local time zone 'UTC'"
"""What a text such as 2026-01-01 means as an instant must not depend on machine or server."""
_SAME_IN_ARROW = {"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea"}
_SAME_IN_ARROW |= {"date", "time", "timestamp", "timestamptz", "interval"}
"""Types that are read as they are."""
_CASTS = {"numeric": "float8", "money": "numeric::float8", "oid": "int8"}
"""Other types -> the type as which they are read; all others are read as text."""
_ADDRESS = re.compile(r"postgres(ql)?://([^/@#?\s]*@)?[^/@#?\s]*(/[^@#?\s]*)?(\?[^@#\s]*)?")
_BAD_PERCENT = re.compile(r"%(?!(?!00)[0-9A-Fa-f]{2})")
"""A percent sign that starts no escape: libpq's error would quote the password that holds it."""
_CLOCK = re.compile(
    r"\b(?:(?:now|(?:transaction|statement|clock)_timestamp|timeofday)\s*\("
    r"|(?:current_|local)time(?:stamp)?\b)",
    re.IGNORECASE,
)
"""Functions that give the time of the transaction; every pass is a transaction of its own."""
_NOT_CODE = re.compile(
    r"--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"
    r'"(?:[^"]|"")*"',
    re.IGNORECASE | re.DOTALL,
)
"""Comments, texts and quoted names: a quote in one of them starts no other."""
_QUERY = re.compile(r"\s*(select|with|values|table)[\s(*'\"]", re.IGNORECASE)


def is_postgres(text: str) -> bool:
    """Whether a text is an address of PostgreSQL.

    >>> is_postgres("postgresql://me@host/db#clicks")
    True
    """
    return re.match(r"postgres(ql)?://", text) is not None


def postgres_source(text: str) -> PostgresSource:
    """Return the rows of postgresql://...#TABLE, #SCHEMA.TABLE or #select ...

    The address is libpq's, in which a # is written %23. A password is better kept in ~/.pgpass or
    PGPASSWORD.

    Raises:
        FileError: if the driver is not installed, or if server, table or query fails.
        UsageError: if no table or query follows a #, and if a password is not escaped.
    """
    address, mark, asked = text.partition("#")
    is_query = _QUERY.match(asked) is not None
    well_formed = _ADDRESS.fullmatch(address) and not _BAD_PERCENT.search(address)
    if not well_formed or not _has_host(address) or ("@" in asked and not is_query):
        raise UsageError(
            "the address of PostgreSQL (not shown, as it may hold a password) has / @ "
            "# ? % or a space too many; write them as %2F %40 %23 %3F %25 %20 in "
            "names and passwords, [..] around an IPv6 host, or use ~/.pgpass"
        )
    if not mark or not asked.strip():
        raise UsageError(
            f"got {_place(address)!r}, expected postgresql://USER@HOST/DATABASE#TABLE, "
            "or a query in place of the table"
        )
    name = f"{_place(address)}#{asked}"
    session = _Session(address, name)
    if is_query:
        return PostgresSource(session, asked.strip().rstrip(";"), name, steady=False)
    schema, table, kind = session.table(asked)
    sql = f"select * from {quoted(schema)}.{quoted(table)}"
    return PostgresSource(session, sql, name, steady=kind == "r")


def _has_host(address: str) -> bool:
    """Whether the brackets around an IPv6 host, if there are any, hold one."""
    try:
        urlsplit(address)
    except ValueError:
        return False
    return True


def _place(address: str) -> str:
    """Return an address without user, password and options."""
    parts = urlsplit(address)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _text(value: str) -> str:
    """Return an SQL literal that is the same on servers that take a backslash for an escape."""
    return "E" + quoted(value.replace("\\", "\\\\"), "'")


class _Link:
    """A connection in one transaction that only reads and sees one snapshot.

    Args:
        address: of the database.
        setup: statements that run first.
    """

    def __init__(self, address: str, setup: Sequence[str] = ()) -> None:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise FileError(
                "PostgreSQL is read by ADBC's driver, which is not installed; pip "
                "install 'piwo[postgres]'"
            ) from None
        self._connection = dbapi.connect(address, autocommit=True)
        begin = "begin transaction isolation level repeatable read read only"
        try:
            for statement in (begin, *setup):
                with self._connection.cursor() as cursor:
                    cursor.execute(statement)
        except BaseException:
            self._connection.close()
            raise

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the few rows that answer a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query, which is not run."""
        with self._connection.cursor() as cursor:
            return cursor.adbc_execute_schema(sql).remove_metadata()

    def records(self, sql: str) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows that answer a query, as the server sends them."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            yield from cursor.fetch_record_batch()

    def close(self) -> None:
        """End the transaction and the connection; this never fails."""
        with suppress(*_link_errors()):
            self._connection.close()


def _link_errors() -> tuple[type[Exception], ...]:
    """Return what a link raises."""
    import adbc_driver_manager

    return adbc_driver_manager.Error, pa.ArrowException, OSError


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """Turn the errors of server and driver into one line each, without a password."""
    try:
        yield
    except FileError:
        raise
    except Exception as cause:
        if not isinstance(cause, _link_errors()):
            raise
        reason = shown(re.split(r"Query was:|\bLINE \d+:", str(cause))[0]).rstrip(".")
        if "snapshot" in reason and ("invalid" in reason or "does not exist" in reason):
            reason = "the snapshot for all passes ended with its connection; read the log again"
        raise FileError(
            f"PostgreSQL could not give the rows of {name}: {reason}; check the "
            "address, the names in the query or in the condition "
            f"({argument('where')}), and the user's rights"
        ) from None


@dataclass(frozen=True)
class _Snapshot:
    """What every pass sees. It can be pickled, and ends with the session that took it."""

    address: str = field(repr=False)
    key: str

    @contextmanager
    def link(self) -> Iterator[_Link]:
        """Give a link of its own that sees the snapshot, closed at the end."""
        setup = (f"set transaction snapshot {_text(self.key)}", _AS_UTF8, _AT_UTC, *_IN_ORDER)
        with closing(_Link(self.address, setup)) as link:
            yield link

    def stop(self, process: int) -> None:
        """Have the server cancel a link's query: its driver might read it to the end on closing."""
        if sys.is_finalizing():  # no thread can be started any more
            self._cancel(process)
            return
        thread = Thread(target=self._cancel, args=(process,))
        thread.start()  # a second Ctrl-C ends the wait for it, not its work
        thread.join()

    def _cancel(self, process: int) -> None:
        with suppress(*_link_errors()), closing(_Link(self.address)) as link:
            link.rows(f"select pg_cancel_backend({process})")


class _Session:
    """A transaction that stays open as long as a source refers to it, and so keeps the snapshot."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = address, name
        with _errors(name):
            setup = (_AS_UTF8, _AT_UTC, "set local idle_in_transaction_session_timeout = 0")
            self._link = _Link(address, setup)
            weakref.finalize(self, self._link.close)
            asked = "select pg_export_snapshot(), pg_current_snapshot()::text"
            ((key, self.seen),) = self._link.rows(asked)
        self.snapshot = _Snapshot(address, key)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the answer to a question about the database."""
        with _errors(self.name):
            return self._link.rows(sql)

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query as they are read."""
        with _errors(self.name):
            return self._link.schema(sql)

    def kinds(self, sql: str, names: Sequence[str]) -> list[str]:
        """Return the server's types of the columns of a query, which is not run.

        In place of a domain, the type that it is based on.
        """
        listed = ", ".join(f"pg_typeof(piwo_rows.{quoted(x)})" for x in names)
        found = self.rows(
            "with recursive kinds(at, kind) as (select at, kind::oid from "
            f"unnest((select array[{listed}]::regtype[] from (select 1) as piwo_one "
            f"left join ({sql}\n) as piwo_rows on false)) with ordinality as "
            "piwo_kinds(kind, at) union all select at, typbasetype from kinds join "
            "pg_type t on t.oid = kind where typbasetype <> 0) select typname::text "
            "from kinds join pg_type t on t.oid = kind where typbasetype = 0 order by "
            "at"
        )
        return [kind for (kind,) in found]

    def volatile(self, names: Sequence[str]) -> list[str]:
        """Return which of these names are functions that may give another value at each call."""
        listed = _text("{" + ",".join(names) + "}")
        found = self.rows(
            "select proname::text from pg_proc where provolatile = 'v' and proname = "
            f"any({listed}::text[]) and prorettype <> 'tsm_handler'::regtype order by 1"
        )
        return [name for (name,) in found]

    def table(self, asked: str) -> tuple[str, str, str]:
        """Return schema, name and kind of the one table or view with a name."""
        name = _text(asked)
        found = self.rows(
            "select nspname::text, relname::text, relkind::text from pg_class c join "
            "pg_namespace n on n.oid = relnamespace where relkind in ('r', 'p', 'v', "
            f"'m', 'f') and (nspname || '.' || relname = {name} or (relname = {name} "
            "and pg_table_is_visible(c.oid)))"
        )
        if len(found) != 1:
            what = "no table"
            if found:
                what = f"{len(found)} tables are called"
            raise FileError(
                f"{what} {asked!r} in {_place(self.address)!r}, expected #TABLE or #SCHEMA.TABLE"
            )
        schema, table, kind = found[0]
        return schema, table, kind


@dataclass(frozen=True)
class PostgresFragment:
    """Fragment: columns of the whole answer, on a connection of its own that sees the snapshot."""

    snapshot: _Snapshot
    name: str
    sql: str
    start: int = 0

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, as the server sends them."""
        with _errors(self.name), self.snapshot.link() as link:
            ((process,),) = link.rows("select pg_backend_pid()")
            records = link.records(self.sql)
            stopped: tuple[type[Exception], ...] = ()
            try:
                with ThreadPoolExecutor(1) as thread:
                    try:
                        while (record := _awaited(thread.submit(next, records, None))) is not None:
                            yield from batches_of(pa.Table.from_batches([record]))
                    except _link_errors():
                        raise
                    except BaseException:
                        self.snapshot.stop(process)
                        stopped = _link_errors()
                        raise
            finally:
                # The error of a query that was stopped must not hide why it was.
                with suppress(*stopped):
                    records.close()

    def pieces(self) -> Iterator[Fragment]:
        """Yield the rows as they arrive, a few batches at a time."""
        return pieces_of(self.records(), self.start)


def _awaited(future: Future[Any]) -> Any:
    """Return a thread's result; each second Python can notice Ctrl-C, which a driver may not."""
    while not wait([future], timeout=1).done:
        pass
    return future.result()


class PostgresSource:
    """A table, or the answer to a query, in one snapshot: no pass sees what others change later."""

    rows = None

    def __init__(self, session: _Session, sql: str, name: str, steady: bool) -> None:
        self.name, self.steady, self._session, self._asked = name, steady, session, sql
        _refuse_chance(session, sql, name)
        names = session.schema(f"select * from ({sql}\n) as piwo_rows").names
        chosen = ", ".join(map(_column, names, session.kinds(sql, names)))
        self._sql = f"select {chosen} from ({sql}\n) as piwo_rows"
        self.schema: pa.Schema = session.schema(self._sql)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return one fragment."""
        listed = ", ".join(map(quoted, columns))
        sql = f"select {listed} from ({self._sql}) as piwo_rows"
        return [PostgresFragment(self._session.snapshot, self.name, sql)]

    def where(self, condition: str) -> PostgresSource:
        """Return the rows for which a condition holds; the server decides, in its own SQL."""
        sql = f"select * from ({self._asked}\n) as piwo_rows where (\n{condition}\n)"
        return PostgresSource(self._session, sql, f"{self.name} where {condition}", self.steady)

    def source_id(self) -> tuple[Any, ...]:
        """Return place and query, and which transactions the snapshot sees."""
        place = _place(self._session.address)
        return ("postgresql", place, self._sql, str(self.schema), self._session.seen)


def _refuse_chance(session: _Session, sql: str, name: str) -> None:
    """Raise if a query may give other rows at each pass; `sources.repeatable` says why.

    The server knows which of its functions are volatile.
    """
    code = _NOT_CODE.sub(_blank, sql)
    clock = _CLOCK.search(code)
    if clock:
        raise UsageError(
            f"{clock[0].rstrip('( ')} in {name} is another time at every pass, and a "
            "log is read several times; write the time itself, such as timestamptz "
            "'2026-01-31 12:00+00', or current_date if days are enough"
        )
    instead = "abs(hashtext(id::text)) % 10 < 9"
    if re.search(r"\btablesample\b(?!.*\brepeatable\b)", code, re.IGNORECASE | re.DOTALL):
        raise UsageError(chance("a sample without a seed", name, instead))
    # PostgreSQL's functions have lower-case names.
    called = set(re.findall(r'(\w+)"?\s*\(', code.lower()))
    volatile = session.volatile(sorted(called))
    if volatile:
        raise UsageError(chance(f"{volatile[0]}()", name, instead))


def _blank(found: re.Match[str]) -> str:
    """Return what replaces a comment, a text or a name in a query that is searched for words."""
    if found[0].startswith('"'):
        return found[0]
    return " " if found[0].startswith(("--", "/*")) else "''"


def _column(name: str, kind: str) -> str:
    """Return a column as numbers, times or text, or as lists of them."""
    entry, is_list = kind.removeprefix("_"), kind.startswith("_")
    if entry in _SAME_IN_ARROW:
        return quoted(name)
    cast = quoted(name)
    for step in _CASTS.get(entry, "text").split("::"):
        cast += f"::{step}[]" if is_list else f"::{step}"
    return f"{cast} as {quoted(name)}"
