"""A connection to PostgreSQL: the few things that a log asks of it, whatever carries the rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

import pyarrow as pa

__all__ = ["Link", "LinkError", "Linking"]


class LinkError(Exception):
    """What a server or its driver says of a failure, in its own words."""


class Link(Protocol):
    """A connection in one transaction that only reads and sees one snapshot; its failures are `LinkError`."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the few rows that answer a query."""
        ...

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query, which is not run."""
        ...

    def records(self, sql: str) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows that answer a query, in its order, as they come."""
        ...

    def close(self) -> None:
        """End the transaction and the connection; it never fails."""
        ...


Linking = Callable[[str, Sequence[str]], Link]
"""Opens a link to an address, and runs some statements first in its transaction."""
