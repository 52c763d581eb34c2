"""PostgreSQL by ADBC's driver (`piwo[postgres]`)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from piwo.sources.postgres_link import LinkError

__all__ = ["AdbcLink", "has_adbc"]


def has_adbc() -> bool:
    """Whether ADBC's driver of PostgreSQL is installed.

    >>> has_adbc() in (True, False)
    True
    """
    try:
        import adbc_driver_postgresql.dbapi  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def _said() -> Iterator[None]:
    import adbc_driver_manager

    try:
        yield
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as cause:
        raise LinkError(str(cause)) from None


class AdbcLink:
    """A transaction on a connection of ADBC."""

    def __init__(self, address: str, first: Sequence[str] = ()) -> None:
        from adbc_driver_postgresql import dbapi

        with _said():
            self._connection = dbapi.connect(address, autocommit=True)
            try:
                for statement in (
                    "begin transaction isolation level repeatable read read only",
                    *first,
                ):
                    with self._connection.cursor() as cursor:
                        cursor.execute(statement)
            except BaseException:
                self._connection.close()
                raise

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the few rows that answer a query."""
        with _said(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query, which is not run."""
        with _said(), self._connection.cursor() as cursor:
            return cursor.adbc_execute_schema(sql).remove_metadata()

    def records(self, sql: str) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows that answer a query, as the server sends them."""
        with _said(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            yield from cursor.fetch_record_batch()

    def close(self) -> None:
        """End the transaction and the connection."""
        with suppress(LinkError), _said():
            self._connection.close()
