"""float64 arrays as bytes in NumPy's own file format; no object, and no length that the bytes do not have."""

from __future__ import annotations

import io
import math

import numpy as np

from piwo.logs.batch import Floats

__all__ = ["array_bytes", "array_from"]


def array_bytes(array: Floats) -> bytes:
    """Return an array in npy format.

    >>> array_from(array_bytes(np.array([1.0, 2.0]))).tolist()
    [1.0, 2.0]
    """
    buffer = io.BytesIO()
    np.lib.format.write_array(
        buffer, np.ascontiguousarray(array, np.dtype("<f8")), version=(1, 0), allow_pickle=False
    )
    return buffer.getvalue()


def array_from(data: bytes) -> Floats:
    """Return the array of npy bytes; the shape that they declare is compared with how many there are.

    Raises:
        ValueError: for anything but a float64 array in C order with exactly as many bytes as its
            shape says.
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
