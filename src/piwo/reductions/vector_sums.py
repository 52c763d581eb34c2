"""The base of reductions that need the propensity and probability of every action."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Batch, Floats
from piwo.policies import Policy
from piwo.policies.blocks import block_rows
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["VectorSums", "Vectors", "in_blocks", "width_of"]

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
        for block in in_blocks(batch, self.width(batch)):
            state = self.merge(state, self.block(block))
        return state

    def width(self, batch: Batch) -> int:  # noqa: ARG002 - others look at the rows
        """Return how many columns the tables of a block have: K, unless they are of `Vectors`."""
        return len(self.policy.actions)

    @abstractmethod
    def block(self, batch: Batch) -> S:
        """Return the state of a few rows."""


def width_of(batch: Batch, actions: int) -> int:
    """Return how many columns the tables of `Vectors` have at most.

    Args:
        batch: the rows.
        actions: K.

    >>> width_of(Batch(0, np.zeros(1, np.int32), np.ones(1), np.ones(1)), actions=7)
    7
    """
    if batch.eligible is None:
        return actions
    return int(batch.eligible.sizes.max(initial=1))


@dataclass(frozen=True)
class Vectors:
    """The distributions of the logger and of policies in some rows, as tables.

    A column is an action; if actions change from row to row, it is a place in the list of the
    eligible ones, whose other probabilities are 0. What is summed over actions is the same.

    >>> from piwo.policies import Uniform
    >>> batch = Batch(
    ...     0, np.ones(1, np.int32), np.ones(1), np.ones(1) / 2, propensities=np.full((1, 2), 0.5)
    ... )
    >>> Vectors(batch).of(Uniform(["a", "b"])).tolist(), Vectors(batch).column.tolist()
    ([[0.5, 0.5]], [1])
    """

    batch: Batch

    @property
    def mu(self) -> Floats:
        """The propensities, (n, width)."""
        some = self.batch.eligible
        if some is None:
            assert self.batch.propensities is not None
            return np.ascontiguousarray(self.batch.propensities, np.float64)
        assert some.propensities is not None
        return some.table(some.propensities)

    def of(self, policy: Policy) -> Floats:
        """Return the probabilities of a policy, (n, width)."""
        if self.batch.eligible is None:
            return np.ascontiguousarray(policy.full(self.batch), np.float64)
        return self.batch.eligible.table(policy.pairs(self.batch))

    @property
    def column(self) -> npt.NDArray[np.int64]:
        """The column of the logged action in each row, (n,)."""
        some = self.batch.eligible
        if some is None:
            return self.batch.action.astype(np.int64)
        return some.places(self.batch.action) - some.starts[:-1]

    def taken(self, table: Floats) -> Floats:
        """Return the entries of the logged actions, (n,)."""
        found: Floats = table[np.arange(len(table)), self.column]
        return found


def in_blocks(batch: Batch, actions: int) -> Iterator[Batch]:
    """Yield the rows of a batch in blocks whose tables of rows x actions are small.

    >>> batch = Batch(0, np.zeros(9, np.int32), np.ones(9), np.ones(9))
    >>> (
    ...     [len(block) for block in in_blocks(batch, actions=10**7)],
    ...     [len(block) for block in in_blocks(batch, actions=2)],
    ... )
    ([1, 1, 1, 1, 1, 1, 1, 1, 1], [9])
    """
    for block in batch.slices(block_rows(actions, _BLOCK_BYTES)):
        yield batch.take(block)
