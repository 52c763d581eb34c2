"""Sums of the context for a regression of each action over the rows in which it is eligible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.large_contexts import check_products
from piwo.reductions.reduction import Reduction

__all__ = ["EligibleGram", "EligibleGramState"]


@dataclass(frozen=True)
class EligibleGramState(State):
    """Sums by action over the rows in which it is eligible, with x the context minus a shift.

    >>> EligibleGram(3, np.zeros(2)).empty().xx.shape
    (3, 3)
    """

    rows: Floats
    """(K,) how many rows."""
    x: Floats
    """(K, d) sum x."""
    xx: Floats
    """(K, d (d + 1) / 2) the upper half of sum x x', see `piwo.reductions.joint_gram.symmetric`."""


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
    [[10.0], [9.0]]
    """

    actions: int
    shift: Floats

    def __post_init__(self) -> None:
        check_products(self.actions, len(self.shift), self._products)

    @property
    def _products(self) -> int:
        """The number of entries in the upper half of x x'."""
        d = len(self.shift)
        return d * (d + 1) // 2

    @property
    def context(self) -> bool:
        """True: it is what is summed."""
        return True

    def empty(self) -> EligibleGramState:
        """Return the state of no rows."""
        d, k = len(self.shift), self.actions
        return EligibleGramState(np.zeros(k), np.zeros((k, d)), np.zeros((k, self._products)))

    def update(self, state: EligibleGramState, batch: Batch) -> EligibleGramState:
        """Return the sums with a batch added."""
        from piwo.reductions.kernels import add_pair_products

        assert batch.context is not None
        x = np.ascontiguousarray(batch.context - self.shift)
        # s, the sampling weights
        share = batch.sampled(np.ones(len(batch)))
        added = self.empty()
        some = batch.eligible
        if some is not None:
            starts, codes = some.starts, some.codes
            add_pair_products(starts, codes, x, share, added.rows, added.x, added.xx)
        else:
            # Every row has the same actions, which have the same sums.
            weighted = share[:, None] * x
            added.rows[:] = share.sum()
            added.x[:] = weighted.sum(axis=0)
            added.xx[:] = (weighted.T @ x)[np.triu_indices(len(self.shift))]
        # In place, as each of the three may be large.
        added.rows[:] += state.rows
        added.x[:] += state.x
        added.xx[:] += state.xx
        return added
