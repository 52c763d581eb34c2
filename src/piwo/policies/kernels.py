"""Compiled loops of the policies. Imported only when first needed: importing Numba takes more than a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_known", "add_matched", "choose_many", "drifts"]

TILE = 256
"""Rows a tile: its transposed context and its scores stay in the first two caches."""
DOUBTS = 64
"""Rows that are decided again together."""
_FINER = 2.0**-28
"""How much finer double precision is than single, with a bit to spare."""
_LANES = 8
"""Sums side by side, for the vector units; their order is written down, so that bits do not depend
on the compiler."""


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def drifts(coef: Any, intercept: Any, out: Any) -> None:
    """Write how far apart the scores of neighboring policies can be.

    coef (P, K, d), intercept (P, K) float64; out (P, window): out[p, b] bounds, a unit of the row's
    norm plus one, how much the difference between two actions' scores changes from policy p - 1 - b
    to policy p; NaN where intercepts are infinite.
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
    """Write a tile's context, shifted, scaled and transposed, and one plus each row's norm; return its rows."""
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
    """Let the scores of actions `code` and `code + 1` contend for best and second best, without a branch."""
    first, other = scores[code], scores[code + 1]
    b0, b1 = b[code], b[code + 1]
    c0, c1 = np.int32(code), np.int32(code + 1)
    # not max() and min(): they mind NaN, and then this is no vector loop
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
        chosen[r] = (c1 if later else c0) if wins else chosen[r]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _gap(best: Any, second: Any, norm: Any, rows: int) -> Any:
    """Return the smallest lead of a best action over the second best, a unit of the row's norm plus one."""
    least = np.float32(np.inf)
    for r in range(rows):
        lead = (best[r] - second[r]) / norm[r]
        least = (
            lead if not lead > least else least
        )  # NaN, from scores that left single precision, stays
    return least


@njit(nogil=True, cache=True)
def _decide(xt: Any, coef: Any, intercept: Any, best: Any, second: Any, chosen: Any) -> None:
    """Write the best action of one policy and the two best scores of `DOUBTS` rows, in double precision.

    xt (d, DOUBTS) is their context; chosen is -1 where a score is NaN or +inf.
    """
    scores, wrong = np.zeros(DOUBTS), np.zeros(DOUBTS, np.bool_)
    best[:], second[:], chosen[:] = -np.inf, -np.inf, -1
    for a in range(len(coef)):
        scores[:] = intercept[a]
        for f in range(len(xt)):
            weight, column = coef[a, f], xt[f]
            for r in range(DOUBTS):
                scores[r] += weight * column[r]
        for r in range(DOUBTS):
            s, top = scores[r], best[r]
            wins = s > top
            low = top if wins else s
            second[r] = low if low > second[r] else second[r]  # noqa: FURB136
            best[r] = s if wins else top
            chosen[r] = a if wins else chosen[r]
            wrong[r] |= not s < np.inf
    for r in range(DOUBTS):
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
    """Decide the doubtful rows of a tile in double precision; return the smallest lead, a unit of the norm plus one."""
    xt, rows, held, least = np.zeros((x.shape[1], DOUBTS)), np.zeros(DOUBTS, np.int32), 0, np.inf
    exact, runner_up, chosen = np.zeros(DOUBTS), np.zeros(DOUBTS), np.zeros(DOUBTS, np.int32)
    for r in range(len(out)):
        lead = np.float64(best[r] - second[r]) / norm[r] - slack
        if lead > 0.0:
            least = min(least, lead)
        else:  # NaN, from scores that left single precision, is in doubt too
            rows[held] = r
            for f in range(len(xt)):
                xt[f, held] = x[start + r, f]
            held += 1
        if held == DOUBTS or (held > 0 and r + 1 == len(out)):
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
    """Write the best action of P linear policies in n rows, codes (P, n) int32; -1 where a row has none.

    x (n, d); exact (P, K, d), offset (P, K): the policies; size (P,): what coef is divided by;
    shift, scale (d,): coordinates in which coef (P, K, d), intercept (P, K + 1) float32 are given,
    the last intercept -inf; slack (P,) float32: the lead below which rounding to single precision
    may have chosen, a unit of the row's norm plus one; drift: see `drifts`.
    """
    # Rows lie along the vector units (the tile is transposed). A lead within the slack is decided
    # again in double precision. A policy so near to one before it that no lead in the tile can turn
    # takes that one's actions.
    policies, actions, width = coef.shape
    xt, norm = np.zeros((width, TILE), np.float32), np.zeros(TILE, np.float32)
    scores = np.zeros((actions + 1, TILE), np.float32)  # one to spare, for pairs
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
    """Add to sums (P,) each policy's gains: codes (P, n) int32 its choices, action, gains (n,) the logged ones."""
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
    """Add to sums (P,) the rewards of each policy's choices: codes (P, n) int32, kinds (n,), rewards (kinds, K)."""
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
