"""What the propensities of the logged actions alone say of actions that could not be taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.policies.restricted import at_places
from piwo.reductions.action_mass import MassState
from piwo.reductions.policy_reduction import PolicyReduction
from piwo.reductions.reduction import Reduction

__all__ = ["CertainRows", "CertainState", "ListedMass"]


@dataclass(frozen=True)
class CertainState(State):
    """The number of rows whose action was certain.

    >>> CertainState(2).merge(CertainState(3)).rows
    5
    """

    rows: int = 0


@dataclass(frozen=True)
class CertainRows(Reduction[CertainState]):
    """Reduction: rows in which others were eligible and the logged action had propensity 1.

    The others then had propensity 0, as propensities of a row sum to 1.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 0], propensity=[1, 1], eligible=[["a", "b"], ["b"]]
    ... )
    >>> piwo.reductions.reduce(log, CertainRows()).rows
    1
    """

    def empty(self) -> CertainState:
        """Return the state of no rows."""
        return CertainState()

    def update(self, state: CertainState, batch: Batch) -> CertainState:
        """Return the number with a batch added."""
        assert batch.eligible is not None
        certain = batch.propensity == 1.0
        if not certain.any():
            return state
        return CertainState(state.rows + int((certain & (batch.eligible.sizes > 1)).sum()))


@dataclass(frozen=True)
class ListedMass(PolicyReduction[MassState]):
    """Reduction: sum_t of what a policy plays and no row can show, in logs with eligible actions.

    That is sum_a pi(a | X_t) 1{a was never logged} over the eligible actions a of row t; and, if
    the propensity of its action is 1, all of 1 - pi(A_t | X_t), as the other propensities are 0.

    Args:
        policy: over the log's action list; it gives the probability of each eligible action if
            there are codes.
        codes: the actions that were never logged.
        certain: whether to look for propensities of 1.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 0], propensity=[1, 0.5], eligible=[["a", "b"], ["b", "c"]]
    ... )
    >>> even = piwo.policies.Uniform(log.actions)
    >>> never = log.actions.index("c")
    >>> piwo.reductions.reduce(log, ListedMass(even, (never,), certain=True)).mean
    0.5
    """

    codes: tuple[int, ...]
    certain: bool

    @property
    def labels(self) -> bool:
        """True: the logged action is looked up among the eligible ones."""
        return True

    def empty(self) -> MassState:
        """Return the state of no rows."""
        return MassState()

    def update(self, state: MassState, batch: Batch) -> MassState:
        """Return the sums with a batch added."""
        mass, taken = self._never(batch)
        if self.certain:
            # 1 - pi(A | X) where mu(A | X) = 1; the difference may be below 0 by its rounding
            mass = np.where(batch.propensity == 1.0, np.maximum(0.0, 1.0 - taken), mass)
        rows = float(batch.sampled(np.ones(len(batch))).sum())
        return state.merge(MassState(rows, float(batch.sampled(mass).sum())))

    def _never(self, batch: Batch) -> tuple[Floats, Floats]:
        """Return the mass of actions that were never logged, and pi(A | X), both (n,)."""
        some = batch.eligible
        assert some is not None
        if not self.codes:
            return np.zeros(len(batch)), self.policy.logged(batch)
        never = np.zeros(len(self.policy.actions), np.bool_)
        never[list(self.codes)] = True
        pairs, hidden = self.policy.pairs(batch), np.flatnonzero(never[some.codes])
        mass = np.zeros(len(batch))
        mass += np.bincount(some.rows[hidden], pairs[hidden], minlength=len(batch))
        return mass, at_places(pairs, some.places(batch.action))
