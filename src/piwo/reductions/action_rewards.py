"""Rewards and weights by action, of rows that are compared with others, such as of one position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import over_propensity

__all__ = ["ActionRewards", "ActionRewardsState"]


@dataclass(frozen=True)
class ActionRewardsState(State):
    """Sums over rows, by action: each (K,), but for the weights.

    >>> ActionRewards(2).empty().count
    array([0., 0.])
    """

    count: Floats
    """Rows that took the action."""
    reward: Floats
    reward2: Floats
    listed: Floats
    """sum of the probabilities that the uniform policy takes the action, 1 / |E| if it is
    eligible."""
    weight: float = 0.0
    """sum of the weights of the uniform policy, 1 / (|E| mu)."""
    weight2: float = 0.0

    @property
    def rows(self) -> float:
        """How many rows there are."""
        return float(self.count.sum())

    @property
    def untaken(self) -> float:
        """The share of what the uniform policy plays whose actions no row took.

        >>> import piwo
        >>> log = piwo.Log.from_arrays(
        ...     action=["a"], reward=[1], propensity=[0.5], actions=["a", "b"]
        ... )
        >>> piwo.reductions.reduce(log, ActionRewards(2)).untaken
        0.5
        """
        return float(self.listed[self.count == 0].sum()) / self.rows


@dataclass(frozen=True)
class ActionRewards(Reduction[ActionRewardsState]):
    """Reduction: how often each action was taken and could be, what it earned, and weights.

    Args:
        actions: K.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> piwo.reductions.reduce(log, ActionRewards(2)).reward.tolist()
    [1.0, 0.0]
    """

    actions: int

    def empty(self) -> ActionRewardsState:
        """Return the state of no rows."""
        zeros = np.zeros(self.actions)
        return ActionRewardsState(zeros, zeros, zeros, zeros)

    def update(self, state: ActionRewardsState, batch: Batch) -> ActionRewardsState:
        """Return the sums with a batch added."""
        many, reward = self.actions, batch.reward

        def by_action(values: Floats) -> Floats:
            sums = np.bincount(batch.action, values, minlength=many)
            return sums.astype(np.float64, copy=False)

        if batch.eligible is None:
            # pi(a|x) = 1 / K
            even = np.full(len(batch), 1.0 / many)
            listed = np.full(many, len(batch) / many)
        else:
            pairs = batch.eligible
            # pi(a|x) = 1 / |E|
            even = 1.0 / pairs.sizes
            listed = np.bincount(pairs.codes, even[pairs.rows], minlength=many)
        # pi / mu
        weight = over_propensity(even, batch)
        with np.errstate(over="ignore"):
            squares, weight2 = by_action(reward * reward), float((weight * weight).sum())
        sums = (by_action(np.ones(len(batch))), by_action(reward), squares, listed)
        return state.merge(ActionRewardsState(*sums, float(weight.sum()), weight2))
