"""Addresses of files and databases on other machines, and how sources are named in messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from piwo.visible import without_secrets

__all__ = ["is_remote", "name_of", "shown"]

_REMOTE = re.compile(r"(https?|s3[an]?|gcs|gs|r2|hf|az|azure|abfss?)://", re.IGNORECASE)
_LONGEST = 300
"""Characters of a line that is shown."""


def is_remote(path: str) -> bool:
    """Whether a path is an address that DuckDB's extensions read.

    >>> is_remote("s3://bucket/day=*/*.parquet"), is_remote("logs/*.parquet")
    (True, False)
    """
    return _REMOTE.match(path) is not None


def shown(text: object) -> str:
    """Return a name, a query or another library's message as one short line without secrets.

    >>> shown("select  *  from 's3://me:secret@host/x'")
    "select * from 's3://***@host/x'"
    """
    return without_secrets(" ".join(str(text).split()))[:_LONGEST]


def name_of(paths: Sequence[str]) -> str:
    """Return the name of a source that consists of some files.

    >>> name_of(["a.csv"]), name_of(["https://me:secret@host/a.parquet", "b.parquet", "c.parquet"])
    ('a.csv', 'https://***@host/a.parquet and 2 more')
    """
    first = without_secrets(paths[0])
    if len(paths) == 1:
        return first
    return f"{first} and {len(paths) - 1} more"
