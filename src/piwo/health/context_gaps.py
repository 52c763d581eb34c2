"""How many rows lack a usable value, one context column at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.reduction import Reduction

__all__ = ["ContextGaps", "GapState"]


@dataclass(frozen=True)
class GapState(State):
    """(3 d,) counts of rows: missing, NaN and infinite, for each of d context columns."""

    count: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class ContextGaps(Reduction[GapState]):
    """Reduction: sum_t X_t, for a context encoded as `piwo.logs.features.Features.gaps` says.

    Args:
        width: 3 d, columns of the encoded context.
    """

    width: int

    @property
    def context(self) -> bool:
        """Tell that the context is needed."""
        return True

    @property
    def labels(self) -> bool:
        """Tell that action codes are not."""
        return False

    def empty(self) -> GapState:
        """Return the state of no rows."""
        return GapState(np.zeros(self.width))

    def update(self, state: GapState, batch: Batch) -> GapState:
        """Return the counts with a batch added."""
        assert batch.context is not None
        return state.merge(GapState(batch.context.sum(axis=0)))
