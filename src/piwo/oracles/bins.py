"""Context columns cut into bins, on which trees are grown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Floats
from piwo.policies.blocks import spread

__all__ = ["BINS", "Bins", "binned"]

BINS = 64
"""Most bins of a column."""
_SAMPLE = 100_000
_ROWS = 2**15


@dataclass(frozen=True)
class Bins:
    """Rows by bin: x is in bin b of a column if edge b - 1 < x <= edge b.

    >>> binned(np.array([[1.0], [2.0], [2.0]])).codes.tolist()
    [[0], [1], [1]]
    """

    codes: npt.NDArray[np.uint8]
    """(n, d)."""
    counts: npt.NDArray[np.int64]
    """(d,) the number of bins of each column."""
    edges: Floats
    """(d, most bins); edges after the last of a column are infinite."""


def binned(context: Floats, bins: int = BINS) -> Bins:
    """Return rows by bin, with edges between quantiles, or between all values if these are few.

    Quantiles are those of at most 100,000 rows, evenly spaced.

    Args:
        context: (n, d).
        bins: most bins of a column, at most 256.
    """
    n, d = context.shape
    sample = context[:: max(1, -(-n // _SAMPLE))]
    edges, counts = np.full((d, bins), np.inf), np.ones(d, np.int64)
    for f in range(d):
        values = np.unique(sample[:, f])
        if len(values) > bins:
            ranks = np.linspace(0, len(sample) - 1, bins + 1)[1:-1].astype(np.int64)
            # of equal quantiles one stays
            lower = np.unique(np.sort(sample[:, f])[ranks])
            upper = values[np.minimum(np.searchsorted(values, lower, "right"), len(values) - 1)]
        else:
            lower, upper = values[:-1], values[1:]
        # halves first: the sum of two large numbers could overflow
        middle = 0.5 * lower + 0.5 * upper
        # rounding may not move an edge to the next value
        middle = np.unique(np.where(middle < upper, middle, lower))
        edges[f, : len(middle)] = middle
        counts[f] = len(middle) + 1
    codes = np.empty((n, d), np.uint8)

    def place(rows: slice) -> None:
        for f in range(d):
            codes[rows, f] = np.searchsorted(edges[f, : counts[f] - 1], context[rows, f], "left")

    spread(n, _ROWS, place)
    return Bins(codes, counts, edges)
