"""Scrambled numbers and hashed texts: the same on every machine and for every hash seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, UsageError
from piwo.logs.actions import is_text
from piwo.messages import argument
from piwo.visible import type_text

__all__ = [
    "check_hash_size",
    "hashed_place",
    "hashed_places",
    "key_numbers",
    "scramble",
    "time_numbers",
    "uniform",
]

_LARGEST_HASH_SIZE = 2**20


def scramble(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return one well-mixed 64-bit number for each of the given ones.

    Source: SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").

    Args:
        x: (n,) 64-bit numbers; arithmetic is modulo 2^64.

    Returns:
        (n,) 64-bit numbers.

    >>> hex(int(scramble(np.zeros(1, np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    # SplitMix64: add the golden ratio, then rounds of shift, xor and multiply.
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform(seed: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for every row, a function of seed and row number alone.

    Args:
        seed: any whole number.
        rows: (n,) row numbers.

    Returns:
        (n,) float64, multiples of 2^-53.

    >>> bool(uniform(7, np.arange(9))[8] == uniform(7, np.array([8]))[0])
    True
    """
    key = scramble(np.array([seed & (2**64 - 1)], np.uint64))
    bits = scramble(scramble(rows.astype(np.uint64) ^ key) + key)
    # The upper 53 bits fill the significand of a float64.
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


_WHOLE = "^(0|-?[1-9][0-9]{0,17}|[1-8][0-9]{18})$"
"""Texts of whole numbers as they are written, but for some beyond 9e18."""


def key_numbers(values: pa.Array, column: str, role: str = "key") -> npt.NDArray[np.int64]:
    """Return a number for every key (whole numbers or text), the same on every machine.

    Args:
        values: n keys.
        column: the name of their column.
        role: what the column is called in messages.

    Returns:
        (n,) whole numbers from 0 to 2^63 - 1; equal keys have equal numbers. A whole number has
        that of its text, "7" that of 7, as CSV files have no types.

    Raises:
        DataError: for other types, and for missing keys.

    >>> bool(
    ...     (
    ...         key_numbers(pa.array([3, 4], pa.int32()), "c") == key_numbers(pa.array([3, 4]), "c")
    ...     ).all()
    ... )
    True
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        raise DataError(
            f"{role} column {column!r} is missing in some rows, expected a value in each"
        )
    if pa.types.is_integer(values.type):
        # Numbers up to 2^63 - 1 have the same 64 bits in both types; larger ones are uint64.
        if values.type != pa.uint64():
            values = values.cast(pa.int64())
        whole = values.to_numpy(zero_copy_only=False)
        bits = np.ascontiguousarray(whole).view(np.uint64)
    elif is_text(values.type):
        # A 64-bit number of two 32-bit hashes.
        bits = _half("low:", values) | (_half("top:", values) << np.uint64(32))
        whole = pc.match_substring_regex(values, _WHOLE)
        if pc.any(whole).as_py():
            of_number = pc.if_else(whole, values, "0").cast(pa.int64())
            bits = np.where(whole, of_number.to_numpy().view(np.uint64), bits)
    else:
        raise DataError(
            f"{role} column {column!r} has {type_text(values.type)}, expected whole numbers or "
            "text; cast it first"
        )
    # 63 bits are a non-negative int64, as row numbers are.
    return (scramble(bits) >> np.uint64(1)).astype(np.int64)


def time_numbers(values: pa.Array, column: str) -> npt.NDArray[np.int64]:
    """Return a whole number for every time, in the same order.

    Args:
        values: n times, dates or numbers.
        column: the name of their column.

    Raises:
        DataError: for other types, and for missing times.

    >>> time_numbers(pa.array([2.5, -1.0, 0.0]), "t").argsort().tolist()
    [1, 2, 0]
    """
    kind = values.type
    if values.null_count:
        raise DataError(f"time column {column!r} is missing in some rows, expected a time in each")
    if is_text(kind):
        # As in CSV files, whose columns with a role are text.
        try:
            return _whole(values.cast(pa.timestamp("us")).cast(pa.int64()))
        except pa.ArrowInvalid:
            raise DataError(
                f"time column {column!r} holds text that is not a time such as "
                "'2026-01-31 12:00:00'; write times so, or as numbers"
            ) from None
    if kind == pa.uint64():
        # In the order of signed numbers.
        large = np.asarray(values.to_numpy(zero_copy_only=False), np.uint64)
        return (large ^ np.uint64(2**63)).view(np.int64)
    if pa.types.is_timestamp(kind):
        return _whole(values.cast(pa.int64()))
    if pa.types.is_date(kind):
        return _whole(values.cast(pa.timestamp("ms")).cast(pa.int64()))
    if pa.types.is_integer(kind):
        return _whole(values.cast(pa.int64()))
    if pa.types.is_floating(kind):
        # + 0.0: -0.0 is 0.0. Bits of positive numbers are in their order, others in reverse.
        numbers = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        bits = (numbers + 0.0).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    raise DataError(
        f"time column {column!r} has {type_text(kind)}, expected times, dates or numbers; cast it "
        "first"
    )


def _whole(values: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = values.to_numpy(zero_copy_only=False)
    return numbers


def _half(prefix: str, values: pa.Array) -> npt.NDArray[np.uint64]:
    hashes = _murmur3(prefix, values.cast(pa.large_string()))
    return hashes.view(np.uint32).astype(np.uint64)


def check_hash_size(size: int) -> None:
    """Raise unless texts can be hashed into this number of columns.

    Raises:
        UsageError: if it is not a power of two from 2 to 2^20.

    >>> check_hash_size(256)
    """
    if type(size) is not int or not 2 <= size <= _LARGEST_HASH_SIZE or size & (size - 1):
        raise UsageError(
            f"{argument('hash_size')} is {size!r}, expected a power of two from 2 to "
            f"{_LARGEST_HASH_SIZE}, such as 256 or 1024"
        )


def hashed_places(
    column: str, values: pa.Array, size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the column, out of `size`, and the sign of each text, as in scikit-learn's hasher.

    Formula: with h the signed 32-bit MurmurHash3 (seed 0) of the UTF-8 bytes of "column=value", the
    place is |h| mod size and the sign is that of h (+ for 0).

    Args:
        column: name of the context column.
        values: n texts (`pa.large_string`), none of them missing.
        size: a power of two.

    Returns:
        (n,) places from 0 and (n,) signs.

    >>> place, sign = hashed_places("c", pa.array(["", "a"], pa.large_string()), 8)
    >>> place.tolist(), sign.tolist()
    ([4, 5], [1.0, 1.0])
    """
    hashes = _murmur3(f"{column}=", values)
    place = np.abs(hashes.astype(np.int64)) % size
    return place, np.where(hashes >= 0, 1.0, -1.0)


def hashed_place(column: str, value: str, size: int) -> tuple[int, float]:
    """Return what `hashed_places` gives for one text, without an Arrow array.

    >>> hashed_place("c", "a", 8)
    (5, 1.0)
    """
    from piwo.logs.kernels import murmur3

    data = np.frombuffer(f"{column}={value}".encode(), np.uint8)
    hashes = np.empty(1, np.int32)
    murmur3(data, np.array([0, len(data)]), hashes)
    found = int(hashes[0])
    sign = 1.0 if found >= 0 else -1.0
    return abs(found) % size, sign


def _murmur3(prefix: str, values: pa.Array) -> npt.NDArray[np.int32]:
    """Return the MurmurHash3 (seed 0) of a prefix and each text, (n,)."""
    # Imported here because Numba is slow to import and most logs have no hashed text.
    from piwo.logs.kernels import murmur3

    hashes = np.empty(len(values), np.int32)
    if len(values):
        joined = pc.binary_join_element_wise(
            pa.scalar(prefix, pa.large_string()), values, pa.scalar("", pa.large_string())
        )
        # An Arrow array of text is a buffer of n + 1 offsets and one of bytes.
        _, ends, data = joined.buffers()
        offsets = np.frombuffer(ends, np.int64)
        offsets = offsets[joined.offset : joined.offset + len(values) + 1]
        murmur3(np.frombuffer(data, np.uint8), offsets, hashes)
    return hashes
