"""Vector sums: what reductions share that look at the propensities and probabilities of every action."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import row_blocks
from piwo.policies.policy import Policy
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import Weights, importance_weights

__all__ = ["VectorSums"]

S = TypeVar("S")

_BLOCK_BYTES = 2**23


@dataclass(frozen=True)
class VectorSums(Reduction[S]):
    """Base of the reductions over rows x actions: batches are cut so that no such block is large.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log.
    """

    policy: Policy

    @property
    def context(self) -> bool:
        """Tell whether the policy looks at the context."""
        return self.policy.needs_context

    @property
    def propensities(self) -> bool:
        """Tell that the full propensity vectors are needed."""
        return True

    def update(self, state: S, batch: Batch) -> S:
        """Return the state with the rows of a batch added, block by block."""
        for block in row_blocks(len(batch), len(self.policy.actions), size=_BLOCK_BYTES):
            state = self.merge(state, self.block(batch.take(block)))
        return state

    @abstractmethod
    def block(self, batch: Batch) -> S:
        """Return the state of a few rows."""

    def weights(self, batch: Batch, pi: Floats) -> Weights:
        """Return the importance weights of the logged actions, from the (n, K) probabilities `pi`."""
        logged: Any = np.arange(len(batch)), batch.action
        return importance_weights(batch, pi[logged], lambda: self.policy.log_logged(batch))
