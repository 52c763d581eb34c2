"""Compiled loops of the policies. Imported when first needed: Numba takes over a second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "add_known",
    "add_matched",
    "choose_many",
    "decide_by_masks",
    "decide_by_trees",
    "highest_of_pairs",
    "lay_out",
    "nearest",
    "pairs_at",
    "score_pairs",
]

TILE = 512
"""Rows a tile: its transposed context and its scores stay in the first two caches."""
_PART = 320
"""At most so many rows of a tile are gathered; above that, computing them all is as fast."""
_VECTOR = 16
"""Gathered rows are rounded up to whole vectors."""
TREE_TILE = 128
"""Rows that visit one tree after the other."""
RECHECKED = 64
"""Rows that are decided again together, in double precision."""
_FINER = 2.0**-28
"""Rounding of double relative to single precision, 2^-29, with a bit of margin."""
_LANES = 8
"""Sums side by side, for the vector units. Their order is fixed, so results do not depend on the
compiler."""


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def nearest(coef: Any, intercept: Any, window: int, near: Any, drift: Any) -> None:
    """Write, for each policy, which of the `window` before it is nearest, and how near that is.

    coef (P, K, d), intercept (P, K) float64; near (P,): an earlier policy, -1: none; drift (P,)
    bounds how much the difference between two actions' scores changes from that policy to policy p,
    divided by the norm of the row with a one for the intercept.
    """
    policies, actions, width = coef.shape
    for p in range(policies):
        near[p], least, least_second = -1, np.inf, np.inf
        for b in range(1, min(window, p) + 1):
            q, most, second = p - b, 0.0, 0.0
            for a in range(actions):
                square = (intercept[p, a] - intercept[q, a]) ** 2
                for f in range(width):
                    square += (coef[p, a, f] - coef[q, a, f]) ** 2
                # NaN, of an action that neither has, is not larger than any number.
                if square > most:
                    most, second = square, most
                elif square > second:
                    second = square
            if most < least:
                near[p], least, least_second = q, most, second
        # The difference of two scores changes by at most what both of them change.
        drift[p] = (np.sqrt(least) + np.sqrt(least_second)) * (1.0 + 1e-6)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _load(x: Any, start: int, shift: Any, scale: Any, xt: Any, norm: Any) -> int:
    """Write a tile's scaled, transposed context and each row's norm; return its rows."""
    rows = min(TILE, len(x) - start)
    norm[:] = 1.0  # of the intercept
    for f in range(len(shift)):
        row = xt[f]
        for r in range(rows):
            v = (x[start + r, f] - shift[f]) / scale[f]
            row[r] = v
            norm[r] += v * v
    for r in range(TILE):
        norm[r] = np.sqrt(norm[r])
    return rows


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _contest(scores: Any, b: Any, best: Any, second: Any, chosen: Any) -> None:
    """Write the best action and the two best of scores (K + 1, m) plus b (K + 1,), branch-free."""
    best[:], second[:], chosen[:] = -np.inf, -np.inf, 0
    for code in range(0, len(scores) - 1, 2):
        first, other = scores[code], scores[code + 1]
        b0, b1 = b[code], b[code + 1]
        c0, c1 = np.int32(code), np.int32(code + 1)
        # max() and min() check for NaN, which would prevent vectorization.
        for r in range(len(best)):
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
def _carry(before: Any, known: Any, drift: float, out: Any, lead: Any, todo: Any) -> int:
    """Take over the actions of an earlier policy; write and count the rows whose action may change.

    before (m,), known (m,): its actions, and lower bounds on its relative leads. Written: out (m,),
    lead (m,): those of this policy; todo: rows to be decided, as many as returned.
    Row numbers are unsigned: without a look for negative ones the loops over them vectorize.
    """
    changed = 0
    for r in range(len(out)):
        out[r] = before[r]
        lead[r] = known[r] - drift
        # "not >": a NaN, from scores beyond single precision, is decided again.
        changed += not lead[r] > 0.0
    if changed:
        held = np.uint32(0)
        for r in range(len(out)):
            todo[held] = r
            held += np.uint32(not lead[r] > 0.0)
    return changed


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _gather(xt: Any, todo: Any, held: int, part: Any) -> None:
    """Write the columns `todo` of the tile's context xt (d, TILE) side by side to part (d, m)."""
    for f in range(len(xt)):
        row, short = xt[f], part[f]
        for k in range(held):
            short[k] = row[todo[k]]


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
    slack: float,
    norm: Any,
    todo: Any,
    out: Any,
    lead: Any,
) -> None:
    """Decide those rows `todo` of a tile that have no lead again, in double precision."""
    xt, rows, held = np.zeros((x.shape[1], RECHECKED)), np.zeros(RECHECKED, np.int32), 0
    best, second = np.zeros(RECHECKED), np.zeros(RECHECKED)
    chosen = np.zeros(RECHECKED, np.int32)
    for k in range(len(todo)):
        r = todo[k]
        if not lead[r] > 0.0:  # NaN, from scores beyond single precision, too
            rows[held] = r
            for f in range(len(xt)):
                xt[f, held] = x[start + r, f]
            held += 1
        if held == RECHECKED or (held > 0 and k + 1 == len(todo)):
            _decide(xt, coef, intercept, best, second, chosen)
            for h in range(held):
                out[rows[h]] = chosen[h]
                ahead = (best[h] - second[h]) / size / norm[rows[h]]
                lead[rows[h]] = ahead - slack * _FINER
            held = 0


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
    near: Any,
    drift: Any,
    codes: Any,
) -> None:
    """Write the best action of P linear policies in n rows, codes (P, n) int32; -1: none.

    x (n, d); exact (P, K, d), offset (P, K): the policies; size (P,): what coef is divided by;
    shift, scale (d,): coordinates in which coef (P, K, d), intercept (P, K + 1) float32 are given,
    the last intercept -inf; slack (P,): a lead, divided by the row's norm, below which rounding to
    single precision may change the choice; near, drift (P,): see `nearest`.
    """
    # Rows lie along the vector units (the tile is transposed). A row in which the nearest earlier
    # policy leads by more than the two differ has the same action; only the others are computed.
    # Rows whose lead is within the slack are decided again in double precision.
    policies, actions, width = coef.shape
    xt, norm = np.zeros((width, TILE), np.float32), np.zeros(TILE, np.float32)
    leads, every = np.zeros((policies, TILE)), np.arange(TILE, dtype=np.uint32)
    some, place = np.zeros(TILE, np.uint32), np.zeros(width * TILE, np.float32)
    table = np.zeros((actions + 1) * TILE, np.float32)  # one more than K, for pairs
    tops, others = np.zeros(TILE, np.float32), np.zeros(TILE, np.float32)
    codes_of = np.zeros(TILE, np.int32)
    for start in range(0, len(x), TILE):
        rows = _load(x, start, shift, scale, xt, norm)
        for p in range(policies):
            out, lead, todo, held = codes[p, start : start + rows], leads[p, :rows], every, rows
            if near[p] >= 0:
                before = codes[near[p], start : start + rows]
                held = _carry(before, leads[near[p], :rows], drift[p], out, lead, some)
                todo = some
            if held == 0:
                continue
            if held > _PART:
                held, todo, columns, m = rows, every, xt, TILE
            else:
                m = -(-held // _VECTOR) * _VECTOR
                columns = place[: width * m].reshape(width, m)
                _gather(xt, todo, held, columns)
            scores = table[: (actions + 1) * m].reshape(actions + 1, m)
            np.dot(coef[p], columns, scores[:actions])
            best, second, chosen = tops[:m], others[:m], codes_of[:m]
            _contest(scores, intercept[p], best, second, chosen)
            close = 0
            for k in range(held):
                r = todo[k]
                out[r] = chosen[k]
                lead[r] = (best[k] - second[k]) / norm[r] - slack[p]
                close += not lead[r] > 0.0
            if close:
                _recheck(
                    x, start, exact[p], offset[p], size[p], slack[p], norm, todo[:held], out, lead
                )


@njit(nogil=True, cache=True)
def _total(values: Any) -> float:
    """Return the sum of values (n,), in `_LANES` sums side by side."""
    lanes, total = np.zeros(_LANES), 0.0
    whole = len(values) - len(values) % _LANES
    for start in range(0, whole, _LANES):
        for lane in range(_LANES):
            lanes[lane] += values[start + lane]
    for r in range(whole, len(values)):
        lanes[r - whole] += values[r]
    for lane in range(_LANES):
        total += lanes[lane]
    return total


@njit(nogil=True, cache=True)
def add_matched(codes: Any, action: Any, gains: Any, sums: Any) -> None:
    """Add to sums (P,) the gains (n,) of rows whose action (n,) is the choice, codes (P, n)."""
    earned = np.empty(codes.shape[1])
    for p in range(len(sums)):
        taken = codes[p]
        for r in range(len(earned)):
            earned[r] = gains[r] if taken[r] == action[r] else 0.0
        sums[p] += _total(earned)


@njit(nogil=True, cache=True)
def add_known(codes: Any, kinds: Any, rewards: Any, sums: Any) -> None:
    """Add to sums (P,) the rewards (kinds, K) of the choices, codes (P, n); kinds (n,)."""
    # Unsigned places: without a look for negative ones the loop vectorizes.
    flat, first = rewards.reshape(-1), kinds.astype(np.uint64) * np.uint64(rewards.shape[1])
    earned = np.empty(codes.shape[1])
    for p in range(len(sums)):
        taken = codes[p]
        for r in range(len(earned)):
            earned[r] = flat[first[r] + np.uint64(taken[r])]
        sums[p] += _total(earned)


@njit(nogil=True, cache=True)
def lay_out(  # noqa: C901 (four short loops)
    column: Any, child: Any, roots: Any, owner: Any, first: Any, below: Any
) -> bool:
    """Number the leaves of each tree from left to right; return False if trees share nodes.

    column, child (N,): the nodes, children after parents, column < 0: a leaf; roots (T,). Written:
    owner (N,), the tree of a node, -1: none; below (N,), how many leaves a node has under it; first
    (N,), the number of the first of them in its tree.
    """
    owner[:] = -1
    for t in range(len(roots)):
        if owner[roots[t]] >= 0:
            return False
        owner[roots[t]], first[roots[t]] = t, 0
    parents = np.zeros(len(column), np.bool_)
    for i in range(len(column)):
        if column[i] >= 0:
            for one in (child[i], child[i] + 1):
                if parents[one] or owner[one] >= 0:
                    return False
                parents[one], owner[one] = True, owner[i]
    for i in range(len(column) - 1, -1, -1):
        below[i] = 1
        if column[i] >= 0:
            below[i] = below[child[i]] + below[child[i] + 1]
    for i in range(len(column)):
        if column[i] >= 0:
            first[child[i]] = first[i]
            first[child[i] + 1] = first[i] + below[child[i]]
    return True


@njit(nogil=True, cache=True)
def decide_by_masks(
    codes: Any,
    node_column: Any,
    node_code: Any,
    node_mask: Any,
    tree_nodes: Any,
    tree_leaves: Any,
    action: Any,
    value: Any,
    offset: Any,
    out: Any,
) -> None:
    """Write the action with the highest sum of leaves in n rows, out (n,) int32.

    codes (d, n) uint16: how many thresholds of its column are below each number; node_column,
    node_code, node_mask: of the inner nodes, tree by tree: a row whose code is above node_code goes
    right, so that only the leaves in the mask remain; tree_nodes, tree_leaves (T + 1,): where the
    nodes and leaves of each tree begin; action, value: of the leaves, from left to right; offset
    (K,). Trees have at most 16 leaves.
    """
    # Lucchese et al. 2015 (QuickScorer): no step depends on the last, so rows lie along the vector
    # units. The exit leaf is the lowest bit that is left; a product with a de Bruijn sequence
    # numbers it.
    number = np.zeros(16, np.int64)
    for i in range(16):
        number[((0x09AF << i) & 0xFFFF) >> 12] = i
    actions, every = len(offset), np.uint16(0xFFFF)
    scores, top = np.empty((actions, TREE_TILE)), np.empty(TREE_TILE)
    left = np.empty(TREE_TILE, np.uint16)
    for start in range(0, codes.shape[1], TREE_TILE):
        rows = min(TREE_TILE, codes.shape[1] - start)
        for a in range(actions):
            scores[a] = offset[a]
        for t in range(len(tree_nodes) - 1):
            left[:] = every
            for j in range(tree_nodes[t], tree_nodes[t + 1]):
                mine = codes[node_column[j], start : start + rows]
                code, mask = node_code[j], node_mask[j]
                for r in range(rows):
                    left[r] &= mask if mine[r] > code else every
            base = tree_leaves[t]
            for r in range(rows):
                bits = np.int64(left[r])
                leaf = base + number[(((bits & -bits) * 0x09AF) & 0xFFFF) >> 12]
                scores[action[leaf], r] += value[leaf]
        _best_of(scores, top, out[start : start + rows])


@njit(nogil=True, cache=True)
def _best_of(scores: Any, top: Any, out: Any) -> None:
    """Write the action with the highest score, the lowest code of equal ones; scores (K, tile)."""
    top[:] = scores[0]
    out[:] = 0
    for a in range(1, len(scores)):
        row = scores[a]
        for r in range(len(out)):
            better = row[r] > top[r]
            top[r] = row[r] if better else top[r]
            out[r] = a if better else out[r]


@njit(nogil=True, cache=True)
def decide_by_trees(
    x: Any,
    column: Any,
    threshold: Any,
    child: Any,
    value: Any,
    roots: Any,
    offset: Any,
    out: Any,
) -> None:
    """Write the action with the highest sum of leaves in n rows, node by node; out (n,) int32.

    x (n, d); column, threshold, child, value (N,): the nodes, see `Trees`; roots (T,); offset (K,).
    """
    scores, top = np.empty((len(offset), TREE_TILE)), np.empty(TREE_TILE)
    for start in range(0, len(x), TREE_TILE):
        rows = min(TREE_TILE, len(x) - start)
        for a in range(len(offset)):
            scores[a] = offset[a]
        for t in range(len(roots)):
            for r in range(rows):
                i = roots[t]
                while column[i] >= 0:
                    i = child[i] + (not x[start + r, column[i]] <= threshold[i])
                scores[child[i], r] += value[i]
        _best_of(scores, top, out[start : start + rows])


@njit(nogil=True, cache=True)
def score_pairs(x: Any, starts: Any, codes: Any, coef: Any, intercept: Any, scores: Any) -> None:
    """Write <coef[a], x_t> + intercept[a] of each eligible action a of n rows, scores (m,).

    x (n, d); starts (n + 1,), codes (m,): the pairs, see `piwo.logs.eligible.Eligible`;
    coef (K, d), intercept (K,).
    """
    for row in range(len(starts) - 1):
        for pair in range(starts[row], starts[row + 1]):
            a, score = codes[pair], 0.0
            for f in range(x.shape[1]):
                score += coef[a, f] * x[row, f]
            scores[pair] = score + intercept[a]


@njit(nogil=True, cache=True)
def highest_of_pairs(starts: Any, codes: Any, scores: Any, chosen: Any, top: Any) -> None:
    """Write the action with the highest score of each row, chosen (n,), and its score, top (n,).

    Of equal scores the lowest code wins; a NaN wins over all numbers, so that it is seen.
    """
    for row in range(len(starts) - 1):
        best, code = -np.inf, np.int32(-1)
        for pair in range(starts[row], starts[row + 1]):
            s = scores[pair]
            if s > best or (s == best and (code < 0 or codes[pair] < code)):
                best, code = s, codes[pair]
            if s != s:
                best, code = s, codes[pair]
                break
        chosen[row], top[row] = code, best


@njit(nogil=True, cache=True)
def pairs_at(starts: Any, chances: Any, points: Any, places: Any) -> None:
    """Write the pair of each row at its point in [0, 1) of the running sum, places (n,)."""
    for row in range(len(starts) - 1):
        total = 0.0
        for pair in range(starts[row], starts[row + 1]):
            total += chances[pair]
        point, running = points[row] * total, 0.0
        for pair in range(starts[row], starts[row + 1]):
            running += chances[pair]
            # A pair of probability 0 is never above a point that the ones before it are not.
            if running > point:
                places[row] = pair
                break


@njit(nogil=True, cache=True)
def open_leaves(
    x: Any, column: Any, threshold: Any, mask: Any, tree_nodes: Any, leaves: Any
) -> None:
    """Write which leaves of each tree some columns leave open, leaves (n, T) uint16.

    x (n, c); column, threshold, mask: of the inner nodes on these columns, tree by tree, mask as of
    `decide_by_masks`; tree_nodes (T + 1,): where those of each tree begin.
    """
    for i in range(len(x)):
        for t in range(len(tree_nodes) - 1):
            left = np.uint16(0xFFFF)
            for j in range(tree_nodes[t], tree_nodes[t + 1]):
                if x[i, column[j]] > threshold[j]:
                    left &= mask[j]
            leaves[i, t] = left


@njit(nogil=True, cache=True)
def add_leaves(
    starts: Any, codes: Any, of_rows: Any, of_items: Any, tree_leaves: Any, value: Any, scores: Any
) -> None:
    """Add the leaves of each pair of a row and an item to scores (m,).

    starts (n + 1,), codes (m,): the pairs; of_rows (n, T), of_items (K, T): leaves that the columns
    of each leave open; tree_leaves (T + 1,), value: see `decide_by_masks`.
    """
    # The exit leaf is the lowest bit that both leave open, as in `decide_by_masks`.
    number = np.zeros(16, np.int64)
    for i in range(16):
        number[((0x09AF << i) & 0xFFFF) >> 12] = i
    for row in range(len(starts) - 1):
        mine = of_rows[row]
        for pair in range(starts[row], starts[row + 1]):
            its, total = of_items[codes[pair]], 0.0
            for t in range(len(mine)):
                bits = np.int64(mine[t] & its[t])
                total += value[tree_leaves[t] + number[(((bits & -bits) * 0x09AF) & 0xFFFF) >> 12]]
            scores[pair] += total
