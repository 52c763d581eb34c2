"""The weight histogram: how the importance weights are spread, and which rows carry them."""

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
"""Bin 0 holds weight 0; bin i holds weights in [2^(i-1051), 2^(i-1050)): all of float64, the last
bin beyond."""
_OFFSET = 1050
TOP = 10


@dataclass(frozen=True)
class TopRows(State):
    """The heaviest rows: (weight, row number, action code, propensity), heaviest first."""

    rows: tuple[tuple[float, int, int, float], ...] = ()

    def merge(self, other: TopRows) -> TopRows:
        """Return the heaviest of both; ties go to the smaller row number."""
        return TopRows(tuple(sorted(self.rows + other.rows, key=lambda x: (-x[0], x[1]))[:TOP]))


@dataclass(frozen=True)
class HistogramState(State):
    """Counts and weight by power of two, and the heaviest rows.

    >>> HistogramState().edges().tolist()
    []
    """

    count: Floats = field(default_factory=lambda: np.zeros(BINS))
    weight: Floats = field(default_factory=lambda: np.zeros(BINS))
    top: TopRows = TopRows()

    def edges(self) -> npt.NDArray[np.intp]:
        """Return the positions of the bins that are not empty."""
        return np.flatnonzero(self.count)


@dataclass(frozen=True)
class WeightHistogram(PolicyReduction[HistogramState]):
    """Reduction: the histogram of w = pi/mu for one policy, by powers of two, with the heaviest rows.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> piwo.reductions.reduce(log, WeightHistogram(piwo.policies.Uniform(log.actions))).top.rows[0]
    (2.0, 2, 0, 0.25)
    """

    @property
    def labels(self) -> bool:
        """Tell that action codes are needed, whatever the policy asks for."""
        return True

    def empty(self) -> HistogramState:
        """Return the state of no rows."""
        return HistogramState()

    def update(self, state: HistogramState, batch: Batch) -> HistogramState:
        """Return the state with the rows of a batch added."""
        w = self.weights(batch).w
        bins = bin_of(w)
        count = np.bincount(bins, minlength=BINS).astype(np.float64)
        weight = np.bincount(bins, w, minlength=BINS).astype(np.float64, copy=False)
        heaviest = np.argpartition(w, -TOP)[-TOP:] if len(w) > TOP else np.arange(len(w))
        least = w[heaviest].min() if len(heaviest) else 0.0
        near = np.flatnonzero(w >= least)[
            : 4 * TOP
        ]  # ties at the edge: the first rows, whatever the batches
        chosen = np.union1d(near, heaviest[w[heaviest] > least])
        rows = batch.row_numbers
        top = tuple(
            (float(w[i]), int(rows[i]), int(batch.action[i]), float(batch.propensity[i]))
            for i in chosen
        )
        return state.merge(HistogramState(count, weight, TopRows().merge(TopRows(top))))


def bin_of(w: Floats) -> npt.NDArray[Any]:
    """Return the bin of every weight.

    >>> (bin_of(np.array([0.0, 1.0, 1.5, 2.0])) - 1051).tolist()
    [-1051, 0, 0, 1]
    """
    _, exponent = np.frexp(np.minimum(w, np.finfo(np.float64).max))
    return np.where(w > 0, np.clip(exponent + _OFFSET, 1, BINS - 1), 0)
