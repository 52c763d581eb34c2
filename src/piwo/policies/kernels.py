"""Compiled loops of the policies. Imported only when first needed: importing Numba takes more than a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["choose_many"]

TILE = 256
"""Rows a tile: its transposed context and one row of scores stay in the first cache."""


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _score(xt: Any, w: Any, b: Any, score: Any) -> None:
    """Write w'x + b of one action for the rows of a tile; eight features at a time stay in registers."""
    for r in range(TILE):
        score[r] = b
    f = 0
    while f + 8 <= len(w):
        w0, w1, w2, w3 = w[f], w[f + 1], w[f + 2], w[f + 3]
        w4, w5, w6, w7 = w[f + 4], w[f + 5], w[f + 6], w[f + 7]
        x0, x1, x2, x3 = xt[f], xt[f + 1], xt[f + 2], xt[f + 3]
        x4, x5, x6, x7 = xt[f + 4], xt[f + 5], xt[f + 6], xt[f + 7]
        for r in range(TILE):
            score[r] += (
                w0 * x0[r] + w1 * x1[r] + w2 * x2[r] + w3 * x3[r]
                + w4 * x4[r] + w5 * x5[r] + w6 * x6[r] + w7 * x7[r]
            )  # fmt: skip
        f += 8
    while f < len(w):
        w0 = w[f]
        x0 = xt[f]
        for r in range(TILE):
            score[r] += w0 * x0[r]
        f += 1


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _contest(score: Any, code: Any, best: Any, second: Any, chosen: Any) -> None:
    """Let one action's scores contend for best and second best, without a branch."""
    for r in range(TILE):
        s = score[r]
        top = best[r]
        wins = s > top
        lower = top if wins else s
        next_best = second[r]
        second[r] = lower if lower > next_best else next_best  # noqa: FURB136 - max() minds NaN and is no vector loop
        best[r] = s if wins else top
        chosen[r] = code if wins else chosen[r]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def choose_many(x: Any, shift: Any, scale: Any, coef: Any, intercept: Any, slack: Any, codes: Any, doubt: Any) -> None:
    """Find the best action of P linear policies in n rows, in single precision, and say where that is in doubt.

    x (n, d) float64; shift, scale (d,); coef (P, K, d), intercept (P, K) float32 in shifted and scaled coordinates;
    slack (P,) float32: the gap below which rounding may have chosen, a unit of the row's norm plus one; out:
    codes (P, n) int32, doubt (P, n) bool.
    """
    # Rows lie along the vector units (the tile is transposed), actions outermost.
    n, d = x.shape
    policies, actions = intercept.shape
    xt = np.zeros((d, TILE), np.float32)
    norm, score = np.zeros(TILE, np.float32), np.zeros(TILE, np.float32)
    best, second = np.zeros(TILE, np.float32), np.zeros(TILE, np.float32)
    chosen = np.zeros(TILE, np.int32)
    for start in range(0, n, TILE):
        rows = min(TILE, n - start)
        for r in range(rows):
            square = 0.0
            for f in range(d):
                v = (x[start + r, f] - shift[f]) / scale[f]
                xt[f, r] = v
                square += v * v
            norm[r] = 1.0 + np.sqrt(square)
        for p in range(policies):
            best[:] = -np.inf
            second[:] = -np.inf
            chosen[:] = 0
            for a in range(actions):
                _score(xt, coef[p, a], intercept[p, a], score)
                _contest(score, np.int32(a), best, second, chosen)
            out = codes[p]
            unsure = doubt[p]
            for r in range(rows):
                out[start + r] = chosen[r]
                # not "<": NaN, from scores that left single precision, is in doubt too
                unsure[start + r] = not (best[r] - second[r] > slack[p] * norm[r])
