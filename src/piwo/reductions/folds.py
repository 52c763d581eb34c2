"""Folds: one state for each, so that every training set of a cross-validation is a merge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Batch
from piwo.reductions.reduction import Reduction

__all__ = ["Folds"]

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Folds(Reduction[tuple[S, ...]], Generic[S]):
    """Reduction: one state of another reduction for each fold of the rows, all in one pass.

    Args:
        each: the reduction of every fold.
        fold: (n,) fold number of every row of the log, by row number; 0..F-1.
        count: F.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b", "a"], reward=[0, 1, 1], propensity=[0.5] * 3)
    >>> folds = Folds(piwo.reductions.Digest(), np.array([0, 1, 0]), 2)
    >>> states = piwo.reductions.reduce(log, folds)
    >>> [state.rows for state in states], folds.without(states, 0).rows
    ([2, 1], 1)
    """

    each: Reduction[S]
    fold: npt.NDArray[np.integer[Any]]
    count: int

    @property
    def context(self) -> bool:
        """Whether the reduction of a fold needs the context."""
        return self.each.context

    @property
    def propensities(self) -> bool:
        """Whether the reduction of a fold needs full propensity vectors."""
        return self.each.propensities

    @property
    def labels(self) -> bool:
        """Whether the reduction of a fold needs action codes."""
        return self.each.labels

    def empty(self) -> tuple[S, ...]:
        """Return the states of no rows."""
        return tuple(self.each.empty() for _ in range(self.count))

    def update(self, state: tuple[S, ...], batch: Batch) -> tuple[S, ...]:
        """Return the states with the rows of a batch added to those of their folds."""
        here = self.fold[batch.row_numbers]
        states = list(state)
        for k in np.flatnonzero(np.bincount(here, minlength=self.count)):
            rows = np.flatnonzero(here == k)
            first, stop = int(rows[0]), int(rows[-1]) + 1
            # A slice needs no copy, if the rows of a fold are contiguous.
            keep = slice(first, stop) if stop - first == len(rows) else rows
            states[k] = self.each.update(states[k], batch.take(keep))
        return tuple(states)

    def merge(self, one: tuple[S, ...], other: tuple[S, ...]) -> tuple[S, ...]:
        """Return the states of both parts together, fold by fold."""
        return tuple(self.each.merge(a, b) for a, b in zip(one, other, strict=True))

    def without(self, states: tuple[S, ...], left_out: int) -> S:
        """Return the state of all folds but one, the training set of that fold."""
        kept = (state for k, state in enumerate(states) if k != left_out)
        return reduce(self.each.merge, kept, self.each.empty())
