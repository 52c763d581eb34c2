"""What an oracle is: it turns gains into the policy that collects most of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from piwo.checks import check_kind
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.items import has_items
from piwo.logs.log import Log
from piwo.logs.options import check_fixed_actions
from piwo.messages import argument
from piwo.policies import Policy
from piwo.scores import Score

__all__ = ["Oracle", "check_score", "check_used", "shared_by_neighbors"]


P = TypeVar("P", bound=Policy)


class Oracle(ABC):
    """Cost-sensitive classification: argmax over policies of sum_t sum_a pi(a|X_t) G[t, a].

    Concrete oracles are small frozen dataclasses; `solve` leaves them unchanged.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = False
    """Whether it finds the maximum over its class; otherwise it maximizes a surrogate."""
    uses_score: ClassVar[bool] = True
    """Whether what it learns depends on the score."""

    @abstractmethod
    def solve_path(self, log: Log, scores: Sequence[Score]) -> Sequence[Policy]:
        """Return one policy for each score, in as few passes over the log as the oracle can."""

    def solve(self, log: Log, score: Score) -> Policy:
        """Return the policy for one score."""
        return self.solve_path(log, [score])[0]

    def least_losses(self, log: Log, scores: Sequence[Score]) -> Floats:  # noqa: ARG002 (for exact oracles)
        """Return the smallest credit of the losses 1 - R over the class, (S,), one for each score.

        Raises:
            UsageError: for an oracle that is not exact: the result of a surrogate bounds nothing.
        """
        raise UsageError(
            f"the {self.name} oracle does not find the smallest loss of its class; use "
            "oracles.Exhaustive"
        )

    def log_class_size(self) -> float | None:
        """Return log |Pi|; None if the class is infinite or unknown."""
        return None

    def contains(self, policy: Policy) -> bool:  # noqa: ARG002 (for classes that are known)
        """Whether a policy belongs to the class, which was fixed before the log was seen."""
        return False

    def needs_context(self) -> bool:
        """Whether the oracle learns from the context."""
        return True

    def takes_eligible(self) -> bool:
        """Whether it can learn from logs whose actions change from row to row."""
        return False

    def needs_items(self) -> bool:
        """Whether the oracle learns from features of items."""
        return False

    def needs_rows(self) -> bool:
        """Whether the oracle needs all rows on one machine; sums suffice for logs in clusters."""
        return False

    def fit_for(self, log: Log) -> None:
        """Check that the log has what the oracle needs, before any work.

        Raises:
            DataError: saying what is missing.
            UsageError: for a log in a cluster if sums do not suffice.
        """
        if not self.takes_eligible():
            check_fixed_actions(log.columns, f"the {self.name} oracle")
        if self.needs_items() and not has_items(log):
            raise DataError(
                f"the {self.name} oracle needs features of the actions, and the log was read "
                f"without; read it with {argument('items', '...')}, a table with one row a label, "
                "or a column of the log"
            )
        if self.needs_rows():
            log.require_one_machine(f"the {self.name} oracle")
        if self.needs_context() and not log.has_context:
            raise DataError(
                f"the {self.name} oracle needs the context, and the log was read without; read it "
                f"with {argument('context', '[...]')}"
            )


def shared_by_neighbors(
    path: Iterable[Floats],
    learn: Callable[[int, Floats], P],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> list[P]:
    """Return one policy for each step of a path; neighbors equal up to rounding share one.

    Args:
        path: what a policy is determined by, an array for each step.
        learn: returns the policy from the number of the step and its array.
        rtol: relative rounding, as in `numpy.allclose`.
        atol: absolute rounding.
    """
    policies: list[P] = []
    before: Floats | None = None
    for i, one in enumerate(path):
        if before is not None and _alike(one, before, rtol, atol):
            policies.append(policies[-1])
        else:
            policies.append(learn(i, one))
        before = one
    return policies


def _alike(one: Floats, before: Floats, rtol: float, atol: float) -> bool:
    """Whether two arrays are equal up to rounding; `numpy.allclose` takes four times as long."""
    with np.errstate(invalid="ignore"):
        close = np.abs(one - before) <= atol + rtol * np.abs(before)
    return bool((close | (one == before)).all())


def check_score(score: Any) -> None:
    """Check that oracles can maximize a score.

    Raises:
        UsageError: for a score that is not linear in the policy.
    """
    check_kind("score", score, Score, " of piwo.scores")
    if not score.linear:
        raise UsageError(
            f"{score.label} is not linear in the policy, so no oracle can maximize it; use "
            f"{score.instead}"
        )


def check_used(score: Score | None, oracle: Oracle) -> None:
    """Check that no score is given to an oracle that does not use one.

    Raises:
        UsageError: naming both.

    >>> from piwo.oracles import Direct
    >>> check_used(None, Direct())
    """
    if score is not None and not oracle.uses_score:
        raise UsageError(f"the {oracle.name} oracle uses no score, got {score!r:.80}; leave it out")
