"""Compiled loops of the oracles. Imported when first needed: Numba takes over a second.

Trees grow on binned columns: in each node the gradients g and the curvatures h of its rows are
summed by bin, and the bins of a child are those of its parent less those of its sibling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["grow_classes", "grow_rewards", "logit_of_pairs", "scale_chances"]

_LEAST_CURVATURE = 1e-3
_LEAST_CHANCE = 1e-30
_LARGEST_STEP = 4.0
"""Of G/H: where an action has hardly any chance, H is almost 0. Source: the bounds of LogitBoost,
Friedman, Hastie, Tibshirani 2000 (Annals of Statistics 28)."""


@njit(nogil=True, cache=True)
def _sum_bins(codes: Any, rows: Any, g: Any, h: Any, sums: Any) -> None:
    """Write sums (d, B, 3) of g, h and 1 by column and bin over some rows."""
    sums[:] = 0.0
    columns = codes.shape[1]
    for i in rows:
        gi, hi = g[i], h[i]
        for f in range(columns):
            one = sums[f, codes[i, f]]
            one[0] += gi
            one[1] += hi
            one[2] += 1.0


@njit(nogil=True, cache=True)
def _best_split(sums: Any, bins: Any, least: int, out: Any) -> Any:
    """Write the best split of a node to out: column, bin and left g, h, rows; return its gain.

    sums (d, B, 3): see `_sum_bins`; bins (d,): how many bins each column has.
    """
    total_g, total_h, total_n = 0.0, 0.0, 0.0
    for b in range(bins[0]):
        total_g += sums[0, b, 0]
        total_h += sums[0, b, 1]
        total_n += sums[0, b, 2]
    best = 0.0
    if total_n < 2 * least:
        return best
    # G^2 / H of a node is twice the loss that its own value removes
    whole = total_g * total_g / (total_h + 1e-15)
    for f in range(len(bins)):
        left_g, left_h, left_n = 0.0, 0.0, 0.0
        for b in range(bins[f] - 1):
            left_g += sums[f, b, 0]
            left_h += sums[f, b, 1]
            left_n += sums[f, b, 2]
            if left_n < least or left_h < _LEAST_CURVATURE:
                continue
            right_g, right_h = total_g - left_g, total_h - left_h
            if total_n - left_n < least or right_h < _LEAST_CURVATURE:
                break
            gain = left_g * left_g / left_h + right_g * right_g / right_h - whole
            if gain > best * (1.0 + 1e-9) + 1e-12:
                best = gain
                out[0], out[1] = f, b
                out[2], out[3], out[4] = left_g, left_h, left_n
    return best


@njit(nogil=True, cache=True)
def _partition(codes: Any, rows: Any, column: int, bin_: int, spare: Any) -> int:
    """Reorder rows, those of the left child first; return how many there are."""
    left = right = 0
    for i in rows:
        if codes[i, column] <= bin_:
            rows[left] = i
            left += 1
        else:
            spare[right] = i
            right += 1
    rows[left:] = spare[:right]
    return left


@njit(nogil=True, cache=True)
def _leaf(rate: float, g: float, h: float) -> float:
    """Return the value of a leaf, -rate G/H, with G/H between -4 and 4."""
    return -rate * min(max(g / (h + 1e-15), -_LARGEST_STEP), _LARGEST_STEP)


# one loop over the leaves: parts of it would pass a dozen arrays to each other
@njit(nogil=True, cache=True)
def _grow(  # noqa: C901
    codes: Any,
    bins: Any,
    rows: Any,
    spare: Any,
    g: Any,
    h: Any,
    leaves: int,
    least: int,
    rate: float,
    sums: Any,
    nodes: Any,
    ends: Any,
) -> int:
    """Grow one tree, the leaf with the largest gain first; return its number of nodes.

    codes (m, d); rows: numbers of the rows to grow from, reordered by leaf; g, h (m,); sums
    (leaves, d, B, 3): room; nodes (2 leaves, 4), written: column (-1: a leaf), bin, left child, the
    value of `_leaf`; ends (2 leaves, 2), written: the first row of each node and one past the last.
    """
    splits = np.zeros((2 * leaves, 5))
    gains, slots = np.zeros(2 * leaves), np.zeros(2 * leaves, np.int64)
    total_g = total_h = 0.0
    for i in rows:
        total_g += g[i]
        total_h += h[i]
    nodes[0] = -1.0
    nodes[0, 3] = _leaf(rate, total_g, total_h)
    ends[0, 0], ends[0, 1] = 0, len(rows)
    count, open_leaves = 1, 1
    if len(rows) >= 2 * least:
        _sum_bins(codes, rows, g, h, sums[0])
        gains[0] = _best_split(sums[0], bins, least, splits[0])
    while open_leaves < leaves:
        p = 0
        for i in range(count):
            if gains[i] > gains[p]:
                p = i
        if not gains[p] > 0.0:
            break
        gains[p] = 0.0
        column, bin_ = int(splits[p, 0]), int(splits[p, 1])
        start, stop = ends[p, 0], ends[p, 1]
        size = _partition(codes, rows[start:stop], column, bin_, spare)
        left, right = count, count + 1
        nodes[p, 0], nodes[p, 1], nodes[p, 2] = column, bin_, left
        ends[left, 0], ends[left, 1] = start, start + size
        ends[right, 0], ends[right, 1] = start + size, stop
        all_g = all_h = 0.0
        for i in rows[start:stop]:
            all_g += g[i]
            all_h += h[i]
        left_g, left_h = splits[p, 2], splits[p, 3]
        nodes[left], nodes[right] = -1.0, -1.0
        nodes[left, 3] = _leaf(rate, left_g, left_h)
        nodes[right, 3] = _leaf(rate, all_g - left_g, all_h - left_h)
        count += 2
        open_leaves += 1
        if open_leaves == leaves:
            break
        # the smaller child is summed, the other is what remains of the parent
        small, large = left, right
        if size > stop - start - size:
            small, large = right, left
        slots[small], slots[large] = open_leaves - 1, slots[p]
        if ends[large, 1] - ends[large, 0] < 2 * least:
            continue
        little, rest = sums[slots[small]], sums[slots[large]]
        _sum_bins(codes, rows[ends[small, 0] : ends[small, 1]], g, h, little)
        for f in range(len(bins)):
            for b in range(bins[f]):
                rest[f, b, 0] -= little[f, b, 0]
                rest[f, b, 1] -= little[f, b, 1]
                rest[f, b, 2] -= little[f, b, 2]
        gains[small] = _best_split(little, bins, least, splits[small])
        gains[large] = _best_split(rest, bins, least, splits[large])
    return count


@njit(nogil=True, cache=True)
def grow_classes(
    codes: Any,
    bins: Any,
    label: Any,
    weight: Any,
    chances: Any,
    classes: Any,
    leaves: int,
    least: int,
    rate: float,
    nodes: Any,
    counts: Any,
) -> None:
    """Grow one tree for each of some classes of a softmax, and move their chances by its leaves.

    codes (m, d) uint8; bins (d,); label (m,): the class of each row; weight (m,); chances (S, m)
    float32: of each class, moved in place and no longer summing to 1; classes: which; nodes (S, 2
    leaves, 4) and counts (S,), written: see `_grow`.
    """
    m = len(label)
    g, h = np.empty(m), np.empty(m)
    rows, spare = np.empty(m, np.int32), np.empty(m, np.int32)
    sums = np.empty((leaves, len(bins), bins.max(), 3))
    ends = np.zeros((2 * leaves, 2), np.int64)
    for k in classes:
        p = chances[k]
        for i in range(m):
            # d/ds of -log softmax: p - 1{label = k}; second derivative p (1 - p)
            g[i] = weight[i] * (p[i] - (1.0 if label[i] == k else 0.0))
            h[i] = weight[i] * p[i] * (1.0 - p[i])
            rows[i] = i
        tree = nodes[k]
        counts[k] = _grow(codes, bins, rows, spare, g, h, leaves, least, rate, sums, tree, ends)
        for j in range(counts[k]):
            if tree[j, 0] < 0:
                factor = np.exp(min(max(tree[j, 3], -60.0), 60.0))
                for i in rows[ends[j, 0] : ends[j, 1]]:
                    p[i] = min(max(p[i] * factor, _LEAST_CHANCE), 1e30)


@njit(nogil=True, cache=True)
def scale_chances(chances: Any, start: int, stop: int) -> None:
    """Divide the chances (S, m) of some rows by their sums."""
    total = np.zeros(stop - start)
    for k in range(len(chances)):
        row = chances[k, start:stop]
        for i in range(len(row)):
            total[i] += row[i]
    for k in range(len(chances)):
        row = chances[k, start:stop]
        for i in range(len(row)):
            row[i] /= total[i]


@njit(nogil=True, cache=True)
def grow_rewards(
    codes: Any,
    bins: Any,
    order: Any,
    first: Any,
    g: Any,
    h: Any,
    actions: Any,
    leaves: int,
    least: int,
    rate: float,
    nodes: Any,
    counts: Any,
) -> None:
    """Grow the next tree of a regression of the reward for each of some actions, on its rows.

    codes (n, d) uint8; bins (d,); order (n,): row numbers, by action, reordered within an action;
    first (K + 1,): where the rows of each action begin in it; h (n,): weights; g (n,): prediction
    less reward, times h, moved by the tree; actions: which; nodes (K, 2 leaves, 4) and counts (K,),
    written: see `_grow`.
    """
    spare = np.empty(len(g), np.int32)
    sums = np.empty((leaves, len(bins), bins.max(), 3))
    ends = np.zeros((2 * leaves, 2), np.int64)
    for a in actions:
        rows, tree = order[first[a] : first[a + 1]], nodes[a]
        counts[a] = _grow(codes, bins, rows, spare, g, h, leaves, least, rate, sums, tree, ends)
        for j in range(counts[a]):
            if tree[j, 0] < 0:
                for i in rows[ends[j, 0] : ends[j, 1]]:
                    g[i] += h[i] * tree[j, 3]


@njit(nogil=True, cache=True)
def logit_of_pairs(
    starts: Any, codes: Any, places: Any, y: Any, table: Any, gains: Any, scores: Any, slopes: Any
) -> float:
    """Write g (z_A - sum_a p_a z_a) of n rows, slopes (n, f), and return -sum g log p_A.

    p is the softmax of y'z_a over the pairs of a row: starts (n + 1,), codes (m,); places (n,) the
    logged ones. y (n, f); table (K, f) z; gains (n,); scores: space for the largest row.
    """
    total, width = 0.0, table.shape[1]
    for row in range(len(starts) - 1):
        start, stop = starts[row], starts[row + 1]
        top = -np.inf
        for pair in range(start, stop):
            score = 0.0
            for j in range(width):
                score += y[row, j] * table[codes[pair], j]
            scores[pair - start] = score
            top = max(top, score)
        taken = scores[places[row] - start] - top
        norm = 0.0
        for k in range(stop - start):
            scores[k] = np.exp(scores[k] - top)
            norm += scores[k]
        total -= gains[row] * (taken - np.log(norm))
        for j in range(width):
            slopes[row, j] = table[codes[places[row]], j]
        for k in range(stop - start):
            p = scores[k] / norm
            for j in range(width):
                slopes[row, j] -= p * table[codes[start + k], j]
        for j in range(width):
            slopes[row, j] *= gains[row]
    return total
