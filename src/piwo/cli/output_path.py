"""Where a command may write: not over what it reads, not into a device."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from piwo.errors import FileError, UsageError
from piwo.sources.paths import files_of

__all__ = ["files_named", "writable"]


def writable(out: Path, inputs: Iterable[str] = ()) -> None:
    """Raise before any work is done if a result may not go to --out.

    Args:
        out: the path; an ordinary file there is replaced.
        inputs: what the command reads: files and globs; other words are ignored.

    Raises:
        FileError: for a folder, a device, a pipe, or a parent folder that does not exist.
        UsageError: for a file that the command reads.

    >>> writable(Path("result.piwo"), ["log.csv", "select 1"])
    """
    if "\0" in str(out):
        raise FileError(
            f"--out got {str(out)!r}, which holds a NUL character; expected the name of a file"
        )
    try:
        target = Path(os.path.realpath(out))
        ordinary = target.is_file() or (not target.exists() and target.parent.is_dir())
    except OSError:
        # a name that is too long, or a folder without permission to search
        ordinary = False
    if not ordinary:
        raise FileError(
            f"--out: {str(out)!r} cannot be written, expected an ordinary file in a "
            "folder that exists"
        )
    if target.exists():
        for same in files_named(inputs):
            if Path(same).exists() and target.samefile(same):
                raise UsageError(
                    f"--out: {str(out)!r} is what the command reads ({same!r}); choose another file"
                )


def files_named(words: Iterable[str]) -> list[str]:
    """Return the files that words mean; a query, or a word for a policy, means none.

    >>> files_named(["uniform", "select 1"])
    []
    """
    found = []
    for word in words:
        try:
            found += files_of(word)
        except (FileError, OSError, ValueError):
            continue
    return found
