"""Compiled loops of the reductions. Imported only when first needed: importing Numba takes more than a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_bets", "add_gains"]

_LARGE = 1e12
_FLUSH = 1e280


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_bets(y: Any, bets: Any, sums: Any) -> None:
    """Add sum_t log(1 + lam_j y_t) to `sums`, (m,), for every bet lam_j; the largest bet comes first."""
    # q_j = prod (1 + lam_j y) - 1, kept as the excess over 1 so that the smallest bets lose no digits;
    # the logarithm is taken only when the product of the largest bet nears overflow.
    m = len(bets)
    q = np.zeros(m)
    head = 1.0
    for t in range(len(y)):
        v = y[t]
        if v == 0.0:
            continue
        if v > _LARGE:
            for j in range(m):
                sums[j] += np.log1p(bets[j] * v)
            continue
        factor = 1.0 + bets[0] * v
        if head * factor > _FLUSH:
            for j in range(m):
                sums[j] += np.log1p(q[j])
                q[j] = 0.0
            head = 1.0
        head *= factor
        for j in range(m):
            x = bets[j] * v
            q[j] += x + x * q[j]
    for j in range(m):
        sums[j] += np.log1p(q[j])


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_gains(x: Any, action: Any, gains: Any, g: Any, gx: Any) -> None:
    """Add gains (n, S) and gains times context (n, d) to the sums g (K, S) and gx (K, S, d) of their actions."""
    # a rewarded row touches only its own action: S x d multiply-adds that stay in the first cache
    rows, scores = gains.shape
    width = x.shape[1]
    for t in range(rows):
        a = action[t]
        for s in range(scores):
            gain = gains[t, s]
            g[a, s] += gain
            for f in range(width):
                gx[a, s, f] += gain * x[t, f]
