"""Names for files that DuckDB and Arrow cannot open: links, and places for what is made of them."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from piwo.sources.temporary import TemporaryFolder

__all__ = ["place_of_rows", "plain_name", "readable", "without_links"]


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
    link = Path(_folder().path, "links", _inside(path))
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)
    return str(link)


def place_of_rows(path: str, state: str) -> Path:
    """Return where this process keeps the rows of a file that DuckDB cannot read as it is.

    Args:
        path: of the file.
        state: something that changes with its contents.
    """
    return Path(_folder().path, "rows", state, _inside(path))


def without_links(text: str) -> str:
    """Return a query or a message with the files' own names, the same in every process.

    >>> without_links("select * from 'log.csv'")
    "select * from 'log.csv'"
    """
    if not _folder.cache_info().currsize:
        return text
    return re.sub(re.escape(str(_folder().path)) + r"/(links|rows/\d+-\d+)", "", text)


def _inside(path: str) -> str:
    """Return a path below the folder; folders above the file keep their names."""
    return plain_name(os.path.normpath(Path(path).absolute())).lstrip("/")


@cache
def _folder() -> TemporaryFolder:
    """Return the folder of links and rows, which is removed when the process ends."""
    return TemporaryFolder()
