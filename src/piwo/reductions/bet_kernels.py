"""Compiled bet sums. Imported when first needed: Numba takes over a second.

The bet sums S_j = sum_t log(1 + lam_j y_t), lam_j = 32 / 2^j, are computed as products; the
logarithm is taken once, at the end of a batch. Positive y are collected in tiles of `TILE` rows;
four rows of a tile share one of `PLACES` products, so that the loops run along the vector units:

- j < SPLIT: q_j = prod (1 + lam_j y) - 1, minus 1 so that small bets lose no digits; a product
  above 2^500 is divided by 2^500, and the divisions are counted;
- j >= SPLIT in tiles with y <= SMALL, where lam_j y <= 1e-3: power sums of y, from which the series
  of the logarithm gives all these bets at once, to 1e-15 relative;
- j >= SPLIT in other tiles: products again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_bets", "add_block_bets"]

TILE = 256
PLACES = 64
SPLIT = 24
# The series of the logarithm needs lam_j y <= 1e-3 for j >= SPLIT: lam_24 * 512 = 9.8e-4.
SMALL = 512.0
# Larger y are added one by one, so a tile multiplies a product by at most (1 + 32 y)^4 < 1.1e54.
_LARGE = 1e12
_HUGE = 1e290
# Products are scaled down before a bound on them passes this number.
_FLUSH = 1e280
_BIG = 2.0**500
_LOG_BIG = 500.0 * np.log(2.0)
_POWERS = 5
# Rows of one block that are held before they are added, and rows a run of equal blocks for which
# runs are summed one by one.
_DEPTH = 32
_RUN = 64


@njit(nogil=True, cache=True, fastmath={"contract"})
def _scale_down(q: Any, first: int, last: int, scaled: Any, places: int) -> None:
    """Divide products of the bets first..last above 2^500 by 2^500; count the divisions."""
    for j in range(first, last):
        row = q[j]
        count = scaled[j]
        for r in range(places):
            large = row[r] > _BIG
            row[r] = row[r] * (1.0 / _BIG) - 1.0 if large else row[r]
            count[r] += 1.0 if large else 0.0


@njit(nogil=True, cache=True, fastmath={"contract"})
def _take_logs(q: Any, first: int, last: int, scaled: Any, sums: Any) -> None:
    """Add the logarithms of the products of the bets first..last, and set these to one."""
    # The places of a bet are multiplied in halves, along the vector units: 64, 32, ..., 1. Products
    # of two numbers up to 2^500 do not overflow.
    half = PLACES
    while half > 1:
        _scale_down(q, first, last, scaled, half)
        half //= 2
        for j in range(first, last):
            row, count = q[j], scaled[j]
            for r in range(half):
                row[r] += row[r + half] + row[r] * row[r + half]
                count[r] += count[r + half]
    for j in range(first, last):
        # log prod_r (1 + q_r) = log(1 + product) + 500 log 2 for each division by 2^500
        sums[j] += np.log1p(q[j, 0]) + scaled[j, 0] * _LOG_BIG
        for r in range(PLACES):
            q[j, r] = 0.0
            scaled[j, r] = 0.0


@njit(nogil=True, cache=True, fastmath={"contract"})
def _multiply(y: Any, bets: Any, q: Any, first: int, last: int) -> None:
    """Multiply the products of the bets first..last by 1 + lam_j y, four rows each."""
    y0, y1, y2, y3 = y[:PLACES], y[PLACES : 2 * PLACES], y[2 * PLACES : 3 * PLACES], y[3 * PLACES :]
    for j in range(first, last):
        lam = bets[j]
        row = q[j]
        for r in range(PLACES):
            # (1 + a)(1 + b) - 1 = a + b + ab
            x0, x1, x2, x3 = lam * y0[r], lam * y1[r], lam * y2[r], lam * y3[r]
            x0 += x1 + x0 * x1
            x2 += x3 + x2 * x3
            x0 += x2 + x0 * x2
            row[r] += x0 + x0 * row[r]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_tile(y: Any, top: float, bets: Any, q: Any, scaled: Any, powers: Any, heads: Any) -> None:
    """Add a tile of rows y, (TILE,), with maximum top."""
    # heads bound the largest products, so that most tiles need no check of each product.
    factor = (1.0 + bets[0] * top) ** 4
    if heads[0] * factor > _FLUSH:
        _scale_down(q, 0, SPLIT, scaled, PLACES)
        heads[0] = _BIG
    heads[0] *= factor
    _multiply(y, bets, q, 0, SPLIT)
    if top <= SMALL:
        p0, p1, p2, p3, p4 = powers[0], powers[1], powers[2], powers[3], powers[4]
        for first in range(0, TILE, PLACES):
            for r in range(PLACES):
                v = y[first + r]
                square = v * v
                cube = square * v
                p0[r] += v
                p1[r] += square
                p2[r] += cube
                p3[r] += square * square
                p4[r] += square * cube
        return
    factor = (1.0 + bets[SPLIT] * top) ** 4
    if heads[1] * factor > _FLUSH:
        _scale_down(q, SPLIT, len(bets), scaled, PLACES)
        heads[1] = _BIG
    heads[1] *= factor
    _multiply(y, bets, q, SPLIT, len(bets))


@njit(nogil=True, cache=True, fastmath={"contract", "nnan", "nsz"})
def _survey(y: Any, first: int, last: int) -> Any:
    """Return how many of the rows first..last are positive, and their maximum."""
    positive, top = 0, 0.0
    for r in range(first, last):
        v = y[r]
        positive += 1 if v > 0.0 else 0
        top = v if v > top else top  # noqa: FURB136 - max() checks for NaN: not vectorized
    return positive, top


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_bets(y: Any, bets: Any, sums: Any) -> None:
    """Add sum_t log(1 + lam_j y_t) to `sums`, (48,), for every bet lam_j, largest bet first."""
    q, scaled = np.zeros((len(bets), PLACES)), np.zeros((len(bets), PLACES))
    _add_bets(y, bets, sums, q, scaled, np.zeros((_POWERS, PLACES)), np.zeros(TILE))


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_block_bets(y: Any, blocks: Any, bets: Any, sums: Any, moments: Any) -> None:
    """Add the bet sums of each block of rows to `sums`, (B, 48), and its sums of y and y^2.

    Rows of time blocks follow each other: each run of equal blocks is summed as without blocks.
    Rows of other blocks are collected side by side, one place of the products a block. Blocks of a
    plan, of which there may be one more than places, are runs.

    Args:
        y: (n,) rows.
        blocks: (n,) the block of each row.
        bets: (48,).
        sums: (B, 48).
        moments: (B, 2).
    """
    runs = 1
    for t in range(1, len(y)):
        runs += 1 if blocks[t] != blocks[t - 1] else 0
    placed = len(sums) <= PLACES
    q, scaled = np.zeros((len(bets), PLACES)), np.zeros((len(bets), PLACES))
    powers = np.zeros((_POWERS, PLACES))
    if placed and runs * _RUN > len(y):
        _add_side_by_side(y, blocks, bets, sums, moments, q, scaled, powers)
        return
    tile = np.zeros(TILE)
    start = 0
    for t in range(1, len(y) + 1):
        if t < len(y) and blocks[t] == blocks[start]:
            continue
        b, part = blocks[start], y[start:t]
        start = t
        _add_bets(part, bets, sums[b], q, scaled, powers, tile)
        total, squares = 0.0, 0.0
        for v in part:
            total += v
            squares += v * v
        moments[b, 0] += total
        moments[b, 1] += squares


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_side_by_side(  # noqa: C901 - one loop nest, compiled whole
    y: Any, blocks: Any, bets: Any, sums: Any, moments: Any, q: Any, scaled: Any, powers: Any
) -> None:
    """Add the bet sums of rows of many blocks; place b of the products, (48, 64), is of block b."""
    heads, totals = np.ones(2), np.zeros((2, PLACES))
    tile, held, filled = np.zeros(TILE), np.zeros(_DEPTH * PLACES), np.zeros(PLACES, np.int64)
    top, t, first = 0.0, 0, _first_whole(blocks)
    while t < len(y):
        last = min(t + TILE, len(y))
        if t < first:
            last = min(first, len(y))
        positive, most = _survey(y, t, last)
        if positive == 0:
            t = last
            continue
        # Mostly positive, and each 64 rows are of 64 blocks: no two rows have one place.
        dense = last - t == TILE and 2 * positive >= TILE and most <= _LARGE
        if dense and _each_once(blocks, t, last):
            for start in range(t, last, PLACES):
                place = start - t
                for r in range(start, start + PLACES):
                    tile[place + blocks[r]] = y[r]
            _add_tile(tile, most, bets, q, scaled, powers, heads)
            _add_moments(tile, totals)
            t = last
            continue
        top = max(top, min(most, _LARGE))
        for r in range(t, last):
            v, b = y[r], blocks[r]
            if v > _LARGE:
                _add_large(v, bets, sums[b])
                totals[0, b] += v
                totals[1, b] += v * v
                continue
            depth = filled[b]
            held[depth * PLACES + b] = v
            depth += 1 if v > 0.0 else 0
            filled[b] = depth
            if depth == _DEPTH:
                _add_held(held, filled, top, bets, q, scaled, powers, heads, totals)
        t = last
    _add_held(held, filled, top, bets, q, scaled, powers, heads, totals)
    products = SPLIT if heads[1] == 1.0 else len(bets)
    for b in range(len(sums)):
        for j in range(products):
            sums[b, j] += np.log1p(q[j, b]) + scaled[j, b] * _LOG_BIG
        _add_series(powers[:, b], bets, sums[b])
        moments[b, 0] += totals[0, b]
        moments[b, 1] += totals[1, b]


@njit(nogil=True, cache=True)
def _each_once(blocks: Any, first: int, last: int) -> bool:
    """Whether each `PLACES` rows are of different blocks, from the first row to the last."""
    for start in range(first, last, PLACES):
        seen = np.uint64(0)
        for r in range(start, start + PLACES):
            seen |= np.uint64(1) << np.uint64(blocks[r])
        if seen != ~np.uint64(0):
            return False
    return True


@njit(nogil=True, cache=True)
def _first_whole(blocks: Any) -> int:
    """Return the first row from which on `PLACES` rows are of different blocks; 0 if none is."""
    for start in range(min(PLACES, len(blocks) - PLACES + 1)):
        if _each_once(blocks, start, start + PLACES):
            return start
    return 0


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_held(
    held: Any,
    filled: Any,
    top: Any,
    bets: Any,
    q: Any,
    scaled: Any,
    powers: Any,
    heads: Any,
    totals: Any,
) -> None:
    """Add the rows that are held, (DEPTH, 64) in one row, none larger than top; then none are."""
    for first in range(0, filled.max() * PLACES, TILE):
        tile = held[first : first + TILE]
        _add_tile(tile, top, bets, q, scaled, powers, heads)
        _add_moments(tile, totals)
    held[:] = 0.0
    filled[:] = 0


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_moments(tile: Any, totals: Any) -> None:
    """Add the sums of y and y^2, (2, 64), of a tile whose places are blocks."""
    sums, squares = totals[0], totals[1]
    for start in range(0, TILE, PLACES):
        for b in range(PLACES):
            v = tile[start + b]
            sums[b] += v
            squares[b] += v * v


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_large(v: Any, bets: Any, sums: Any) -> None:
    """Add log(1 + lam_j v) of one row above `_LARGE`."""
    for j in range(len(bets)):
        # above _HUGE, lam v may overflow, and log(1 + lam v) = log(lam v) in float64
        sums[j] += np.log1p(bets[j] * v) if v < _HUGE else np.log(bets[j]) + np.log(v)


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_series(total: Any, bets: Any, sums: Any) -> None:
    """Add the logarithms of the bets from `SPLIT` on, from the power sums P_k = sum y^k, (5,)."""
    # sum log(1 + lam y) = lam (P_1 - lam (P_2/2 - lam (P_3/3 - lam (P_4/4 - lam P_5/5))))
    for j in range(SPLIT, len(bets)):
        lam = bets[j]
        series = total[3] / 4.0 - lam * total[4] / 5.0
        series = total[2] / 3.0 - lam * series
        series = total[1] / 2.0 - lam * series
        sums[j] += lam * (total[0] - lam * series)


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_bets(y: Any, bets: Any, sums: Any, q: Any, scaled: Any, powers: Any, tile: Any) -> None:
    """Add sum_t log(1 + lam_j y_t) to `sums`, (48,); the other arrays are zero before and after."""
    bet_count = len(bets)
    heads = np.ones(2)
    held, top = 0, 0.0
    t = 0
    while t < len(y):
        last = min(t + TILE, len(y))
        if last - t == TILE:
            positive, most = _survey(y, t, last)
            if positive == 0:
                t = last
                continue
            # Mostly positive: the rows are a tile as they are, as zeros multiply by 1.
            if 2 * positive >= TILE and most <= _LARGE:
                _add_tile(y[t:last], most, bets, q, scaled, powers, heads)
                t = last
                continue
        for r in range(t, last):
            v = y[r]
            if v > _LARGE:
                _add_large(v, bets, sums)
                continue
            tile[held] = v
            top = max(top, v)
            held += v > 0.0
            if held == TILE:
                _add_tile(tile, top, bets, q, scaled, powers, heads)
                held, top = 0, 0.0
        t = last
    tile[held:] = 0.0
    _add_tile(tile, top, bets, q, scaled, powers, heads)
    tile[:] = 0.0
    _take_logs(q, 0, SPLIT, scaled, sums)
    if heads[1] != 1.0:
        _take_logs(q, SPLIT, bet_count, scaled, sums)
    total = np.zeros(_POWERS)
    for k in range(_POWERS):
        total[k] = powers[k].sum()
        powers[k] = 0.0
    _add_series(total, bets, sums)
