"""The base of reductions that need the propensity and probability of every action."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from piwo.logs.batch import Batch
from piwo.policies.blocks import block_rows
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["VectorSums", "in_blocks"]

S = TypeVar("S")

# 8 MB for each table of rows x actions that is made of a block.
_BLOCK_BYTES = 2**23


@dataclass(frozen=True)
class VectorSums(PolicyReduction[S]):
    """Base of the reductions over rows x actions: they see blocks of rows, so tables are small.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log.
    """

    @property
    def propensities(self) -> bool:
        """True: full propensity vectors are needed."""
        return True

    @property
    def labels(self) -> bool:
        """True: vectors are looked up at the logged actions."""
        return True

    def update(self, state: S, batch: Batch) -> S:
        """Return the state with the rows of a batch added, block by block."""
        for block in in_blocks(batch, len(self.policy.actions)):
            state = self.merge(state, self.block(block))
        return state

    @abstractmethod
    def block(self, batch: Batch) -> S:
        """Return the state of a few rows."""


def in_blocks(batch: Batch, actions: int) -> Iterator[Batch]:
    """Yield the rows of a batch in blocks whose tables of rows x actions are small.

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(9, np.int32), np.ones(9), np.ones(9))
    >>> (
    ...     [len(block) for block in in_blocks(batch, actions=10**7)],
    ...     [len(block) for block in in_blocks(batch, actions=2)],
    ... )
    ([1, 1, 1, 1, 1, 1, 1, 1, 1], [9])
    """
    for block in batch.slices(block_rows(actions, _BLOCK_BYTES)):
        yield batch.take(block)
