"""Sums of the context for a regression of each action over the rows in which it is eligible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.reduction import Reduction

__all__ = ["EligibleGram", "EligibleGramState"]


@dataclass(frozen=True)
class EligibleGramState(State):
    """Sums by action over the rows in which it is eligible, with x the context minus a shift.

    >>> EligibleGram(3, np.zeros(2)).empty().xx.shape
    (3, 2, 2)
    """

    rows: Floats
    """(K,) how many rows."""
    x: Floats
    """(K, d) sum x."""
    xx: Floats
    """(K, d, d) sum x x'."""


@dataclass(frozen=True, eq=False)
class EligibleGram(Reduction[EligibleGramState]):
    """Reduction: X'X of each action, over the rows in which it is eligible.

    Without lists of eligible actions every action is eligible in every row.

    Args:
        actions: K.
        shift: (d,) subtracted from the context, about its mean, so that little is lost to
            cancellation.

    >>> import piwo
    >>> log = piwo.read(
    ...     {
    ...         "x": [1.0, 3.0],
    ...         "a": ["u", "v"],
    ...         "r": [1, 0],
    ...         "p": [1.0, 0.5],
    ...         "e": [["u"], ["u", "v"]],
    ...     },
    ...     action="a",
    ...     reward="r",
    ...     propensity="p",
    ...     context="x",
    ...     eligible="e",
    ... )
    >>> piwo.reductions.reduce(log, EligibleGram(2, np.zeros(1))).xx.tolist()
    [[[10.0]], [[9.0]]]
    """

    actions: int
    shift: Floats

    @property
    def context(self) -> bool:
        """True: it is what is summed."""
        return True

    def empty(self) -> EligibleGramState:
        """Return the state of no rows."""
        d, k = len(self.shift), self.actions
        return EligibleGramState(np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d)))

    def update(self, state: EligibleGramState, batch: Batch) -> EligibleGramState:
        """Return the sums with a batch added."""
        assert batch.context is not None
        added = self.empty()
        x = batch.context - self.shift
        # s x, s the sampling weights
        weighted = batch.sampled(x)
        counted = batch.sampled(np.ones(len(batch)))
        for code, rows in self._rows(batch):
            added.rows[code] = counted[rows].sum()
            added.x[code] = weighted[rows].sum(axis=0)
            added.xx[code] = weighted[rows].T @ x[rows]
        return state.merge(added)

    def _rows(self, batch: Batch) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Yield each action and the rows in which it is eligible."""
        some = batch.eligible
        if some is None:
            for code in range(self.actions):
                yield code, np.arange(len(batch))
            return
        # the pairs of an action become neighbors
        order = np.argsort(some.codes, kind="stable")
        codes, counts = np.unique(some.codes, return_counts=True)
        for code, stop, count in zip(codes.tolist(), np.cumsum(counts), counts, strict=True):
            yield code, some.rows[order[stop - count : stop]]
