"""How much probability a policy gives to a set of actions, on average over the log's contexts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["ActionMass", "MassState"]

_MANY = 64


@dataclass(frozen=True)
class MassState(State):
    """Rows, and the sum of pi(a | X) over them and over the actions asked for."""

    rows: float = 0.0
    mass: float = 0.0


@dataclass(frozen=True)
class ActionMass(PolicyReduction[MassState]):
    """Reduction: sum_t sum_{a in codes} pi(a | X_t).

    Args:
        policy: over the log's action list.
        codes: the actions asked for.
    """

    codes: tuple[int, ...]

    @property
    def labels(self) -> bool:
        """Tell that action codes are needed, whatever the policy asks for."""
        return True

    def empty(self) -> MassState:
        """Return the state of no rows."""
        return MassState()

    def update(self, state: MassState, batch: Batch) -> MassState:
        """Return the sums with a batch added."""
        if len(self.codes) <= _MANY:
            mass = sum(float(self.policy.logged(_taking(batch, code)).sum()) for code in self.codes)
        else:
            step = max(1, 4_000_000 // len(self.policy.actions))
            parts = (
                batch.take(np.arange(at, min(at + step, len(batch))))
                for at in range(0, len(batch), step)
            )
            mass = sum(float(self.policy.full(part)[:, list(self.codes)].sum()) for part in parts)
        return state.merge(MassState(float(len(batch)), mass))


def _taking(batch: Batch, code: int) -> Batch:
    """Return the rows as if the logged action had been this one."""
    return replace(batch, action=np.full(len(batch), code, np.int32))
