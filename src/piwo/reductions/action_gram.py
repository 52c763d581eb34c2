"""Gram statistics of each action: the sums for its regression of the reward on the context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.large_contexts import check_products, check_squares
from piwo.reductions.reduction import Reduction

__all__ = ["ActionGram", "ActionGramState"]


@dataclass(frozen=True)
class ActionGramState(State):
    """Sums over the rows of each action, with z = (x, 1) and x the context minus a fixed shift."""

    zz: Floats
    """(K, d + 1, d + 1) sum z z'; the last entry is the number of rows."""
    zr: Floats
    """(K, d + 1) sum z R."""


@dataclass(frozen=True, eq=False)
class ActionGram(Reduction[ActionGramState]):
    """Reduction: Z'Z and Z'R of each action's rows, in one pass. Propensities are not used.

    Args:
        actions: K.
        shift: (d,) subtracted from the context before summing, about its mean, so that little is
            lost to cancellation.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[1.0], [3.0]], action=[0, 1], reward=[1, 1], propensity=[0.5, 0.5]
    ... )
    >>> piwo.reductions.reduce(log, ActionGram(2, np.array([2.0]))).zr.tolist()
    [[-1.0, 1.0], [1.0, 1.0]]
    """

    actions: int
    shift: Floats

    def __post_init__(self) -> None:
        d = len(self.shift)
        check_products(self.actions, d, (d + 1) * (d + 1))

    @property
    def context(self) -> bool:
        """True: the reward is regressed on the context."""
        return True

    def empty(self) -> ActionGramState:
        """Return the state of no rows."""
        width = len(self.shift) + 1
        return ActionGramState(
            np.zeros((self.actions, width, width)), np.zeros((self.actions, width))
        )

    def update(self, state: ActionGramState, batch: Batch) -> ActionGramState:
        """Return the sums with a batch added."""
        assert batch.context is not None
        check_squares(batch.context)
        added = self.empty()
        # Rows of one action become neighbors, so that each product reads one slice of `order`.
        order = np.argsort(batch.action, kind="stable")
        codes, counts = np.unique(batch.action, return_counts=True)
        for code, stop, count in zip(codes, np.cumsum(counts), counts, strict=True):
            rows = order[stop - count : stop]
            # z = (x - shift, 1); with sampling weights s: sum s z z' and sum s z R
            z = np.column_stack([batch.context[rows] - self.shift, np.ones(len(rows))])
            weighted = z if batch.weight is None else z * batch.weight[rows, None]
            added.zz[code] = weighted.T @ z
            added.zr[code] = weighted.T @ batch.reward[rows]
        return state.merge(added)
