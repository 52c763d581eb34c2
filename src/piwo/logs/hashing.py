"""Scrambled 64-bit numbers: the same on every machine, for every cut of the rows and every hash seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["scramble", "uniform"]


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
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
