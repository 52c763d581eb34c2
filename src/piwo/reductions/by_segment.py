"""Segments: one state for each, of the rows that are in it, all in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Batch
from piwo.reductions.reduction import Joint, Reduction

__all__ = ["BySegment"]


@dataclass(frozen=True)
class BySegment(Joint):
    """Reduction: another one of the rows of each segment; what each would be on its rows alone.

    Args:
        parts: the reduction of each segment, in the order of `piwo.logs.segments.Segments.labels`.

    >>> from piwo.reductions import Digest
    >>> codes = np.array([1, 0, 1], np.int32)
    >>> rows = Batch(0, np.zeros(3, np.int32), np.ones(3), np.ones(3), segments=codes)
    >>> each = BySegment((Digest(), Digest()))
    >>> [state.rows for state in each.update(each.empty(), rows)]
    [1, 2]
    """

    parts: tuple[Reduction[Any], ...]

    def update(self, state: tuple[Any, ...], batch: Batch) -> tuple[Any, ...]:
        """Return the states with the rows of a batch added to those of their segments."""
        assert batch.segments is not None, "the log is not split into segments"
        states = list(state)
        for k in np.flatnonzero(np.bincount(batch.segments, minlength=len(self.parts))):
            here = _rows(batch, np.flatnonzero(batch.segments == k))
            states[k] = self.parts[k].update(states[k], here)
        return tuple(states)


def _rows(batch: Batch, places: npt.NDArray[np.intp]) -> Batch:
    """Return some rows of a batch; of units, the rows that are in the segment."""
    some = batch.take(places)
    if batch.unit_starts is None:
        return some
    assert some.keys is not None
    return some.of_units(some.keys)
