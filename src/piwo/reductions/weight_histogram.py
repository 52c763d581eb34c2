"""The weight histogram: the distribution of importance weights, and the heaviest rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["HistogramState", "WeightHistogram"]

BINS = 2100
"""Bin 0 holds weight 0; bin i holds weights in [2^(i-1051), 2^(i-1050)), which covers float64. The
last bin holds infinity too."""
_OFFSET = 1050
TOP = 10
"""Heaviest rows that are kept."""


@dataclass(frozen=True)
class TopRows(State):
    """The heaviest rows: (weight, row number, action code, propensity), heaviest first."""

    rows: tuple[tuple[float, int, int, float], ...] = ()

    def merge(self, other: TopRows) -> TopRows:
        """Return the heaviest of both; of equal weights the smaller row number."""
        return TopRows(tuple(sorted(self.rows + other.rows, key=lambda x: (-x[0], x[1]))[:TOP]))


@dataclass(frozen=True)
class HistogramState(State):
    """Counts and sums of weights by power of two, and the heaviest rows.

    >>> HistogramState().edges().tolist()
    []
    """

    count: Floats = field(default_factory=lambda: np.zeros(BINS))
    weight: Floats = field(default_factory=lambda: np.zeros(BINS))
    top: TopRows = TopRows()

    def edges(self) -> npt.NDArray[np.intp]:
        """Return the positions of the nonempty bins."""
        return np.flatnonzero(self.count)


@dataclass(frozen=True)
class WeightHistogram(PolicyReduction[HistogramState]):
    """Reduction: the histogram of w = pi/mu by powers of two, and the heaviest rows.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> piwo.reductions.reduce(log, WeightHistogram(piwo.policies.Uniform(log.actions))).top.rows[0]
    (2.0, 2, 0, 0.25)
    """

    @property
    def labels(self) -> bool:
        """True: the heaviest rows are reported with their action."""
        return True

    def empty(self) -> HistogramState:
        """Return the state of no rows."""
        return HistogramState()

    def update(self, state: HistogramState, batch: Batch) -> HistogramState:
        """Return the state with the rows of a batch added."""
        w = self.weights(batch).w
        means = batch.by_unit(w)
        bins = bin_of(means)
        count = np.bincount(bins, minlength=BINS).astype(np.float64)
        weight = np.bincount(bins, means, minlength=BINS).astype(np.float64, copy=False)
        if batch.unit_starts is not None:
            # What a row adds to the mean of its unit.
            w = batch.sampled(w)
        heaviest = np.arange(len(w))
        if len(w) > TOP:
            heaviest = np.argpartition(w, -TOP)[-TOP:]
        least = w[heaviest].min() if len(heaviest) else 0.0
        # Of rows that tie for the last place the first ones, so that batches do not matter.
        near = np.flatnonzero(w >= least)[: 4 * TOP]
        chosen = np.union1d(near, heaviest[w[heaviest] > least])
        rows = batch.row_numbers
        top = []
        for i in chosen:
            action, propensity = int(batch.action[i]), float(batch.propensity[i])
            top.append((float(w[i]), int(rows[i]), action, propensity))
        return state.merge(HistogramState(count, weight, TopRows().merge(TopRows(tuple(top)))))


def bin_of(w: Floats) -> npt.NDArray[Any]:
    """Return the bin of every weight.

    >>> (bin_of(np.array([0.0, 1.0, 1.5, 2.0])) - 1051).tolist()
    [-1051, 0, 0, 1]
    """
    # w = m 2^e with 1/2 <= m < 1
    _, exponent = np.frexp(np.minimum(w, np.finfo(np.float64).max))
    return np.where(w > 0, np.clip(exponent + _OFFSET, 1, BINS - 1), 0)
