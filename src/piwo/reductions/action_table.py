"""The per-action table: how often each action was logged, and what its propensities say about that."""

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
    """sum 1{A = a} / mu(a|X): its mean over all rows has expectation 1 where a is supported
    everywhere."""
    inverse2: Floats


@dataclass(frozen=True)
class ActionTable(Reduction[ActionState]):
    """Reduction: the per-action table of a log with K actions.

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
        return ActionState(*(np.zeros(self.actions) for _ in range(5)))

    def update(self, state: ActionState, batch: Batch) -> ActionState:
        """Return the sums with a batch added."""
        inverse = over_propensity(np.ones(len(batch)), batch)

        def by_action(values: Floats | None = None) -> Floats:
            return np.bincount(batch.action, values, minlength=self.actions).astype(
                np.float64, copy=False
            )

        with np.errstate(over="ignore"):
            columns = (None, batch.reward, batch.propensity, inverse, inverse * inverse)
        return state.merge(ActionState(*(by_action(column) for column in columns)))


@dataclass(frozen=True)
class CountState(State):
    """Rows by action, (K,)."""

    count: Floats


@dataclass(frozen=True)
class ActionCount(Reduction[CountState]):
    """Reduction: how often each of K actions was logged, and nothing more.

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
        return CountState(np.zeros(self.actions))

    def update(self, state: CountState, batch: Batch) -> CountState:
        """Return the counts with a batch added."""
        return CountState(state.count + np.bincount(batch.action, minlength=self.actions))
