"""Which files a path or glob means, and of what type they are."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from piwo.errors import DataError, FileError, UsageError
from piwo.files import require_ordinary
from piwo.sources.addresses import is_remote
from piwo.sources.json_shapes import Content, json_kind
from piwo.visible import without_secrets

__all__ = ["KINDS", "files_of", "kind_of", "kind_of_name", "states_of_files"]

KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
    ".txt": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".jsonl.gz": "json",
    ".ndjson.gz": "json",
    ".json.gz": "json",
    ".dsjson": "dsjson",
    ".dsjson.gz": "dsjson",
    ".vw": "vw",
    ".vw.gz": "vw",
}
"""File ending -> type."""

_SCHEME = re.compile(r"\s*[a-z][\w+.-]+:", re.IGNORECASE)
_ADDRESSES = (
    "those are s3://, https://, gs://, hf:// and az:// for Parquet, duckdb:FILE#TABLE, "
    "postgresql://...#TABLE and spark:TABLE, without blanks before them"
)
_MOST_FOLDERS = 1000
"""Folders that are searched for a file to name in an error."""
_LAST_BYTES = 2**16
"""Bytes at the end of a file that are read to see whether it has changed."""


def files_of(pattern: str) -> list[str]:
    """Return the files that a path or glob means, sorted by name.

    Raises:
        FileError: if there is none, or if it is a folder, a device or a pipe.

    >>> files_of("no/such/*.csv")
    Traceback (most recent call last):
    piwo.errors.FileError: no file 'no/such/*.csv', expected a path, a glob that ...
    """
    if is_remote(pattern):  # whether it exists is seen when it is read
        return [pattern]
    # os.path where pathlib raises for names that are too long to exist
    path = os.path.expanduser(pattern)  # noqa: PTH111
    if os.path.isdir(path):  # noqa: PTH112
        raise FileError(f"{pattern!r} is a folder, expected files; {_glob_within(path)}")
    if os.path.exists(path):  # noqa: PTH110
        found = [path]
    else:
        # Several **/ in a row mean one, and would be searched many times over.
        path = re.sub(r"(?:\*\*/+)+", "**/", path)
        try:
            found = sorted(x for x in glob.glob(path, recursive=True) if not Path(x).is_dir())
        except RecursionError:
            found = []
    if not found:
        advice = "expected a path, a glob that matches, or a query (select ...)"
        if _SCHEME.match(pattern):
            advice = f"nor an address that is known; {_ADDRESSES}"
        raise FileError(f"no file {without_secrets(pattern)!r}, {advice}")
    for file in found:
        require_ordinary(file)
    return found


def _glob_within(folder: str) -> str:
    """Return advice on which glob matches files in a folder or below it."""
    for parent, folders, names in islice(os.walk(folder), _MOST_FOLDERS):
        folders.sort()
        for name in sorted(names):
            ending = _ending(name)
            if ending is not None and not name.startswith("."):
                depth = len(Path(parent).relative_to(folder).parts)
                pattern = Path(folder, *["*"] * depth, "*" + name[-len(ending) :])
                return f"name them with a glob such as {pattern}"
    return f"it holds no file with a known ending ({', '.join(sorted(KINDS))})"


def kind_of(paths: Sequence[str], content: Content = "decisions", slate: str | None = None) -> str:
    """Return the one type that all the files have, by their endings; kinds of JSON by contents.

    Args:
        paths: the files.
        content: what they hold: decisions, contexts alone, or slates.
        slate: see `json_kind`.

    Raises:
        UsageError: for an unknown ending, and for several types.
        DataError: for an empty file, and for JSON of which it is unclear what the rows are.

    >>> kind_of([])
    Traceback (most recent call last):
    piwo.errors.UsageError: got an empty list of files, expected at least one
    """
    if not paths:
        raise UsageError("got an empty list of files, expected at least one")
    kinds = sorted(set(map(kind_of_name, paths)))
    if len(kinds) > 1:
        raise UsageError(
            f"files of several types in one log ({', '.join(kinds)}); read one type at a time"
        )
    far = list(filter(is_remote, paths))
    if far and (len(far) < len(paths) or kinds != ["parquet"]):
        raise UsageError(
            f"{without_secrets(far[0])!r} is an address, and addresses are read as "
            "Parquet and not together with files; for anything else give a query, "
            "such as: select * from read_csv('https://...')"
        )
    for path in paths:
        if not far and os.path.getsize(path) == 0:  # noqa: PTH202
            raise DataError(
                f"no rows in {path!r}: the file is empty, expected at least one logged decision"
            )
    if kinds == ["json"]:
        return json_kind(paths, content, slate)
    return kinds[0]


def kind_of_name(path: str) -> str:
    """Return the type of a file by its ending alone.

    Raises:
        UsageError: for an unknown ending.

    >>> kind_of_name("log.csv.gz"), kind_of_name("log.json")
    ('csv', 'json')
    """
    file = path
    if is_remote(path):
        # A signed address goes on after the path.
        file = path.partition("?")[0]
    ending = _ending(file)
    if ending is None:
        raise UsageError(
            f"{without_secrets(path)!r} has an unknown ending; known are "
            f"{', '.join(sorted(KINDS))}; or give a query (select ...)"
        )
    return KINDS[ending]


def _ending(path: str) -> str | None:
    """Return the known ending of a path, the longer one of two."""
    suffixes = [x.lower() for x in Path(path).suffixes]
    for tail in ("".join(suffixes[-2:]), "".join(suffixes[-1:])):
        if tail in KINDS:
            return tail
    return None


def states_of_files(paths: Sequence[str]) -> list[tuple[str, int, int, str]]:
    """Return what changes with a file: place, size, time (in ns) and a digest of its last bytes.

    Parquet keeps the sizes and statistics of its columns at the end: other rows of the same size
    change these bytes, even if the file gets its old time back.

    >>> states_of_files([])
    []
    """
    states = []
    for path in paths:
        found = Path(path).stat()
        with Path(path).open("rb") as file:
            file.seek(max(0, found.st_size - _LAST_BYTES))
            digest = hashlib.sha256(file.read(_LAST_BYTES)).hexdigest()
        states.append((os.path.realpath(path), found.st_size, found.st_mtime_ns, digest))
    return states
