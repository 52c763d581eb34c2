"""PostgreSQL by DuckDB's extension `postgres`, where the DuckDB that runs here has it installed.

The server gets its own SQL (`postgres_query`), not DuckDB's, so that types, conditions and refusals
are the server's. One DuckDB transaction is one transaction of the server, repeatable read and read
only.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import pyarrow as pa

from piwo.sources.duckdb_errors import is_interrupt
from piwo.sources.postgres_link import LinkError
from piwo.sources.source import BATCH_ROWS, OF_OUR_OWN, arrow_reader, quoted

__all__ = ["DuckDBLink", "has_extension"]

_NUMBERS = itertools.count()


def has_extension() -> bool:
    """Whether DuckDB has its extension `postgres` installed.

    >>> has_extension() in (True, False)
    True
    """
    import duckdb

    asked = "select installed from duckdb_extensions() where extension_name = 'postgres_scanner'"
    with duckdb.connect(config=OF_OUR_OWN) as connection:
        return connection.execute(asked).fetchall() == [(True,)]


@cache
def _database(process: int) -> Any:  # noqa: ARG001 (a forked process must not use the database of its parent)
    """Return an empty database that has the extension loaded, which takes longer than all else that a link needs."""
    import duckdb

    # rows come by one stream: a second thread of DuckDB's would only spin while it waits
    connection = duckdb.connect(config={**OF_OUR_OWN, "threads": 1})
    connection.execute("load postgres")
    # an empty secret, named: a secret of the user's that has no name would be put before the
    # address, and spoil it
    connection.execute("create temporary secret piwo_none (type postgres)")
    return connection


class DuckDBLink:
    """A transaction on a connection of DuckDB."""

    def __init__(self, address: str, first: Sequence[str] = ()) -> None:
        self._address, self._name = address, f"piwo_{next(_NUMBERS)}"
        with self._said():
            self._cursor = _database(os.getpid()).cursor()
            try:
                self._begin(first)
            except BaseException:
                self.close()
                raise

    def _begin(self, first: Sequence[str]) -> None:
        # DuckDB would draw its own bar on stdout, where results go
        self._cursor.execute("set enable_progress_bar = false")
        place = quoted(self._address, "'")
        self._cursor.execute(
            f"attach {place} as {self._name} (type postgres, read_only, secret piwo_none)"
        )
        self._cursor.begin()
        for statement in first:
            self._cursor.execute(
                f"call postgres_execute('{self._name}', {quoted(statement, chr(39))})"
            )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the few rows that answer a query."""
        with self._said():
            rows: list[tuple[Any, ...]] = self._relation(sql).fetchall()
            return rows

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query, which is not run."""
        with self._said():
            found = pa.RecordBatchReader.from_stream(self._relation(sql).limit(0)).schema
            return pa.schema([pa.field(x.name, _plain(x.type)) for x in found])

    def records(self, sql: str) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows that answer a query, as the server sends them."""
        schema = self.schema(sql)
        with self._said():
            for record in arrow_reader(self._relation(sql), BATCH_ROWS):
                yield record.cast(schema)

    def close(self) -> None:
        """End the transaction and the connection."""
        import duckdb

        # a transaction that failed, a connection that the server ended, or one more Ctrl-C
        with suppress(duckdb.Error, RuntimeError):
            self._cursor.rollback()
        with suppress(duckdb.Error, RuntimeError):
            self._cursor.execute(f"detach {self._name}")
        self._cursor.close()

    def _relation(self, sql: str) -> Any:
        return self._cursor.sql(
            f"select * from postgres_query('{self._name}', {quoted(sql, chr(39))})"
        )

    @contextmanager
    def _said(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as cause:
            if is_interrupt(cause):
                raise KeyboardInterrupt from None
            if isinstance(cause, RuntimeError):
                raise
            raise LinkError(_words(str(cause), self._address)) from None


def _words(text: str, address: str) -> str:
    """Return what the server says, without the address, and without the query that DuckDB made of ours."""
    for form in (quoted(address, "'")[1:-1], address):
        text = text.replace(form, "***")
    text = re.sub(r"postgres(ql)?://[^\s\"']*", "***", text)  # a part of it
    text = re.sub(r"^.*?Unable to connect to Postgres at \"[^\"]*\": ", "", text, flags=re.DOTALL)
    text = re.sub(r"^.*?\bERROR: +", "", text, flags=re.DOTALL)
    return re.sub(r"^[A-Z][\w ]* Error: ", "", text)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type as ADBC calls it: UTC by that name, and the entries of a list `item`."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return kind
