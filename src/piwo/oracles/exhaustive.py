"""Exhaustive oracle: the best of an explicit list of policies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.oracle import Oracle
from piwo.policies import Policy, aligned
from piwo.policies.row_wise import RowChoices
from piwo.policies.sameness import policy_digest
from piwo.reductions.credit_sums import CreditSums
from piwo.reductions.reduce import reduce
from piwo.scores import Score

__all__ = ["Exhaustive"]


@dataclass(frozen=True)
class Exhaustive(Oracle):
    """The exact best of N policies; of equal ones the first.

    Answers: which of these policies? The class is finite and known, so an in-sample certificate at
    the price of log N is valid.

    Args:
        policies: N policies, or an (N, n) array of labels: row i holds the action that policy i
            takes in each row of the log (such policies are for that log only).

    Raises:
        UsageError: for an empty list, and for other arguments.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    >>> best = Exhaustive([piwo.policies.Constant(x, log.actions) for x in log.actions]).solve(
    ...     log, piwo.IX(0.1)
    ... )
    >>> best.act(n=1).actions.tolist()
    ['a']
    """

    policies: Any
    name: ClassVar[str] = "exhaustive"
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.policies, np.ndarray):
            object.__setattr__(self, "policies", _listed(self.policies))
        if len(self.policies) == 0:
            raise UsageError("no policies to choose from; give at least one")
        if isinstance(self.policies, np.ndarray) and self.policies.ndim != 2:
            raise UsageError(
                f"the array of choices has shape {self.policies.shape}, expected (N, n): one row "
                "for each policy"
            )

    def needs_context(self) -> bool:
        """False: policies of the list may do without it."""
        return False

    def log_class_size(self) -> float:
        """Return log N."""
        return math.log(len(self.policies))

    def contains(self, policy: Policy) -> bool:
        """Whether a policy is one of the N."""
        if not isinstance(self.policies, np.ndarray):
            wanted = policy_digest(policy)
            return any(policy is one or policy_digest(one) == wanted for one in self.policies)
        if not isinstance(policy, RowChoices) or policy.codes.shape != self.policies.shape[1:]:
            return False
        for row in self.policies:
            # few rows begin alike, so the start decides without converting the whole row
            start = policy.actions.codes(row[:64], "choices")
            if not np.array_equal(start, policy.codes[:64]):
                continue
            if np.array_equal(policy.actions.codes(row, "choices"), policy.codes):
                return True
        return False

    def candidates(self, log: Log) -> tuple[Policy, ...]:
        """Return the policies over the log's action list."""
        if isinstance(self.policies, np.ndarray):
            return tuple(RowChoices(row, log.actions) for row in self.policies)
        return tuple(aligned(policy, log.actions) for policy in self.policies)

    def least_losses(self, log: Log, scores: Sequence[Score]) -> Floats:
        """Return the smallest credit of the losses 1 - R over the list, (S,); one pass."""
        credit = reduce(log, CreditSums(self.candidates(log), tuple(scores), losses=True)).credit
        least: Floats = credit.min(axis=1)
        return least

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return the best policy for each score; one pass for all policies and scores."""
        candidates = self.candidates(log)
        credit = reduce(log, CreditSums(candidates, tuple(scores))).credit
        return [candidates[int(best)] for best in credit.argmax(axis=1)]


def _listed(policies: Any) -> tuple[Any, ...]:
    if isinstance(policies, Policy | str) or not isinstance(policies, Iterable):
        raise UsageError(
            f"{argument('policies')} is {policies!r:.80}, expected a list of them, or an (N, n) "
            "array of labels"
        )
    return tuple(policies)
