"""Which files a path or glob means, and of what type they are."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from piwo.errors import DataError, FileError, UsageError
from piwo.sources.addresses import is_remote, without_secrets

__all__ = ["KINDS", "files_of", "kind_of"]

KINDS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".tsv.gz": "csv", ".txt": "csv",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".jsonl.gz": "json", ".ndjson.gz": "json", ".json.gz": "json",
    ".dsjson": "dsjson", ".dsjson.gz": "dsjson",
}  # fmt: skip
"""File ending -> type."""

_LOOKED_AT = 1000
"""Folders in which a file is looked for, to name it in an error."""


def files_of(pattern: str) -> list[str]:
    """Return the files that a path or glob means, sorted by name.

    Raises:
        FileError: where there is none, or where it is a folder.

    >>> files_of("no/such/*.csv")
    Traceback (most recent call last):
    piwo.errors.FileError: no file 'no/such/*.csv', expected a path, a glob that matches, or a query ...
    """
    if is_remote(pattern):  # whoever reads it looks
        return [pattern]
    path = os.path.expanduser(pattern)  # noqa: PTH111 - pathlib raises for names that are too long to exist
    if os.path.isdir(path):  # noqa: PTH112
        raise FileError(f"{pattern!r} is a folder, expected files; {_within(path)}")
    if os.path.exists(path):  # noqa: PTH110
        return [path]
    found = sorted(x for x in glob.glob(path, recursive=True) if not Path(x).is_dir())
    if not found:
        raise FileError(
            f"no file {pattern!r}, expected a path, a glob that matches, or a query (select ...)"
        )
    return found


def _within(folder: str) -> str:
    """Say which glob means files of a folder, at whatever depth; a large tree is not walked to its end."""
    for parent, folders, names in islice(os.walk(folder), _LOOKED_AT):
        folders.sort()
        endings = [(x, _ending(x)) for x in sorted(names) if not x.startswith(".")]
        found = next((x[-len(ending) :] for x, ending in endings if ending is not None), None)
        if found is not None:
            depth = len(Path(parent).relative_to(folder).parts)
            return f"name them with a glob such as {Path(folder, *['*'] * depth, '*' + found)}"
    return f"none was found in it with a known ending ({', '.join(sorted(KINDS))})"


def kind_of(paths: Sequence[str]) -> str:
    """Return the one type that all the files have, by their endings.

    Raises:
        UsageError: for an unknown ending, and for several types.
        DataError: for an empty file.

    >>> kind_of([])
    Traceback (most recent call last):
    piwo.errors.UsageError: got an empty list of files, expected at least one
    """
    if not paths:
        raise UsageError("got an empty list of files, expected at least one")
    kinds = sorted({_kind(path) for path in paths})
    if len(kinds) > 1:
        raise UsageError(
            f"files of several types in one log ({', '.join(kinds)}); read one type at a time"
        )
    far = [path for path in paths if is_remote(path)]
    if far and (len(far) < len(paths) or kinds != ["parquet"]):
        raise UsageError(
            f"{without_secrets(far[0])!r} is an address: such are read as Parquet, without files "
            "beside them; give a query for anything else, such as: select * from "
            "read_csv('https://...')"
        )
    empty = next((path for path in paths if not far and os.path.getsize(path) == 0), None)  # noqa: PTH202
    if empty is not None:
        raise DataError(
            f"no rows in {empty!r}: the file is empty, expected at least one logged decision"
        )
    return kinds[0]


def _kind(path: str) -> str:
    ending = _ending(path.partition("?")[0] if is_remote(path) else path)
    if ending is None:
        raise UsageError(
            f"{path!r} has no known ending; known are {', '.join(sorted(KINDS))}; or give a query "
            "(select ...)"
        )
    return KINDS[ending]


def _ending(path: str) -> str | None:
    """Return the known ending of a path."""
    suffixes = [x.lower() for x in Path(path).suffixes]
    tails = ("".join(suffixes[-2:]), "".join(suffixes[-1:]))
    return next((tail for tail in tails if tail in KINDS), None)
