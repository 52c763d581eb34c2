"""Tables and queries of PostgreSQL, streamed as Arrow batches; every pass sees one and the same snapshot.

What is asked of the server stands here. It goes by one of two ways: DuckDB's extension `postgres`,
which asks for no package beside those that piwo has, or ADBC's driver where that extension is not
installed, as it cannot be had for every version of DuckDB. Both give the same rows, and the same
types of numbers, times, text and plain lists of them.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from piwo.errors import FileError, UsageError
from piwo.messages import argument
from piwo.sources.duckdb_errors import one_line
from piwo.sources.postgres_adbc import AdbcLink, has_adbc
from piwo.sources.postgres_duckdb import DuckDBLink, has_extension
from piwo.sources.postgres_link import Link, LinkError, Linking
from piwo.sources.repeatable import chance
from piwo.sources.source import BATCH_ROWS, Fragment, decoded, pieces_of, quoted

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
"""The server's own encoding may be another, which neither driver looks at."""
_AS_THEY_ARE = frozenset({
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea",
    "date", "time", "timestamp", "timestamptz", "interval",
})  # fmt: skip
"""Types that mean the same to the server, to both ways and to Arrow."""
_CASTS = {"numeric": "float8", "money": "numeric::float8", "oid": "int8"}
"""Other types -> what they are read as; where there is nothing here, as text."""
_ADDRESS = re.compile(r"postgres(ql)?://([^/@#?\s]*@)?[^/@#?\s]*(/[^@#?\s]*)?(\?[^@#\s]*)?")
_PERCENT = re.compile(r"%(?!(?!00)[0-9A-Fa-f]{2})")
"""A sign that stands for none: libpq would show the password that it is in."""
_CLOCK = re.compile(
    r"\b(?:(?:now|(?:transaction|statement|clock)_timestamp|timeofday)\s*\(|(?:current_|local)time(?:stamp)?\b)",
    re.IGNORECASE,
)
"""What tells the time of the transaction, and every pass has one of its own."""
_ASIDE = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""",
    re.IGNORECASE | re.DOTALL,
)
"""Comments, texts and quoted names: a quote in one of them begins no other."""
_QUERY = re.compile(r"\s*(select|with|values|table)[\s(*'\"]", re.IGNORECASE)


def is_postgres(text: str) -> bool:
    """Whether a text is an address of PostgreSQL.

    >>> is_postgres("postgresql://me@host/db#clicks")
    True
    """
    return re.match(r"postgres(ql)?://", text) is not None


def postgres_source(text: str) -> PostgresSource:
    """Return the rows of postgresql://...#TABLE, #SCHEMA.TABLE or #select ...

    The address is libpq's, in which a # is written %23; a password is better kept in ~/.pgpass or
    PGPASSWORD.

    Raises:
        FileError: where neither DuckDB's extension nor ADBC's driver is installed; where server,
            table or query fails.
        UsageError: where no table and no query stands behind a #, and where a password is not
            written as addresses ask.
    """
    address, mark, asked = text.partition("#")
    query = _QUERY.match(asked) is not None
    if not _ADDRESS.fullmatch(address) or _PERCENT.search(address) or ("@" in asked and not query):
        raise UsageError(
            "the address of PostgreSQL (not shown, as it may hold a password) has / @ # ? % or a "
            "space too many; write them as %2F %40 %23 %3F %25 %20 in names and passwords, or use "
            "~/.pgpass"
        )
    if not mark or not asked.strip():
        raise UsageError(
            f"got {_shown(address)!r}, expected postgresql://USER@HOST/DATABASE#TABLE, or a query "
            "in place of the table"
        )
    name = f"{_shown(address)}#{asked}"
    session = _Session(address, name)
    if query:
        return PostgresSource(session, asked.strip().rstrip(";"), name, steady=False)
    schema, table, kind = session.table(asked)
    return PostgresSource(
        session, f"select * from {quoted(schema)}.{quoted(table)}", name, steady=kind == "r"
    )


def _shown(address: str) -> str:
    """Return an address without user, password and options."""
    parts = urlsplit(address)
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """Turn what the server and the driver say into one line without a password."""
    try:
        yield
    except LinkError as cause:
        told = one_line(re.split(r"Query was:|\bLINE \d+:", str(cause))[0]).rstrip(".")
        if "snapshot" in told and ("invalid" in told or "does not exist" in told):
            told = "the snapshot that all passes read has ended with its connection; read the log again"
        advice = f"check the address, the names in the query or in the condition ({argument('where')}), and what the user may read"
        raise FileError(f"PostgreSQL could not give the rows of {name}: {told}; {advice}") from None


def _way() -> Linking:
    """Return how to reach PostgreSQL: by DuckDB's extension where it is installed, else by ADBC.

    Raises:
        FileError: where neither is installed.
    """
    if has_extension():
        return DuckDBLink
    if has_adbc():
        return AdbcLink
    raise FileError(
        "PostgreSQL is read by DuckDB's extension or by ADBC's driver, and neither is installed; "
        "install the one, with a network: python -c \"import duckdb; duckdb.sql('install "
        "postgres')\", or the other: pip install 'piwo[postgres]'"
    )


@dataclass(frozen=True)
class _Passes:
    """Links that see one snapshot, each for one pass."""

    way: Linking
    address: str = field(repr=False)
    snapshot: str

    @contextmanager
    def link(self) -> Iterator[Link]:
        """Give a link of its own, closed at the end."""
        first = (f"set transaction snapshot {_text(self.snapshot)}", _AS_UTF8, *_IN_ORDER)
        with closing(self.way(self.address, first)) as link:
            yield link

    def stop(self, process: int) -> None:
        """Have the server give up the query of a link: its driver might read the answer to its end when it closes."""
        if sys.is_finalizing():  # no thread can be started any more
            self._cancel(process)
            return
        thread = Thread(target=self._cancel, args=(process,))
        thread.start()  # a second Ctrl-C ends the waiting for it, and not its work
        thread.join()

    def _cancel(self, process: int) -> None:
        with suppress(LinkError), closing(self.way(self.address, ())) as link:
            link.rows(f"select pg_cancel_backend({process})")


class _Session:
    """A transaction that is open as long as somebody holds it; it keeps the snapshot."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = address, name
        way = _way()
        with _errors(name):
            self._link = way(
                address, (_AS_UTF8, "set local idle_in_transaction_session_timeout = 0")
            )
            weakref.finalize(self, self._link.close)
            snapshot, self.seen = self._link.rows(
                "select pg_export_snapshot(), pg_current_snapshot()::text"
            )[0]
        self.passes = _Passes(way, address, snapshot)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the answer to a question."""
        with _errors(self.name):
            return self._link.rows(sql)

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query as they are read."""
        with _errors(self.name):
            return self._link.schema(sql)

    def kinds(self, sql: str, names: Sequence[str]) -> list[str]:
        """Return the server's types of the columns of a query, which is not run; a domain is the type behind it."""
        listed = ", ".join(f"pg_typeof(piwo_rows.{quoted(x)})" for x in names)
        return [
            x
            for (x,) in self.rows(
                "with recursive kinds(at, kind) as (select at, kind::oid from unnest((select "
                f"array[{listed}]::regtype[] from (select 1) as piwo_one left join ({sql}\n) as "
                "piwo_rows on false)) with ordinality as piwo_kinds(kind, at) union all select "
                "at, typbasetype from kinds join pg_type t on t.oid = kind where typbasetype <> "
                "0) select typname::text from kinds join pg_type t on t.oid = kind where "
                "typbasetype = 0 order by at"
            )
        ]

    def volatile(self, names: Sequence[str]) -> list[str]:
        """Return which of these names are functions that may give another value at each call."""
        listed = _text("{" + ",".join(names) + "}")
        sql = (
            "select proname::text from pg_proc where provolatile = 'v' and proname = "
            f"any({listed}::text[]) and prorettype <> 'tsm_handler'::regtype order by 1"
        )
        return [x for (x,) in self.rows(sql)]

    def table(self, asked: str) -> tuple[str, str, str]:
        """Return schema, name and kind of the one table or view that is called so."""
        name = _text(asked)
        found = self.rows(
            "select nspname::text, relname::text, relkind::text from pg_class c join pg_namespace "
            "n on n.oid = relnamespace where relkind in ('r', 'p', 'v', 'm', 'f') and (nspname || "
            f"'.' || relname = {name} or (relname = {name} and pg_table_is_visible(c.oid)))"
        )
        if len(found) != 1:
            what = f"{len(found)} tables are called" if found else "no table"
            raise FileError(
                f"{what} {asked!r} in {self.name.partition('#')[0]!r}, expected #TABLE or "
                "#SCHEMA.TABLE"
            )
        return found[0][0], found[0][1], found[0][2]


def _text(value: str) -> str:
    """Return a text as the server writes it, whatever it takes a backslash for."""
    return "E" + quoted(value.replace("\\", "\\\\"), "'")


@dataclass(frozen=True)
class PostgresFragment:
    """Columns of the whole answer, on a connection of its own that sees the snapshot."""

    passes: _Passes
    name: str
    sql: str
    start: int = 0

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, as the server sends them."""
        with _errors(self.name), self.passes.link() as link:
            ((process,),) = link.rows("select pg_backend_pid()")
            with closing(link.records(self.sql)) as records, ThreadPoolExecutor(1) as thread:
                try:
                    while (record := _awaited(thread.submit(next, records, None))) is not None:
                        for at in range(0, record.num_rows, BATCH_ROWS):
                            yield record.slice(at, BATCH_ROWS)
                except LinkError:
                    raise
                except BaseException:
                    self.passes.stop(process)
                    raise

    def pieces(self) -> Iterator[Fragment]:
        """Yield the rows as they come, a few batches at a time."""
        return pieces_of(self.records(), self.start)


def _awaited(future: Future[Any]) -> Any:
    """Return what a thread gives, waiting a second at a time: Python hears Ctrl-C in between, a driver may not."""
    while not wait([future], timeout=1).done:
        pass
    return future.result()


class PostgresSource:
    """A table, or the answer to a query, in one snapshot: what others change later is not seen by any pass."""

    rows = None

    def __init__(self, session: _Session, sql: str, name: str, steady: bool) -> None:
        self.name, self.steady, self._session, self._asked = name, steady, session, sql
        _refuse_chance(session, sql, name)
        names = session.schema(f"select * from ({sql}\n) as piwo_rows").names
        chosen = [_column(*x) for x in zip(names, session.kinds(sql, names), strict=True)]
        self.sql = f"select {', '.join(chosen)} from ({sql}\n) as piwo_rows"
        self.schema: pa.Schema = session.schema(self.sql)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the one fragment that there is."""
        listed = ", ".join(quoted(x) for x in columns)
        return [self._fragment(f"select {listed} from ({self.sql}) as piwo_rows")]

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        records = self._fragment(
            f"select distinct {quoted(column)} from ({self.sql}) as piwo_rows"
        ).records()
        return decoded(
            pa.Table.from_batches(list(records), pa.schema([self.schema.field(column)])).column(0)
        )

    def where(self, condition: str) -> PostgresSource:
        """Return the rows for which a condition holds; the server decides, in its own SQL."""
        sql = f"select * from ({self._asked}\n) as piwo_rows where (\n{condition}\n)"
        return PostgresSource(self._session, sql, f"{self.name} where {condition}", self.steady)

    def source_id(self) -> tuple[Any, ...]:
        """Return address and query, and which transactions the snapshot sees."""
        return (
            "postgresql",
            _shown(self._session.address),
            self.sql,
            str(self.schema),
            self._session.seen,
        )

    def _fragment(self, sql: str) -> PostgresFragment:
        return PostgresFragment(self._session.passes, self.name, sql)


def _refuse_chance(session: _Session, sql: str, name: str) -> None:
    """Raise where a query may give other rows at each pass: see `logs.repeatable`, here by the server's own words."""
    plain = _ASIDE.sub(_blank, sql)
    called = sorted({x.lower() for x in re.findall(r'(\w+)"?\s*\(', plain)})
    clock = _CLOCK.search(plain)
    if clock:
        raise UsageError(
            f"{clock[0].rstrip('( ')} in {name} is another time at every pass, and a log is read "
            "several times; write the time itself, such as timestamptz '2026-01-31 12:00+00', or "
            "current_date where days are enough"
        )
    sample = re.search(r"\btablesample\b(?!.*\brepeatable\b)", plain, re.IGNORECASE | re.DOTALL)
    what = (
        "a sample without a seed"
        if sample
        else next((f"{x}()" for x in session.volatile(called)), None)
    )
    if what is not None:
        raise UsageError(chance(what, name, "abs(hashtext(id::text)) % 10 < 9"))


def _blank(aside: re.Match[str]) -> str:
    """Return what stands for a comment, a text or a name in a query that is searched for words."""
    text = aside[0]
    return text if text.startswith('"') else " " if text.startswith(("--", "/*")) else "''"


def _column(name: str, kind: str) -> str:
    """Return a column as one of numbers, times or text, or as a list of them."""
    entry, is_list = kind.removeprefix("_"), kind.startswith("_")
    if entry in _AS_THEY_ARE:
        return quoted(name)
    steps = [x + "[]" if is_list else x for x in _CASTS.get(entry, "text").split("::")]
    return f"{quoted(name)}::{'::'.join(steps)} as {quoted(name)}"
