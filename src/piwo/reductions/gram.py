"""Gram statistics: all that a ridge regression of gains on the context needs, for many scores at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.reductions.state import State
from piwo.scores.pseudo_loss import inverse_propensities
from piwo.scores.score import Score

__all__ = ["Gram", "GramState"]


@dataclass(frozen=True)
class GramState(State):
    """Sums over rows, with x the context minus a fixed shift and g the sparse gain of the logged action."""

    rows: float
    x: Floats
    """(d,) sum x."""
    xx: Floats
    """(d, d) sum x x'."""
    g: Floats
    """(K, S) sum g by action and score."""
    gx: Floats
    """(K, S, d) sum g x by action and score."""
    inverse: Floats
    """(K,) sum 1/mu(a|x), where a score has a dense penalty; else empty."""
    inverse_x: Floats
    """(K, d) sum x/mu(a|x), likewise."""


@dataclass(frozen=True, eq=False)
class Gram:
    """Reduction: X'X and X'G for S scores in one pass, never forming an n x K table.

    Sparse gains touch one action's column a row, and rows with reward 0 only enter X'X. The dense penalty of
    pseudo-loss scores, -beta / mu(a|x), enters through X'(1/mu), once for all betas.

    Args:
        scores: S linear scores.
        actions: K.
        shift: (d,) subtracted from the context before summing, about its mean, so that centring loses no digits.
    """

    scores: tuple[Score, ...]
    actions: int
    shift: Floats
    context: bool = True

    @property
    def propensities(self) -> bool:
        """Tell whether any score needs full propensity vectors."""
        return any(score.penalty > 0 for score in self.scores)

    def empty(self) -> GramState:
        """Return the state of no rows."""
        d, k, s = len(self.shift), self.actions, len(self.scores)
        dense = k if self.propensities else 0
        shapes = [(d,), (d, d), (k, s), (k, s, d), (dense,), (dense, d)]
        return GramState(0.0, *(np.zeros(shape) for shape in shapes))

    def update(self, state: GramState, batch: Batch) -> GramState:
        """Return the sums with a batch added."""
        from piwo.reductions.kernels import add_gains

        assert batch.context is not None
        x = batch.context - self.shift
        rewarded = np.flatnonzero(batch.reward > 0)
        part = batch.take(rewarded)
        gains = np.stack([score.gains(part) for score in self.scores], axis=1)
        g, gx = np.zeros_like(state.g), np.zeros_like(state.gx)
        add_gains(x[rewarded], part.action, gains, g, gx)
        inverse, inverse_x = np.zeros_like(state.inverse), np.zeros_like(state.inverse_x)
        if self.propensities:
            dense = inverse_propensities(batch)
            inverse, inverse_x = dense.sum(axis=0), dense.T @ x
        return state.merge(GramState(float(len(batch)), x.sum(axis=0), x.T @ x, g, gx, inverse, inverse_x))

    def merge(self, one: GramState, other: GramState) -> GramState:
        """Return the sums of both parts together."""
        return one.merge(other)
