"""What is done: the share of each action in a log, and under another policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.policy_reduction import PolicyReduction
from piwo.reductions.vector_sums import in_blocks

__all__ = ["ActionMix", "MixState"]

MOST_ACTIONS = 1000
"""With more actions, full vectors of a policy are not computed for this."""


@dataclass(frozen=True)
class MixState(State):
    """Sums over the rows, by action."""

    today: Floats
    """(K,) sum_t 1{A_t = a}."""
    then: Floats
    """(K,) sum_t pi(a | X_t), or sum_t w_t 1{A_t = a}."""

    @property
    def shares(self) -> tuple[Floats, Floats]:
        """The shares of the actions in the log, and under the policy; zeros if the sums are 0."""
        return _shares(self.today), _shares(self.then)


@dataclass(frozen=True)
class ActionMix(PolicyReduction[MixState]):
    """Reduction: how often each action is taken in the log, and how often a policy would.

    Formula: (1/n) sum_t pi(a | X_t) if the policy gives full vectors and there are at most 1,000
    actions; else the self-normalized estimate sum_t w_t 1{A_t = a} / sum_t w_t.

    Args:
        policy: over the log's action list.
        actions: K.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> mix = ActionMix(piwo.policies.Constant("b", log.actions), 2)
    >>> [share.tolist() for share in piwo.reductions.reduce(log, mix).shares]
    [[0.5, 0.5], [0.0, 1.0]]
    """

    actions: int

    @property
    def labels(self) -> bool:
        """True: the logged actions are counted."""
        return True

    def empty(self) -> MixState:
        """Return the state of no rows."""
        return MixState(np.zeros(self.actions), np.zeros(self.actions))

    def update(self, state: MixState, batch: Batch) -> MixState:
        """Return the sums with a batch added."""
        today = self._by_action(batch, np.ones(len(batch)))
        if not self.policy.gives_full_distribution or self.actions > MOST_ACTIONS:
            # sum_t w_t 1{A_t = a}
            return state.merge(MixState(today, self._by_action(batch, self.weights(batch).w)))
        then = np.zeros(self.actions)
        for block in in_blocks(batch, self.actions):
            # sum_t pi(a | X_t)
            then += block.sampled(self.policy.full(block)).sum(axis=0)
        return state.merge(MixState(today, then))

    def _by_action(self, batch: Batch, values: Floats) -> Floats:
        """Return sums of values, (n,), by the logged action, (K,)."""
        sums = np.bincount(batch.action, batch.sampled(values), minlength=self.actions)
        return sums.astype(np.float64, copy=False)


def _shares(sums: Floats) -> Floats:
    total = float(sums.sum())
    if not 0.0 < total < np.inf:
        return np.zeros(len(sums))
    return sums / total
