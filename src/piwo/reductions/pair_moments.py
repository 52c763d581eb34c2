"""Sums of features of items over all pairs of a row and an eligible action."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.logs.features import Features
from piwo.logs.inline import encoded_pairs
from piwo.reductions.reduction import Reduction

__all__ = ["PairMoments", "PairMomentsState"]


@dataclass(frozen=True)
class PairMomentsState(State):
    """Sums over the pairs of a log that has features of each row.

    >>> PairMoments(Features.numeric(2), 3, np.zeros(2)).empty().sums.shape
    (3, 2)
    """

    pairs: Floats
    """(K,) how many pairs each action has."""
    sums: Floats
    """(K, f) sums of features by action, about the shift."""
    squares: Floats
    """(f,) sum of their squares."""


@dataclass(frozen=True, eq=False)
class PairMoments(Reduction[PairMomentsState]):
    """Reduction: moments of the features of pairs, to standardize them, and their means by action.

    Args:
        features: how features become numbers.
        actions: K.
        shift: (f,) subtracted before summing, about the mean.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0]],
    ...     action=["a"],
    ...     reward=[1],
    ...     propensity=[0.5],
    ...     eligible=[["a", "b"]],
    ...     items=[[{"price": 2.0}, {"price": 3.0}]],
    ... )
    >>> moments = PairMoments(Features.numeric(["price"]), 2, np.zeros(1))
    >>> found = piwo.reductions.reduce(log, moments)
    >>> found.pairs.tolist(), found.sums.tolist(), found.squares.tolist()
    ([1.0, 1.0], [[2.0], [3.0]], [13.0])
    """

    features: Features
    actions: int
    shift: Floats

    @property
    def context(self) -> bool:
        """True: features of items are read with the context."""
        return True

    def empty(self) -> PairMomentsState:
        """Return the state of no rows."""
        f = len(self.shift)
        return PairMomentsState(np.zeros(self.actions), np.zeros((self.actions, f)), np.zeros(f))

    def update(self, state: PairMomentsState, batch: Batch) -> PairMomentsState:
        """Return the sums with a batch added."""
        assert batch.eligible is not None
        z = encoded_pairs(batch.eligible, self.features) - self.shift
        codes = batch.eligible.codes
        sums = np.empty((self.actions, z.shape[1]))
        for j in range(z.shape[1]):
            sums[:, j] = np.bincount(codes, z[:, j], minlength=self.actions)
        pairs = np.bincount(codes, minlength=self.actions).astype(np.float64)
        return state.merge(PairMomentsState(pairs, sums, (z**2).sum(axis=0)))
