"""The probability that a policy gives to a set of actions, averaged over a log."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["ActionMass", "MassState"]

_MANY = 64
"""Actions above which full vectors are cheaper than one probability at a time."""
_NUMBERS = 4_000_000
"""Entries of the largest table of rows x actions."""


@dataclass(frozen=True)
class MassState(State):
    """Rows, and the sum of pi(a | X) over them and over the given actions."""

    rows: float = 0.0
    mass: float = 0.0

    @property
    def mean(self) -> float:
        """The mean over the rows; 0 without rows."""
        # a sum of rounded probabilities may exceed 1
        return min(1.0, self.mass / (self.rows or 1.0))


@dataclass(frozen=True)
class ActionMass(PolicyReduction[MassState]):
    """Reduction: sum_t sum_{a in codes} pi(a | X_t).

    Args:
        policy: over the log's action list.
        codes: the actions a.
    """

    codes: tuple[int, ...]

    @property
    def labels(self) -> bool:
        """True: rows are evaluated at other action codes."""
        return True

    def empty(self) -> MassState:
        """Return the state of no rows."""
        return MassState()

    def update(self, state: MassState, batch: Batch) -> MassState:
        """Return the sums with a batch added."""
        mass = 0.0
        if len(self.codes) <= _MANY:
            # sum_a sum_t pi(a | X_t), action by action
            for code in self.codes:
                mass += float(self.policy.logged(_taking(batch, code)).sum())
        else:
            # the same from full vectors, block by block
            step = max(1, _NUMBERS // len(self.policy.actions))
            for start in range(0, len(batch), step):
                part = batch.take(np.arange(start, min(start + step, len(batch))))
                mass += float(self.policy.full(part)[:, list(self.codes)].sum())
        return state.merge(MassState(float(len(batch)), mass))


def _taking(batch: Batch, code: int) -> Batch:
    """Return the rows with the logged action replaced by this one."""
    return replace(batch, action=np.full(len(batch), code, np.int32))
