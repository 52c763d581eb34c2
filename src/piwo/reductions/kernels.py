"""Compiled loops of the reductions. Imported only when first needed: importing Numba takes more than a second.

The bet sums S_j = sum_t log(1 + lam_j y_t), lam_j = 32 / 2^j, are kept as products while rows go by; a logarithm is
taken only when a product nears overflow, once in hundreds of rows. Positive y are gathered in tiles of `TILE`, and
every place of the tile has products of its own, so that the loops run along the vector units:

- j < SPLIT: the excess q_j = prod (1 + lam_j y) - 1, as an excess so that small bets lose no digits;
- j >= SPLIT in tiles with y <= SMALL, where lam_j y <= 1e-3: power sums of y, from which the series of the logarithm
  gives all these bets at once, to 1e-15 relative;
- j >= SPLIT in other tiles: products again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_bets", "add_gains", "add_policy"]

TILE = 64
SPLIT = 24
SMALL = 512.0
_LARGE = 1e12
_HUGE = 1e290
_FLUSH = 1e280
_POWERS = 5


@njit(nogil=True, cache=True, fastmath={"contract"})
def _take_logs(q: Any, first: int, last: int, sums: Any) -> None:
    """Move the products of the bets first..last into the sums and start them anew."""
    for j in range(first, last):
        row = q[j]
        total = 0.0
        for r in range(TILE):
            total += np.log1p(row[r])
            row[r] = 0.0
        sums[j] += total


@njit(nogil=True, cache=True, fastmath={"contract"})
def _multiply(y: Any, bets: Any, q: Any, first: int, last: int) -> None:
    """Multiply the products of the bets first..last by 1 + lam_j y, place by place."""
    for j in range(first, last):
        lam = bets[j]
        row = q[j]
        for r in range(TILE):
            x = lam * y[r]
            row[r] += x + x * row[r]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_tile(y: Any, top: float, bets: Any, q: Any, powers: Any, heads: Any, sums: Any) -> None:
    """Add a tile of rows y, (TILE,), the largest of which is top."""
    if heads[0] * (1.0 + bets[0] * top) > _FLUSH:
        _take_logs(q, 0, SPLIT, sums)
        heads[0] = 1.0
    heads[0] *= 1.0 + bets[0] * top
    _multiply(y, bets, q, 0, SPLIT)
    if top <= SMALL:
        p0, p1, p2, p3, p4 = powers[0], powers[1], powers[2], powers[3], powers[4]
        for r in range(TILE):
            v = y[r]
            square = v * v
            cube = square * v
            p0[r] += v
            p1[r] += square
            p2[r] += cube
            p3[r] += square * square
            p4[r] += square * cube
        return
    if heads[1] * (1.0 + bets[SPLIT] * top) > _FLUSH:
        _take_logs(q, SPLIT, len(bets), sums)
        heads[1] = 1.0
    heads[1] *= 1.0 + bets[SPLIT] * top
    _multiply(y, bets, q, SPLIT, len(bets))


@njit(nogil=True, cache=True, fastmath={"contract", "nnan", "nsz"})
def _survey(y: Any, first: int) -> Any:
    """Return how many of the next `TILE` rows are positive, and the largest of them."""
    positive, top = 0, 0.0
    for r in range(first, first + TILE):
        v = y[r]
        positive += 1 if v > 0.0 else 0
        top = v if v > top else top
    return positive, top


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_bets(y: Any, bets: Any, sums: Any) -> None:
    """Add sum_t log(1 + lam_j y_t) to `sums`, (48,), for every bet lam_j; the largest bet comes first."""
    bet_count = len(bets)
    q, powers, heads = np.zeros((bet_count, TILE)), np.zeros((_POWERS, TILE)), np.ones(2)
    tile = np.zeros(TILE)
    held, top = 0, 0.0
    t = 0
    while t < len(y):
        last = min(t + TILE, len(y))
        if last - t == TILE:
            positive, most = _survey(y, t)
            if positive == 0:
                t = last
                continue
            if positive == TILE and most <= _LARGE:  # a tile as it stands
                _add_tile(y[t:last], most, bets, q, powers, heads, sums)
                t = last
                continue
        for r in range(t, last):
            v = y[r]
            if v > _LARGE:
                for j in range(bet_count):
                    # beyond _HUGE, lam v would overflow and the 1 is lost anyway
                    sums[j] += np.log1p(bets[j] * v) if v < _HUGE else np.log(bets[j]) + np.log(v)
                continue
            tile[held] = v
            top = max(top, v)
            held += v > 0.0
            if held == TILE:
                _add_tile(tile, top, bets, q, powers, heads, sums)
                held, top = 0, 0.0
        t = last
    tile[held:] = 0.0
    _add_tile(tile, top, bets, q, powers, heads, sums)
    _take_logs(q, 0, bet_count, sums)
    total = np.zeros(_POWERS)
    for k in range(_POWERS):
        total[k] = powers[k].sum()
    for j in range(SPLIT, bet_count):
        lam = bets[j]
        series = total[3] / 4.0 - lam * total[4] / 5.0
        series = total[2] / 3.0 - lam * series
        series = total[1] / 2.0 - lam * series
        sums[j] += lam * (total[0] - lam * series)


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def add_policy(w: Any, r: Any, value: Any, loss: Any, better: Any, sums: Any) -> None:
    """Write w R, w (1 - R) and w R + 1 - R, (n,) each, and add the sums of w, w^2, w R, w^2 R, (w R)^2 and R.

    Weights are finite. `reassoc` lets the sums run along the vector units, which is also the better way to add.
    """
    t1, t2, t3, t4, t5, t6 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(len(w)):
        weight, reward = w[t], r[t]
        credit = weight * reward
        value[t] = credit
        loss[t] = weight * (1.0 - reward)
        better[t] = credit + (1.0 - reward)
        t1 += weight
        t2 += weight * weight
        t3 += credit
        t4 += weight * credit
        t5 += credit * credit
        t6 += reward
    sums += np.array([t1, t2, t3, t4, t5, t6])


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_gains(x: Any, action: Any, gains: Any, g: Any, gx: Any) -> None:
    """Add gains (n, S) and gains times context (n, d) to the sums g (K, S) and gx (K, d, S) of their actions."""
    # A rewarded row touches only its own action's d x S sums, which stay in the first cache; scores lie along the
    # vector units, and four features at a time share the loads of the gains.
    rows, scores = gains.shape
    width = x.shape[1]
    for t in range(rows):
        sums = gx[action[t]]
        total = g[action[t]]
        gain = gains[t]
        row = x[t]
        for s in range(scores):
            total[s] += gain[s]
        f = 0
        while f + 4 <= width:
            x0, x1, x2, x3 = row[f], row[f + 1], row[f + 2], row[f + 3]
            s0, s1, s2, s3 = sums[f], sums[f + 1], sums[f + 2], sums[f + 3]
            for s in range(scores):
                v = gain[s]
                s0[s] += v * x0
                s1[s] += v * x1
                s2[s] += v * x2
                s3[s] += v * x3
            f += 4
        while f < width:
            x0 = row[f]
            s0 = sums[f]
            for s in range(scores):
                s0[s] += gain[s] * x0
            f += 1
