"""Trees over contexts that say what the reward of a slot depends on, fitted to logged slates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Floats
from piwo.oracles.bins import Bins
from piwo.slates.validation import USER_BEHAVIORS

__all__ = ["BehaviorTree", "errors_of", "fit_tree", "sums_of"]

_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2))
"""The behaviors whose products of credits are summed."""


@dataclass(frozen=True)
class BehaviorTree:
    """A node of a tree: a leaf with a behavior, or a column whose values are parted at an edge.

    >>> tree = BehaviorTree(0, 1.0, 0, 0.5, BehaviorTree(1, 0.0), BehaviorTree(2, 0.0))
    >>> tree.places(np.array([[0.0], [1.0]])).tolist(), tree.rules(["young"])
    ([1, 2], ['young <= 0.5: cascade', 'young > 0.5: independent'])
    """

    behavior: int
    """Place in `piwo.slates.USER_BEHAVIORS` that is best for all its rows."""
    error: float
    """Estimated mean squared error, its part of the whole."""
    column: int = -1
    """Column of the context; -1: a leaf."""
    edge: float = 0.0
    below: BehaviorTree | None = None
    """Rows with a value up to the edge."""
    above: BehaviorTree | None = None

    def places(self, matrix: Floats) -> npt.NDArray[np.int32]:
        """Return the behavior of each context, (n,) places in `USER_BEHAVIORS`.

        Args:
            matrix: (n, d) encoded contexts.
        """
        if self.below is None or self.above is None:
            return np.full(len(matrix), self.behavior, np.int32)
        low = matrix[:, self.column] <= self.edge
        return np.where(low, self.below.places(matrix), self.above.places(matrix))

    def rules(self, names: Sequence[str], given: str = "") -> list[str]:
        """Return a line for each leaf.

        Args:
            names: of the d columns.
            given: the conditions above.
        """
        if self.below is None or self.above is None:
            return [f"{given or 'all'}: {USER_BEHAVIORS[self.behavior]}"]
        before = f"{given}, " if given else ""
        name = f"{before}{names[self.column]}"
        low = self.below.rules(names, f"{name} <= {self.edge:.6g}")
        return low + self.above.rules(names, f"{name} > {self.edge:.6g}")


def sums_of(earned: Floats) -> Floats:
    """Return what `errors_of` needs of each row, (n, 9): 1, the credits, and products of two.

    Args:
        earned: (n, 3) Y under each of `USER_BEHAVIORS`.
    """
    products = [earned[:, i] * earned[:, j] for i, j in _PAIRS]
    return np.column_stack([np.ones(len(earned)), earned, *products])


def errors_of(sums: Floats, total: float) -> Floats:
    """Return the estimated mean squared error of each behavior in groups of rows, (g, 3).

    Formula: of n of N rows, n/N (b^2 + s^2/N), s^2 the variance of the credits. The bias b of
    "standard" is 0. That of "cascade" is the root of max(0, D^2 - S^2/n), D the mean and S^2 the
    variance of the difference of its credits from those of "standard"; "independent" adds to it
    the same of its difference from "cascade". The sum over groups is a bound on the error of the
    estimate: the square of a mean bias is at most the mean of the squares.

    Args:
        sums: (g, 9) sums over rows of `sums_of`.
        total: N.

    >>> errors_of(sums_of(np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 1.0]])).sum(axis=0)[None], 2.0)
    array([[0.5, 0. , 0. ]])
    """
    n = sums[:, :1]
    mean = sums[:, 1:4] / n
    moment = {pair: sums[:, 4 + i] / n[:, 0] for i, pair in enumerate(_PAIRS)}
    variance = np.column_stack([moment[i, i] - mean[:, i] ** 2 for i in range(3)])
    variance = np.maximum(0.0, variance)

    def bias(i: int, j: int) -> Floats:
        covariance = moment[i, j] - mean[:, i] * mean[:, j]
        spread = variance[:, i] + variance[:, j] - 2.0 * covariance
        squared = (mean[:, i] - mean[:, j]) ** 2 - np.maximum(0.0, spread) / n[:, 0]
        return np.sqrt(np.maximum(0.0, squared))

    cascade = bias(0, 1)
    biases = np.column_stack([np.zeros(len(sums)), cascade, cascade + bias(1, 2)])
    found: Floats = n / total * (biases**2 + variance / total)
    return found


def fit_tree(bins: Bins, sums: Floats, depth: int, least: int) -> BehaviorTree:
    """Return the tree whose splits lower the sum of `errors_of` over its leaves.

    Greedy: each node takes the best split of one column, and keeps it if its leaves are better than
    one leaf.

    Args:
        bins: the context of n rows.
        sums: (n, 9) of `sums_of`.
        depth: most splits above a leaf.
        least: fewest rows of a leaf.
    """
    return _node(bins, sums, np.arange(len(sums)), float(len(sums)), depth, least)


def _node(
    bins: Bins, sums: Floats, rows: npt.NDArray[np.intp], total: float, depth: int, least: int
) -> BehaviorTree:
    whole = sums[rows].sum(axis=0)
    errors = errors_of(whole[None], total)[0]
    leaf = BehaviorTree(int(errors.argmin()), float(errors.min()))
    best: tuple[float, int, int] | None = None
    if depth > 0 and len(rows) >= 2 * least:
        best = _best_split(bins, sums[rows], rows, whole, total, least)
    if best is None:
        return leaf
    _, column, code = best
    low = bins.codes[rows, column] <= code
    below = _node(bins, sums, rows[low], total, depth - 1, least)
    above = _node(bins, sums, rows[~low], total, depth - 1, least)
    error = below.error + above.error
    if error >= leaf.error:
        return leaf
    edge = float(bins.edges[column, code])
    return BehaviorTree(leaf.behavior, error, column, edge, below, above)


def _best_split(
    bins: Bins,
    own: Floats,
    rows: npt.NDArray[np.intp],
    whole: Floats,
    total: float,
    least: int,
) -> tuple[float, int, int] | None:
    """Return error, column and bin of the best split; None if no split leaves enough rows."""
    best: tuple[float, int, int] | None = None
    for column, count in enumerate(bins.counts.tolist()):
        codes = bins.codes[rows, column]
        each = [np.bincount(codes, one, minlength=count) for one in own.T]
        below = np.stack(each, axis=1).cumsum(axis=0)[:-1]
        above = whole - below
        fits = np.flatnonzero((below[:, 0] >= least) & (above[:, 0] >= least))
        if not len(fits):
            continue
        error = errors_of(below[fits], total).min(axis=1)
        error = error + errors_of(above[fits], total).min(axis=1)
        place = int(error.argmin())
        if best is None or error[place] < best[0]:
            best = float(error[place]), column, int(fits[place])
    return best
