"""Reads and writes files: whole or not at all, zips and float64 arrays, with limits, no pickle."""

from __future__ import annotations

import io
import math
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from piwo.errors import FileError, UsageError
from piwo.visible import without_secrets

__all__ = [
    "DAMAGE",
    "MAX_BYTES",
    "MAX_MEMBERS",
    "array_bytes",
    "array_from",
    "locked",
    "pack",
    "read_file",
    "remove_unfinished",
    "require_ordinary",
    "unpack",
    "write_file",
    "writing",
]

DAMAGE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
)
"""What reading a damaged zip file can raise. One flipped bit can declare it encrypted, or packed
with another method."""
MAX_BYTES = 2**30
"""Most bytes that a policy file may hold, unpacked: 1 GiB. A larger file is refused before it is
unpacked."""
MAX_MEMBERS = 10_000
"""Most members that a policy file may hold."""

# The same policy gives the same bytes: no clock, no platform. Zip files cannot hold a year before
# 1980.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_ORDINARY_FILE = 0o644 << 16
# Opening a pipe returns at once, on systems that have pipes with names.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_unfinished: set[Path] = set()
"""The temporary files of the blocks of `writing` that this process is in."""
_NOT_FILES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def pack(members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of named members, the same bytes for the same members.

    >>> pack({"a": b"1"}) == pack({"a": b"1"})
    True
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = compression
            entry.create_system = _UNIX
            entry.external_attr = _ORDINARY_FILE
            out.writestr(entry, data)
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the members of a zip by name.

    >>> unpack(pack({"a": b"1"}))
    {'a': b'1'}

    Args:
        data: the zip.

    Raises:
        ValueError: if it is not a zip, is damaged, or declares more than `MAX_BYTES` bytes or
            `MAX_MEMBERS` members.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as source:
            entries = source.infolist()
            total = sum(x.file_size for x in entries)
            if len(entries) > MAX_MEMBERS or total > MAX_BYTES:
                raise ValueError(
                    f"it would unpack to {total} bytes in {len(entries)} pieces, "
                    f"the limits are {MAX_BYTES} and {MAX_MEMBERS}"
                )
            if len({x.filename for x in entries}) != len(entries):
                raise ValueError("a piece is there twice")
            # A member that unpacks to more than it declares is cut there, and its checksum fails.
            return {x.filename: source.read(x) for x in entries}
    except DAMAGE as cause:
        raise ValueError(f"its archive cannot be read ({cause})") from None


def read_file(path: Path) -> bytes:
    """Return a file's bytes.

    >>> write_file(Path("some.bin"), b"1")
    >>> read_file(Path("some.bin"))
    b'1'

    Raises:
        FileError: if it is missing, not an ordinary file, or larger than `MAX_BYTES`.
    """
    require_ordinary(path)
    try:
        # A pipe may have taken its place meanwhile: opening that would wait for a writer.
        with os.fdopen(os.open(path, os.O_RDONLY | _AT_ONCE), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = b""
            if size <= MAX_BYTES:
                data = file.read(MAX_BYTES + 1)
    except OSError as cause:
        raise FileError(
            f"{without_secrets(path)!r} cannot be read: {cause.strerror or cause}; check the path"
        ) from None
    if max(size, len(data)) > MAX_BYTES:
        raise FileError(
            f"{path} has {max(size, len(data))} bytes, the limit for a policy file is "
            f"{MAX_BYTES}; is it the right file?"
        )
    return data


def require_ordinary(path: str | os.PathLike[str]) -> None:
    """Raise for what exists and is not an ordinary file: a folder, a device, a pipe, a socket.

    Reading those may never end, and writing a file in their place would remove them. Nothing is
    raised for a path that does not exist.

    >>> require_ordinary("/dev/null")
    Traceback (most recent call last):
    piwo.errors.FileError: '/dev/null' is a device, expected an ordinary file; name a file, ...

    Raises:
        FileError: naming what it is.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        # Missing, or not permitted: opening it gives the reason.
        return
    except ValueError:
        raise FileError(
            f"{str(path)!r} holds a NUL character; expected the name of a file"
        ) from None
    if stat.S_ISREG(mode):
        return
    what = "a device"
    for kind, name in _NOT_FILES.items():
        if stat.S_IFMT(mode) == kind:
            what = name
    raise FileError(
        f"{without_secrets(path)!r} is {what}, expected an ordinary file; name a file, or check "
        "the path"
    )


def write_file(path: Path, data: bytes) -> None:
    """Write a file completely or not at all: if interrupted, the old file is still there.

    >>> write_file(Path("some.bin"), b"1")
    >>> Path("some.bin").read_bytes()
    b'1'

    Raises:
        FileError: if it cannot be written, and for devices, pipes and folders.
    """
    with writing(path) as out:
        out.write(data)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Return a block that writes a file in pieces; it replaces the old one at the end, or never.

    >>> with writing(Path("some.bin")) as out:
    ...     size = out.write(b"1")
    >>> Path("some.bin").read_bytes()
    b'1'

    Raises:
        FileError: if it cannot be written, and for devices, pipes and folders.
    """
    require_ordinary(path)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".piwo-{uuid4().hex}.tmp")
    _unfinished.add(temporary)
    try:
        with temporary.open("xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    except OSError as cause:
        raise FileError(
            f"{without_secrets(path)!r} cannot be written: {cause.strerror or cause}; "
            "check the folder"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
        _unfinished.discard(temporary)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Return a block in which no other process is in such a block for the same file.

    The lock is a file next to it, which the system frees when its process ends, however it ends.
    For a file that is read, changed and written: two processes that do so at once would lose what
    one of them wrote. On systems without such locks nothing is locked.

    >>> with locked(Path("some.bin")):
    ...     with locked(Path("some.bin")):
    ...         pass
    Traceback (most recent call last):
    piwo.errors.UsageError: 'some.bin' is in use by another process; run one at a time, or ...

    Raises:
        UsageError: if another process is in one.
        FileError: if the folder cannot be written.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    file = None
    while file is None:
        try:
            file = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise FileError(
                f"{without_secrets(path)!r} cannot be locked: {cause.strerror or cause}; check "
                "the folder"
            ) from None
        # Some network file systems have no locks.
        with suppress(OSError):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise UsageError(
                    f"{without_secrets(path)!r} is in use by another process; run one at a time, "
                    "or try again later"
                ) from None
        # Its owner may have removed it between the two calls, and a third process made another.
        if not _still_there(lock, file):
            os.close(file)
            file = None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(file)


def _still_there(path: Path, file: int) -> bool:
    """Whether an open file is the one that a path names."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file))


def remove_unfinished() -> None:
    """Remove what `writing` has written so far, for a process that is about to end at once.

    >>> with writing(Path("some.bin")) as out:
    ...     before = len(list(Path().glob(".piwo-*.tmp")))
    ...     remove_unfinished()
    ...     before, len(list(Path().glob(".piwo-*.tmp")))
    ...     raise SystemExit
    Traceback (most recent call last):
    SystemExit
    """
    for path in tuple(_unfinished):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def array_bytes(array: npt.NDArray[np.float64]) -> bytes:
    """Return an array in npy format.

    >>> array_from(array_bytes(np.array([1.0, 2.0]))).tolist()
    [1.0, 2.0]
    """
    buffer = io.BytesIO()
    np.lib.format.write_array(
        buffer, np.ascontiguousarray(array, np.dtype("<f8")), version=(1, 0), allow_pickle=False
    )
    return buffer.getvalue()


def array_from(data: bytes) -> npt.NDArray[np.float64]:
    """Return the array of npy bytes, whose declared shape must match their number.

    >>> array_from(array_bytes(np.array([[1.0, 2.0]]))).tolist()
    [[1.0, 2.0]]

    Raises:
        ValueError: for anything but a float64 array in C order with as many bytes as its shape
            requires.
    """
    source = io.BytesIO(data)
    if np.lib.format.read_magic(source) != (1, 0):
        raise ValueError("an array is in a newer format than piwo writes")
    try:
        shape, fortran, kind = np.lib.format.read_array_header_1_0(source)
    except (TokenError, SyntaxError, RecursionError, MemoryError):
        raise ValueError("the header of an array cannot be read") from None
    rest = len(data) - source.tell()
    if kind != np.dtype("<f8") or fortran:
        raise ValueError(f"an array has type {kind}, expected little-endian float64 in C order")
    if any(x < 0 for x in shape) or math.prod(shape) * 8 != rest:
        raise ValueError(
            f"an array of shape {shape} needs {math.prod(shape) * 8} bytes, there are {rest}"
        )
    return np.frombuffer(data, "<f8", offset=source.tell()).reshape(shape).astype(np.float64)
