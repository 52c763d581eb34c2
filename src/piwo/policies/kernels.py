"""Compiled loops of the policies. Imported when first needed: Numba takes over a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_known", "add_matched", "choose_many", "drifts"]

TILE = 256
"""Rows a tile: its transposed context and its scores stay in the first two caches."""
RECHECKED = 64
"""Rows that are decided again together, in double precision."""
_FINER = 2.0**-28
"""Rounding of double relative to single precision, 2^-29, with a bit of margin."""
_LANES = 8
"""Sums side by side, for the vector units. Their order is fixed, so results do not depend on the
compiler."""


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def drifts(coef: Any, intercept: Any, out: Any) -> None:
    """Write bounds on how much the scores of neighboring policies differ.

    coef (P, K, d), intercept (P, K) float64; out (P, window): out[p, b] bounds how much
    the difference between two actions' scores changes from policy p - 1 - b to policy p, divided by
    one plus the row's norm; NaN if intercepts are infinite.
    """
    policies, actions, width = coef.shape
    for p in range(policies):
        for b in range(min(out.shape[1], p)):
            q, most = p - 1 - b, 0.0
            for a in range(actions):
                square = (intercept[p, a] - intercept[q, a]) ** 2
                for f in range(width):
                    square += (coef[p, a, f] - coef[q, a, f]) ** 2
                if not square <= most:  # not ">": NaN must stay
                    most = square
            out[p, b] = 2.0 * np.sqrt(most) * (1.0 + 1e-6)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _load(x: Any, start: int, shift: Any, scale: Any, xt: Any, norm: Any) -> int:
    """Write a tile's scaled, transposed context and one plus each row's norm; return its rows."""
    rows = min(TILE, len(x) - start)
    norm[:] = 0.0
    for f in range(len(shift)):
        row = xt[f]
        for r in range(rows):
            v = (x[start + r, f] - shift[f]) / scale[f]
            row[r] = v
            norm[r] += v * v
    for r in range(TILE):
        norm[r] = 1.0 + np.sqrt(norm[r])
    return rows


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _contest(scores: Any, b: Any, code: int, best: Any, second: Any, chosen: Any) -> None:
    """Update best and second best with actions `code` and `code + 1`, without a branch."""
    first, other = scores[code], scores[code + 1]
    b0, b1 = b[code], b[code + 1]
    c0, c1 = np.int32(code), np.int32(code + 1)
    # max() and min() check for NaN, which would prevent vectorization.
    for r in range(TILE):
        s, z = first[r] + b0, other[r] + b1
        later = z > s
        high = z if later else s
        low = s if later else z
        top = best[r]
        wins = high > top
        middle = top if wins else high
        low = low if low > second[r] else second[r]  # noqa: FURB136
        second[r] = middle if middle > low else low  # noqa: FURB136
        best[r] = high if wins else top
        newcomer = c1 if later else c0
        chosen[r] = newcomer if wins else chosen[r]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _gap(best: Any, second: Any, norm: Any, rows: int) -> Any:
    """Return the smallest lead of best over second best, divided by one plus the row's norm."""
    least = np.float32(np.inf)
    for r in range(rows):
        lead = (best[r] - second[r]) / norm[r]
        # "not >": a NaN, from scores beyond single precision, must stay.
        if not lead > least:
            least = lead
    return least


@njit(nogil=True, cache=True)
def _decide(xt: Any, coef: Any, intercept: Any, best: Any, second: Any, chosen: Any) -> None:
    """Write one policy's best action and two best scores in `RECHECKED` rows, in double precision.

    xt (d, RECHECKED) is their context; chosen is -1 if a score is NaN or +inf.
    """
    scores, wrong = np.zeros(RECHECKED), np.zeros(RECHECKED, np.bool_)
    best[:], second[:], chosen[:] = -np.inf, -np.inf, -1
    for a in range(len(coef)):
        scores[:] = intercept[a]
        for f in range(len(xt)):
            weight, column = coef[a, f], xt[f]
            for r in range(RECHECKED):
                scores[r] += weight * column[r]
        for r in range(RECHECKED):
            s, top = scores[r], best[r]
            wins = s > top
            low = top if wins else s
            second[r] = low if low > second[r] else second[r]  # noqa: FURB136
            best[r] = s if wins else top
            chosen[r] = a if wins else chosen[r]
            wrong[r] |= not s < np.inf
    for r in range(RECHECKED):
        if wrong[r]:
            chosen[r] = -1


@njit(nogil=True, cache=True)
def _recheck(
    x: Any,
    start: int,
    coef: Any,
    intercept: Any,
    size: float,
    slack: Any,
    best: Any,
    second: Any,
    norm: Any,
    out: Any,
) -> float:
    """Decide the close rows of a tile in double precision; return the smallest relative lead."""
    xt, rows, held, least = (
        np.zeros((x.shape[1], RECHECKED)),
        np.zeros(RECHECKED, np.int32),
        0,
        np.inf,
    )
    exact, runner_up, chosen = (
        np.zeros(RECHECKED),
        np.zeros(RECHECKED),
        np.zeros(RECHECKED, np.int32),
    )
    for r in range(len(out)):
        lead = np.float64(best[r] - second[r]) / norm[r] - slack
        if lead > 0.0:
            least = min(least, lead)
        else:  # NaN, from scores beyond single precision, is decided again too
            rows[held] = r
            for f in range(len(xt)):
                xt[f, held] = x[start + r, f]
            held += 1
        if held == RECHECKED or (held > 0 and r + 1 == len(out)):
            _decide(xt, coef, intercept, exact, runner_up, chosen)
            for k in range(held):
                out[rows[k]] = chosen[k]
                lead = (exact[k] - runner_up[k]) / size / norm[rows[k]] - slack * _FINER
                if not lead > least:
                    least = lead
            held = 0
    return least


@njit(nogil=True, cache=True)
def choose_many(
    x: Any,
    exact: Any,
    offset: Any,
    size: Any,
    shift: Any,
    scale: Any,
    coef: Any,
    intercept: Any,
    slack: Any,
    drift: Any,
    codes: Any,
) -> None:
    """Write the best action of P linear policies in n rows, codes (P, n) int32; -1: none.

    x (n, d); exact (P, K, d), offset (P, K): the policies; size (P,): what coef is divided by;
    shift, scale (d,): coordinates in which coef (P, K, d), intercept (P, K + 1) float32 are given,
    the last intercept -inf; slack (P,) float32: a lead, divided by one plus the row's norm,
    below which rounding to single precision may change the choice; drift: see `drifts`.
    """
    # Rows lie along the vector units (the tile is transposed). Rows whose lead is within the slack
    # are decided again in double precision. If an earlier policy is so close that no lead in the
    # tile can change sign, its actions are copied.
    policies, actions, width = coef.shape
    xt, norm = np.zeros((width, TILE), np.float32), np.zeros(TILE, np.float32)
    scores = np.zeros((actions + 1, TILE), np.float32)  # one more than K, for pairs
    best, second, chosen = (
        np.zeros(TILE, np.float32),
        np.zeros(TILE, np.float32),
        np.zeros(TILE, np.int32),
    )
    gap = np.zeros(policies)
    for start in range(0, len(x), TILE):
        rows = _load(x, start, shift, scale, xt, norm)
        for p in range(policies):
            out = codes[p, start : start + rows]
            like = 0
            for b in range(1, min(drift.shape[1], p) + 1):
                if drift[p, b - 1] < gap[p - b]:
                    like = b
                    break
            if like > 0:
                out[:] = codes[p - like, start : start + rows]
                gap[p] = gap[p - like] - drift[p, like - 1]
                continue
            best[:], second[:], chosen[:] = -np.inf, -np.inf, 0
            np.dot(coef[p], xt, scores[:actions])
            for a in range(0, actions, 2):
                _contest(scores, intercept[p], a, best, second, chosen)
            out[:] = chosen[:rows]
            gap[p] = _gap(best, second, norm, rows) - slack[p]
            if not gap[p] > 0:
                gap[p] = _recheck(
                    x, start, exact[p], offset[p], size[p], slack[p], best, second, norm, out
                )


@njit(nogil=True, cache=True)
def add_matched(codes: Any, action: Any, gains: Any, sums: Any) -> None:
    """Add to sums (P,) the gains (n,) of rows whose action (n,) is the choice, codes (P, n)."""
    rows = codes.shape[1]
    for p in range(len(sums)):
        taken, lanes = codes[p], np.zeros(_LANES)
        for start in range(0, rows, _LANES):
            for lane in range(min(_LANES, rows - start)):
                r = start + lane
                lanes[lane] += gains[r] if taken[r] == action[r] else 0.0
        for lane in range(_LANES):
            sums[p] += lanes[lane]


@njit(nogil=True, cache=True)
def add_known(codes: Any, kinds: Any, rewards: Any, sums: Any) -> None:
    """Add to sums (P,) the rewards (kinds, K) of the choices, codes (P, n); kinds (n,)."""
    rows = codes.shape[1]
    flat, first = rewards.reshape(-1), kinds.astype(np.uint64) * np.uint64(rewards.shape[1])
    for p in range(len(sums)):
        taken, lanes = codes[p], np.zeros(_LANES)
        for start in range(0, rows, _LANES):
            for lane in range(min(_LANES, rows - start)):
                r = start + lane
                lanes[lane] += flat[first[r] + np.uint64(taken[r])]
        for lane in range(_LANES):
            sums[p] += lanes[lane]
