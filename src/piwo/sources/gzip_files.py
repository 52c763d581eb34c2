"""Files that may be compressed by gzip: opened alike, and their checksums, unseen by DuckDB."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from typing import IO, Any

from piwo.errors import FileError
from piwo.visible import visible

__all__ = ["opened", "require_undamaged"]

_AT_ONCE = 2**22


def opened(path: str, mode: str = "rb", **text: Any) -> IO[Any]:
    """Return an open file, unpacked if its name ends in .gz.

    Args:
        path: of the file.
        mode: "rb" for bytes, "rt" for text.
        **text: options of text, such as its encoding.
    """
    made: Any = open
    if path.lower().endswith(".gz"):
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
        if not path.lower().endswith(".gz"):
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
