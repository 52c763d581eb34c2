"""The table of actions: how often each was logged, and sums of its propensities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import over_propensity

__all__ = ["ActionCount", "ActionState", "ActionTable", "CountState"]


@dataclass(frozen=True)
class ActionState(State):
    """Sums by action, each (K,).

    >>> ActionTable(2).empty().count.tolist()
    [0.0, 0.0]
    """

    count: Floats
    reward: Floats
    propensity: Floats
    inverse: Floats
    """sum 1{A = a} / mu(a|X). Divided by the number of rows in which a could be taken, its
    expectation is 1 if mu(a|X) > 0 in all of them."""
    inverse2: Floats
    eligible: Floats
    """The number of rows in which the action could be taken."""


@dataclass(frozen=True)
class ActionTable(Reduction[ActionState]):
    """Reduction: the table of actions of a log with K actions.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> piwo.reductions.reduce(log, ActionTable(2)).inverse.tolist()
    [6.0, 2.0]
    """

    actions: int

    def empty(self) -> ActionState:
        """Return the state of no rows."""
        return ActionState(*(np.zeros(self.actions) for _ in range(6)))

    def update(self, state: ActionState, batch: Batch) -> ActionState:
        """Return the sums with a batch added."""
        # 1 / mu(A|X) and its square, which may be infinite
        inverse = over_propensity(np.ones(len(batch)), batch)
        with np.errstate(over="ignore"):
            inverse2 = inverse * inverse

        def by_action(values: Floats | None = None) -> Floats:
            sums = np.bincount(batch.action, values, minlength=self.actions)
            return sums.astype(np.float64, copy=False)

        return state.merge(
            ActionState(
                count=by_action(),
                reward=by_action(batch.reward),
                propensity=by_action(batch.propensity),
                inverse=by_action(inverse),
                inverse2=by_action(inverse2),
                eligible=_could(batch, self.actions),
            )
        )


@dataclass(frozen=True)
class CountState(State):
    """Rows by action, each (K,)."""

    count: Floats
    eligible: Floats
    """The number of rows in which the action could be taken."""


@dataclass(frozen=True)
class ActionCount(Reduction[CountState]):
    """Reduction: how often each of K actions was logged.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> piwo.reductions.reduce(log, ActionCount(2)).count.tolist()
    [2.0, 1.0]
    """

    actions: int

    def empty(self) -> CountState:
        """Return the state of no rows."""
        return CountState(np.zeros(self.actions), np.zeros(self.actions))

    def update(self, state: CountState, batch: Batch) -> CountState:
        """Return the counts with a batch added."""
        count = np.bincount(batch.action, minlength=self.actions).astype(np.float64)
        return state.merge(CountState(count, _could(batch, self.actions)))


def _could(batch: Batch, actions: int) -> Floats:
    """Return in how many rows each action could be taken, (K,)."""
    if batch.eligible is None:
        return np.full(actions, float(len(batch)))
    return np.bincount(batch.eligible.codes, minlength=actions).astype(np.float64)
