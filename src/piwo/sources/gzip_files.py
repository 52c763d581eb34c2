"""Files that may be compressed by gzip: opened alike, and their checksums, unseen by DuckDB."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from typing import IO, Any

from piwo.errors import FileError
from piwo.visible import visible

__all__ = ["gzip_options", "is_packed", "opened", "require_undamaged"]

_AT_ONCE = 2**22


def is_packed(path: str) -> bool:
    """Whether the name of a file says that gzip packed it, in letters of either case.

    >>> is_packed("log.csv.gz"), is_packed("LOG.CSV.GZ"), is_packed("log.csv")
    (True, True, False)
    """
    return path.lower().endswith(".gz")


def gzip_options(paths: Sequence[str]) -> str:
    """Return the option of DuckDB's readers for files that gzip packed, with a comma behind it.

    Before 2.0 DuckDB unpacks names in .gz only, and may find no rows in those in .GZ. Where some of
    the files are packed, it is left to DuckDB which.

    >>> gzip_options(["A.CSV.GZ"]), gzip_options(["a.csv"]), gzip_options(["a.csv", "b.csv.gz"])
    ("compression='gzip', ", '', '')
    """
    if all(map(is_packed, paths)):
        return "compression='gzip', "
    return ""


def opened(path: str, mode: str = "rb", **text: Any) -> IO[Any]:
    """Return an open file, unpacked if its name ends in .gz.

    Args:
        path: of the file.
        mode: "rb" for bytes, "rt" for text.
        **text: options of text, such as its encoding.
    """
    made: Any = open
    if is_packed(path):
        made = gzip.open
    file: IO[Any] = made(path, mode, **text)
    return file


def require_undamaged(paths: Iterable[str]) -> None:
    """Read gzip files once to the end, and raise if their contents do not match their checksums.

    Args:
        paths: files of any kind; those that end in .gz are read.

    Raises:
        FileError: for a file that was changed, cut or cannot be read.
    """
    for path in paths:
        if not is_packed(path):
            continue
        try:
            with gzip.open(path) as file:
                while file.read(_AT_ONCE):
                    pass
        except (OSError, EOFError, zlib.error) as cause:
            raise FileError(
                f"{visible(path)!r} is damaged ({cause}): its contents do not match its checksum; "
                "write or copy it again"
            ) from None
