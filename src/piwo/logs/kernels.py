"""Compiled loops of the readers, imported when first needed: Numba takes over a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["find_doubled", "find_places", "murmur3"]

_MASK = np.uint64(0xFFFFFFFF)


@njit(nogil=True, cache=True)
def _rotated(x: Any, bits: int) -> Any:
    return ((x << np.uint64(bits)) | (x >> np.uint64(32 - bits))) & _MASK


@njit(nogil=True, cache=True)
def _scrambled(k: Any) -> Any:
    k = (k * np.uint64(0xCC9E2D51)) & _MASK
    return (_rotated(k, 15) * np.uint64(0x1B873593)) & _MASK


@njit(nogil=True, cache=True)
def murmur3(data: Any, offsets: Any, out: Any) -> None:
    """Write the signed 32-bit MurmurHash3 (x86 variant, seed 0) of n texts.

    data (bytes,) uint8, offsets (n + 1,) int64: text i is data[offsets[i]:offsets[i + 1]]; out (n,)
    int32. Source: Appleby 2011, MurmurHash3 (public domain).
    """
    for i in range(len(out)):
        start, stop = offsets[i], offsets[i + 1]
        whole = start + (stop - start) // 4 * 4
        h = np.uint64(0)
        for at in range(start, whole, 4):
            k = np.uint64(0)
            for byte in range(3, -1, -1):
                k = (k << np.uint64(8)) | np.uint64(data[at + byte])
            h = (_rotated(h ^ _scrambled(k), 13) * np.uint64(5) + np.uint64(0xE6546B64)) & _MASK
        tail = np.uint64(0)
        for at in range(stop - 1, whole - 1, -1):
            tail = (tail << np.uint64(8)) | np.uint64(data[at])
        if stop > whole:
            h ^= _scrambled(tail)
        h ^= np.uint64(stop - start)
        h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & _MASK
        h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & _MASK
        h ^= h >> np.uint64(16)
        out[i] = np.int32(np.uint32(h))


@njit(nogil=True, cache=True)
def find_doubled(starts: Any, codes: Any, last: Any, doubled: Any) -> None:
    """Mark rows that list an action twice, doubled (n,); codes are at least 0.

    last (K,): scratch, the last row that listed each action, -1 at the beginning.
    """
    for row in range(len(starts) - 1):
        for pair in range(starts[row], starts[row + 1]):
            if last[codes[pair]] == row:
                doubled[row] = True
            last[codes[pair]] = row


@njit(nogil=True, cache=True)
def find_places(starts: Any, codes: Any, wanted: Any, places: Any) -> None:
    """Write the pair of each row whose action is wanted (n,), places (n,); -1: none."""
    for row in range(len(starts) - 1):
        places[row] = np.int64(-1)
        for pair in range(starts[row], starts[row + 1]):
            if codes[pair] == wanted[row]:
                places[row] = pair
                break
