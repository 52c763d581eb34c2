"""Addresses of files and databases elsewhere, and what of them must not be shown."""

from __future__ import annotations

import re

__all__ = ["is_remote", "without_secrets"]

_REMOTE = re.compile(r"(https?|s3[an]?|gcs|gs|r2|hf|az|azure|abfss?)://", re.IGNORECASE)


def is_remote(path: str) -> bool:
    """Whether a path is an address that DuckDB's extensions read.

    >>> is_remote("s3://bucket/day=*/*.parquet"), is_remote("logs/*.parquet")
    (True, False)
    """
    return _REMOTE.match(path) is not None


def without_secrets(text: str) -> str:
    """Return a text in which the users, passwords and signatures of addresses are stars.

    >>> without_secrets("from s3://me:secret@host/x and https://host/x.parquet?sig=1#y")
    'from s3://***@host/x and https://host/x.parquet?***#y'
    """
    text = re.sub(r"(\w+://)[^/\s'\"]*@", r"\1***@", text)
    text = re.sub(r"(\w+://[^\s?'\"#]*)\?[^\s'\"#]+", r"\1?***", text)
    return re.sub(r"(password\s*=\s*)('[^']*'|[^\s'\"]+)", r"\1***", text, flags=re.IGNORECASE)
