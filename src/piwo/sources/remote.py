"""Parquet files at an address (s3://, https://, ...), read by DuckDB's extensions."""

from __future__ import annotations

from collections.abc import Sequence

from piwo.sources.addresses import without_secrets
from piwo.sources.source import QuerySource, quoted

__all__ = ["remote_source"]


def remote_source(addresses: Sequence[str]) -> QuerySource:
    """Return the rows of Parquet files elsewhere; globs and hive partitions are DuckDB's.

    Credentials are DuckDB's business too (`create secret`, environment variables); what an address
    holds of them is not in the name.

    Raises:
        FileError: where they cannot be read, and where the extension is not installed: nothing is
            downloaded unasked.

    >>> remote_source(["https://localhost:1/no.parquet"])
    Traceback (most recent call last):
    piwo.errors.FileError: ...
    """
    listed = ", ".join(quoted(x, "'") for x in addresses)
    name = (
        without_secrets(addresses[0])
        if len(addresses) == 1
        else f"{without_secrets(addresses[0])} and {len(addresses) - 1} more"
    )
    return QuerySource(f"select * from read_parquet([{listed}])", name, steady=True)
