"""Names of files that are not UTF-8, which DuckDB and Arrow cannot open: they get links."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["plain_name", "readable", "without_links"]


def plain_name(path: str) -> str:
    r"""Return a path with escapes for the bytes that are not UTF-8.

    >>> plain_name("caf\udce9.csv"), plain_name("café.csv")
    ('caf\\udce9.csv', 'café.csv')
    """
    return path.encode("utf-8", "backslashreplace").decode()


def readable(path: str) -> str:
    """Return a name that every library can open: the path, or a link to it of this process.

    Folders above keep their names, as they may be hive partitions.

    >>> readable("log.csv")
    'log.csv'
    """
    plain = plain_name(path)
    if plain == path:
        return path
    target = os.path.realpath(path)
    link = Path(_folder().name, plain_name(os.path.normpath(Path(path).absolute())).lstrip("/"))
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)
    return str(link)


def without_links(sql: str) -> str:
    """Return a query whose links have the same names in every process.

    >>> without_links("select * from 'log.csv'")
    "select * from 'log.csv'"
    """
    if not _folder.cache_info().currsize:
        return sql
    return sql.replace(_folder().name, "")


@cache
def _folder() -> TemporaryDirectory[str]:
    """Return the folder of the links, which is removed when the process ends."""
    return TemporaryDirectory(prefix="piwo-names-")
