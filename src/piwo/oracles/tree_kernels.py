"""Compiled search for policy trees. Imported when first needed: Numba takes over a second.

Gains are whole numbers (`piwo.oracles.policy_tree`), so sums are exact: they do not depend on the
order of the rows, and the sums of one part are those of the whole less those of the other part.

What the functions share: codes (m, d) uint8, rows by bin; bins (d,), how many bins each column has;
either action (m,) with gains (m, 1) of these actions, or action (0,) with gains (m, K); sums (d, B,
K) of gains and sizes (d, B) of rows, by column and bin; least: fewest rows of a part. A split is
written as column (-1: none), bin, and the actions of the left and the right part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["best_pair", "best_split", "sum_bins"]


@njit(nogil=True, cache=True)
def _add(
    codes: Any, rows: Any, action: Any, gains: Any, first: int, stop: int, sums: Any, sizes: Any
) -> None:
    """Add some rows to the sums and sizes of the columns from first to stop - 1."""
    if len(action) > 0:
        for i in rows:
            a, gain = action[i], gains[i, 0]
            for f in range(first, stop):
                b = codes[i, f]
                sums[f, b, a] += gain
                sizes[f, b] += 1
        return
    for i in rows:
        row = gains[i]
        for f in range(first, stop):
            b = codes[i, f]
            cell = sums[f, b]
            for a in range(len(row)):
                cell[a] += row[a]
            sizes[f, b] += 1


@njit(nogil=True, cache=True)
def sum_bins(
    codes: Any, action: Any, gains: Any, first: int, stop: int, sums: Any, sizes: Any
) -> None:
    """Add all rows to the sums and sizes of the columns from first to stop - 1."""
    _add(codes, range(len(codes)), action, gains, first, stop, sums, sizes)


@njit(nogil=True, cache=True)
def _largest(values: Any) -> int:
    """Return the place of the largest number, the first of equal ones."""
    best = 0
    for a in range(1, len(values)):
        if values[a] > values[best]:
            best = a
    return best


@njit(nogil=True, cache=True)
def best_split(sums: Any, sizes: Any, bins: Any, least: int, out: Any) -> Any:
    """Write the best split of a part in two, or none, to out (4,); return what it collects.

    Of equal splits the first is written, and none unless it collects more than the whole.
    """
    total, rows = np.zeros(sums.shape[2], np.int64), 0
    for b in range(bins[0]):
        total += sums[0, b]
        rows += sizes[0, b]
    a = _largest(total)
    best = total[a]
    out[0], out[1], out[2], out[3] = -1, 0, a, a
    if rows < 2 * least:
        return best
    left = np.zeros(sums.shape[2], np.int64)
    for f in range(len(bins)):
        left[:] = 0
        seen = 0
        for b in range(bins[f] - 1):
            # without rows in the bin it is the split of the bin before
            if sizes[f, b] == 0:
                continue
            seen += sizes[f, b]
            if rows - seen < least:
                break
            cell = sums[f, b]
            low = high = np.int64(-(2**62))
            for k in range(len(left)):
                left[k] += cell[k]
                low = max(low, left[k])
                high = max(high, total[k] - left[k])
            if seen >= least and low + high > best:
                best = low + high
                out[0], out[1] = f, b
                out[2], out[3] = _largest(left), _largest(total - left)
    return best


@njit(nogil=True, cache=True)
def _by_bin(codes: Any, column: int, bins: int) -> Any:
    """Return the rows ordered by their bin in a column, and where each bin begins, (bins + 1,)."""
    starts = np.zeros(bins + 1, np.int64)
    for i in range(len(codes)):
        starts[codes[i, column] + 1] += 1
    for b in range(bins):
        starts[b + 1] += starts[b]
    at, order = starts[:-1].copy(), np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        b = codes[i, column]
        order[at[b]] = i
        at[b] += 1
    return order, starts


@njit(nogil=True, cache=True)
def best_pair(
    codes: Any,
    bins: Any,
    action: Any,
    gains: Any,
    sums: Any,
    sizes: Any,
    first: int,
    stop: int,
    least: int,
    out: Any,
) -> Any:
    """Write the best tree of depth two whose root is on column first to stop - 1; return its gains.

    out (3, 4): the splits of the root and of its left and right part. Of equal trees the one with
    fewest splits is written, then the first.
    """
    left, right = np.zeros_like(sums), np.zeros_like(sums)
    left_sizes, right_sizes = np.zeros_like(sizes), np.zeros_like(sizes)
    low, high = np.zeros(4, np.int64), np.zeros(4, np.int64)
    # without any split
    whole = np.zeros(sums.shape[2], np.int64)
    for b in range(bins[0]):
        whole += sums[0, b]
    a = _largest(whole)
    best, splits = whole[a], 0
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = -1, 0, a, a
    for f in range(first, stop):
        order, starts = _by_bin(codes, f, bins[f])
        left[:] = 0
        left_sizes[:] = 0
        for b in range(bins[f] - 1):
            if starts[b] == starts[b + 1]:
                continue
            if len(codes) - starts[b + 1] < least:
                break
            here = order[starts[b] : starts[b + 1]]
            _add(codes, here, action, gains, 0, len(bins), left, left_sizes)
            if starts[b + 1] < least:
                continue
            right[:] = sums - left
            right_sizes[:] = sizes - left_sizes
            # both parts are split as well as possible, on any column
            found = best_split(left, left_sizes, bins, least, low)
            found += best_split(right, right_sizes, bins, least, high)
            used = 1 + (low[0] >= 0) + (high[0] >= 0)
            if found > best or (found == best and used < splits):
                best, splits = found, used
                out[0, 0], out[0, 1] = f, b
                out[1] = low
                out[2] = high
    return best
