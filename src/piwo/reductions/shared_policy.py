"""Several reductions about one policy, which computes its full vectors once for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.policies.policy import Policy
from piwo.policies.restricted import at_places, spread_out
from piwo.reductions.reduction import Joint, Reduction
from piwo.reductions.vector_sums import in_blocks, width_of

__all__ = ["SharedPolicy"]


@dataclass(frozen=True)
class SharedPolicy(Joint):
    """Reduction: several others about one policy whose full vectors may be slow to compute.

    The policy computes its full vectors once for each block of rows; the parts look them up.

    Args:
        parts: dataclasses with a field `policy`, which is the next argument.
        policy: over the log's action list.

    >>> import piwo
    >>> from piwo.reductions import ControlVariates, PolicySums
    >>> log = piwo.Log.from_arrays(
    ...     action=["a"], reward=[1], propensities=[[0.5, 0.5]], actions=["a", "b"]
    ... )
    >>> uniform = piwo.policies.Uniform(log.actions)
    >>> parts = (PolicySums(uniform, piwo.IW()), ControlVariates(uniform))
    >>> piwo.reductions.reduce(log, SharedPolicy(parts, uniform))[0].moments.w
    1.0
    """

    parts: tuple[Reduction[Any], ...]
    policy: Policy

    def update(self, state: tuple[Any, ...], batch: Batch) -> tuple[Any, ...]:
        """Return the states with the rows of a batch added."""
        # Probabilities that are in the log cost nothing to read again.
        if len(self.parts) == 1 or not self.policy.gives_full_distribution:
            return super().update(state, batch)
        for some in in_blocks(batch, width_of(batch, len(self.policy.actions))):
            cached = CachedPolicy(self.policy, some)
            parts = tuple(replace(part, policy=cached) for part in self.parts)  # type: ignore[type-var]
            state = Joint(parts).update(state, some)
        return state


@final
class CachedPolicy(Policy):
    """A policy with its full vectors on the rows of one batch."""

    kind: ClassVar[str] = "cached"

    def __init__(self, policy: Policy, batch: Batch) -> None:
        self.listed = policy.actions
        self.policy = policy
        # Of eligible actions, the probabilities of pairs; else full vectors.
        some = batch.eligible
        if some is None:
            self.table = policy.full(batch)
        else:
            some = Eligible(some.starts, some.codes, propensities=policy.pairs(batch))
        self.eligible = some
        self.numbers = batch.row_numbers
        # Rows by unit are not in the order of their numbers.
        self.order = np.argsort(self.numbers, kind="stable")
        self.ordered = self.numbers[self.order]

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return the distribution of the policy itself, which is not cached."""
        return self.policy.distribution(context, n)

    def full(self, batch: Batch) -> Floats:
        """Return pi(a | X) of some of the rows, (n, K)."""
        if batch.eligible is not None:
            return spread_out(self.pairs(batch), batch.eligible, len(self.actions))
        if np.array_equal(batch.row_numbers, self.numbers):
            return self.table
        table: Floats = self.table[self._places(batch)]
        return table

    def pairs(self, batch: Batch) -> Floats:
        """Return pi(a | X) of the eligible actions of some of the rows, (m,)."""
        assert self.eligible is not None
        some = self.eligible
        if not np.array_equal(batch.row_numbers, self.numbers):
            some = some.take(self._places(batch))
        assert some.propensities is not None
        return some.propensities

    def _places(self, batch: Batch) -> npt.NDArray[np.intp]:
        return self.order[np.searchsorted(self.ordered, batch.row_numbers)]

    def logged(self, batch: Batch) -> Floats:
        """Return pi(A | X) of the logged actions, (n,)."""
        if batch.eligible is not None:
            return at_places(self.pairs(batch), batch.eligible.places(batch.action))
        found: Floats = self.full(batch)[np.arange(len(batch)), batch.action]
        return found

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi(A | X) of the policy itself: pi may underflow in the cached vectors."""
        return self.policy.log_logged(batch)
