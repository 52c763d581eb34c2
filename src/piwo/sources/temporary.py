"""Folders for temporary files, also removed when the process that made them was killed.

Each holds a file that its process has locked for as long as it lives; the system drops the lock of
a killed one. A later process that needs such a folder removes those whose lock is free.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import tempfile
import weakref
from pathlib import Path
from typing import IO, Any

from piwo.errors import FileError

__all__ = ["TemporaryFolder"]

_PREFIX = "piwo-"
_LOCK = ".lock"


class TemporaryFolder:
    """A folder in the place for temporary files (`TMPDIR`), removed with this object.

    Pickled, it is only a path: another process must not remove the folder.

    Raises:
        FileError: if it cannot be made.

    >>> folder = TemporaryFolder()
    >>> folder.path.is_dir()
    True
    """

    def __init__(self) -> None:
        try:
            place = Path(tempfile.gettempdir())
            _remove_stale(place)
            # Under another name until it is locked: no process may find it without a lock.
            made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
            lock = _locked(made / _LOCK)
            self.path = made.with_name(made.name.removeprefix("."))
            made.rename(self.path)
        except OSError as cause:
            raise FileError(
                f"a folder for temporary files cannot be made ({cause}); make room, or set TMPDIR"
            ) from None
        self._close = weakref.finalize(self, _remove, self.path, lock)

    def remove(self) -> None:
        """Remove the folder now."""
        self._close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the path alone."""
        return str, (str(self.path),)


def _locked(path: Path) -> IO[Any] | None:
    """Return a new file with the name of this machine, locked; None where files have no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    file = path.open("x")
    file.write(platform.node())
    file.flush()
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # Some network file systems have none; without its file the folder is never removed early.
        file.close()
        path.unlink()
        return None
    return file


def _remove(path: Path, lock: IO[Any] | None) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        lock.close()


def _remove_stale(place: Path) -> None:
    """Remove the folders of this user and machine that processes left when they were killed."""
    for folder in place.glob(f"{_PREFIX}*"):
        try:
            lock = _abandoned(folder)
        except (ImportError, OSError):
            # In use, of another user, or gone in the meantime.
            continue
        if lock is not None:
            _remove(folder, lock)


def _abandoned(folder: Path) -> IO[Any] | None:
    """Return the lock of a folder, now held by this process; None if it is not such a folder.

    Raises:
        OSError: for a folder in use.
    """
    import fcntl

    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return None
    # A link could lead to the lock of something else.
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    file = os.fdopen(handle, "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Locks may not reach from machine to machine, and names of folders do.
        if file.read() == platform.node():
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return None
