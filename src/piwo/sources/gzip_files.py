"""The checksums of gzip files, which DuckDB does not compare."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable

from piwo.errors import FileError
from piwo.visible import visible

__all__ = ["require_undamaged"]

_AT_ONCE = 2**22


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
