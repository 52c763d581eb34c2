"""Reads and writes files: whole or not at all, zips and float64 arrays, with limits, no pickle."""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from piwo.errors import FileError

__all__ = [
    "DAMAGE",
    "MAX_BYTES",
    "MAX_MEMBERS",
    "array_bytes",
    "array_from",
    "pack",
    "read_file",
    "unpack",
    "write_file",
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
        FileError: if it is missing, cannot be read, or is larger than `MAX_BYTES`.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise FileError(
                f"{path} has {size} bytes, the limit for a policy file is {MAX_BYTES}; is it the "
                "right file?"
            )
        return path.read_bytes()
    except OSError as cause:
        raise FileError(
            f"{path} cannot be read: {cause.strerror or cause}; check the path"
        ) from None
    except ValueError:
        raise FileError(f"{path} holds a NUL character; expected the name of a file") from None


def write_file(path: Path, data: bytes) -> None:
    """Write a file completely or not at all: if interrupted, the old file is still there.

    >>> write_file(Path("some.bin"), b"1")
    >>> Path("some.bin").read_bytes()
    b'1'

    Raises:
        FileError: if it cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))
    except ValueError:
        raise FileError(f"{path} holds a NUL character; expected the name of a file") from None
    temporary = target.with_name(f".piwo-{uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    except OSError as cause:
        raise FileError(
            f"{path} cannot be written: {cause.strerror or cause}; check the folder"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


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
    shape, fortran, kind = np.lib.format.read_array_header_1_0(source)
    rest = len(data) - source.tell()
    if kind != np.dtype("<f8") or fortran:
        raise ValueError(f"an array has type {kind}, expected little-endian float64 in C order")
    if any(x < 0 for x in shape) or math.prod(shape) * 8 != rest:
        raise ValueError(
            f"an array of shape {shape} needs {math.prod(shape) * 8} bytes, there are {rest}"
        )
    return np.frombuffer(data, "<f8", offset=source.tell()).reshape(shape).astype(np.float64)
