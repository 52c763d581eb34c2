"""Rows by the size of their weight: what the bound under a cap on rates needs of a log."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.bets import FIRST_CELL, LAST_CELL
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["RateCellState", "RateCells"]

_CELLS = LAST_CELL - FIRST_CELL + 1


def _no_cells() -> Floats:
    return np.zeros((_CELLS, 4))


@dataclass(frozen=True)
class RateCellState(State):
    """Sums over rows by the power of two of their weight.

    >>> RateCellState().cells.shape
    (80, 4)
    """

    cells: Floats = field(default_factory=_no_cells)
    """(80, 4) sums of 1 - R, w (1 - R), R and w R; of rows of a unit, each over their number."""


@dataclass(frozen=True)
class RateCells(PolicyReduction[RateCellState]):
    """Reduction: the sums of `RateCellState`, for rewards in [0, 1].

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> found = piwo.reductions.reduce(log, RateCells(piwo.policies.Uniform(log.actions)))
    >>> found.cells[32:34].tolist()  # weights 1, 1 and 2
    [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0]]
    """

    def empty(self) -> RateCellState:
        """Return the state of no rows."""
        return RateCellState()

    def update(self, state: RateCellState, batch: Batch) -> RateCellState:
        """Return the state with the rows of a batch added."""
        # the sums of w in the last cell are not used, so 2^LAST_CELL may stand for all of it
        w = np.minimum(self.weights(batch).w, 2.0**LAST_CELL)
        # w = m 2^e with 1/2 <= m < 1
        _, exponent = np.frexp(w)
        place = np.where(w > 0.0, np.clip(exponent - 1 - FIRST_CELL, 0, _CELLS - 1), 0)
        won = batch.sampled(batch.reward)
        lost = batch.sampled(1.0 - batch.reward)
        sums = [
            np.bincount(place, weights=column, minlength=_CELLS)
            for column in (lost, w * lost, won, w * won)
        ]
        return state.merge(RateCellState(np.stack(sums, axis=1).astype(np.float64)))
