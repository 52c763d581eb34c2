"""IX estimates of many policies at many gammas, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.policies.policy import Policy
from piwo.reductions.reduction import Reduction
from piwo.scores.ix import IX

__all__ = ["IXPath", "IXState"]

_ROWS = 4096
"""Rows of a block, so that its numbers stay in the processor's cache."""


def _nothing() -> Floats:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class IXState(State):
    """Sums of IX credits by policy and gamma, each (N, G)."""

    credit: Floats = field(default_factory=_nothing)
    """sum_t pi R / (mu + gamma)."""
    loss: Floats = field(default_factory=_nothing)
    """sum_t pi (1 - R) / (mu + gamma)."""


@dataclass(frozen=True)
class IXPath(Reduction[IXState]):
    """Reduction: the sums of IX credits of rewards and of losses, at each gamma of a path.

    The (n, G) numbers 1/(mu + gamma) are the same for all policies, so that each policy costs one
    row of a matrix product.

    Args:
        policies: N, over the log's action list.
        gammas: G numbers above 0.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> path = IXPath((piwo.policies.Uniform(log.actions),), (0.5, 1.5))
    >>> piwo.reductions.reduce(log, path).credit.tolist()
    [[0.5, 0.25]]
    """

    policies: tuple[Policy, ...]
    gammas: tuple[float, ...]

    @property
    def context(self) -> bool:
        """Whether any policy uses the context."""
        return any(policy.needs_context for policy in self.policies)

    @property
    def labels(self) -> bool:
        """Whether any policy needs the logged action."""
        return any(policy.needs_actions for policy in self.policies)

    def empty(self) -> IXState:
        """Return the sums of no rows."""
        shape = (len(self.policies), len(self.gammas))
        return IXState(np.zeros(shape), np.zeros(shape))

    def update(self, state: IXState, batch: Batch) -> IXState:
        """Return the sums with a batch added."""
        ones = batch.with_reward(np.ones(len(batch)))
        gammas = np.array(self.gammas)
        pi = np.empty((len(self.policies), len(batch)))
        for i, policy in enumerate(self.policies):
            pi[i] = batch.sampled(policy.logged(batch))
        added = self.empty()
        for start in range(0, len(batch), _ROWS):
            rows = slice(start, start + _ROWS)
            # the numbers 1 / (mu + gamma), (rows, G)
            inverse = IX.gains_path(ones.take(np.arange(len(batch))[rows]), gammas)
            reward = batch.reward[rows]
            added.credit[...] += (pi[:, rows] * reward) @ inverse
            added.loss[...] += (pi[:, rows] * (1.0 - reward)) @ inverse
        return state.merge(added)
