"""Over time: rows, rewards, weights and actions by period, to see drift."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["OverPeriods", "PeriodState"]


def _nothing() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True)
class PeriodState(State):
    """Sums over the rows of each of P periods."""

    rows: Floats = field(default_factory=_nothing)
    """(P,) rows."""
    reward: Floats = field(default_factory=_nothing)
    """(P,) sum_t R_t, on the unit scale."""
    weight: Floats = field(default_factory=_nothing)
    """(P,) sum_t w_t."""
    taken: Floats = field(default_factory=_nothing)
    """(P, K) sum_t 1{A_t = a}."""


@dataclass(frozen=True)
class OverPeriods(PolicyReduction[PeriodState]):
    """Reduction: how many rows, what they earned, their weights and their actions, by period.

    Args:
        policy: over the log's action list.
        actions: K.
        periods: P; batches say which one a row is in, as `piwo.logs.periods.Periods` numbers them.

    >>> from piwo.policies import Uniform
    >>> both = np.ones(2, np.int32)
    >>> rows = Batch(0, np.zeros(2, np.int32), np.ones(2), np.ones(2), segments=both)
    >>> sums = OverPeriods(Uniform(["a", "b"]), 2, 3)
    >>> sums.update(sums.empty(), rows).weight.tolist()
    [0.0, 1.0, 0.0]
    """

    actions: int
    periods: int

    @property
    def labels(self) -> bool:
        """True: actions are counted."""
        return True

    def empty(self) -> PeriodState:
        """Return the sums of no rows."""
        one = np.zeros(self.periods)
        return PeriodState(one, one, one, np.zeros((self.periods, self.actions)))

    def update(self, state: PeriodState, batch: Batch) -> PeriodState:
        """Return the sums with a batch added."""
        assert batch.segments is not None, "the log is not split into periods"
        period, ones = batch.segments, np.ones(len(batch))
        pair = period.astype(np.int64) * self.actions + batch.action
        taken = np.bincount(pair, minlength=self.periods * self.actions).astype(np.float64)

        def summed(values: Floats) -> Floats:
            return np.bincount(period, values, minlength=self.periods).astype(np.float64)

        return state.merge(
            PeriodState(
                summed(ones),
                summed(batch.reward),
                summed(self.weights(batch).w),
                taken.reshape(self.periods, self.actions),
            )
        )
