"""What an oracle is: it turns gains into the policy that collects most of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.scores import Score

__all__ = ["Oracle"]


class Oracle(ABC):
    """Cost-sensitive classification: argmax over a class of policies of sum_t sum_a pi(a|X_t) G[t, a].

    Concrete oracles are small frozen dataclasses; `solve` leaves them unchanged.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = False
    """Whether it finds the maximum over its class, or a surrogate's."""
    uses_score: ClassVar[bool] = True
    """Whether what it learns depends on how rows are credited."""

    @abstractmethod
    def solve_path(self, log: Log, scores: Sequence[Score]) -> Sequence[Policy]:
        """Return one policy a score, in as few passes over the log as the oracle can."""

    def solve(self, log: Log, score: Score) -> Policy:
        """Return the policy for one score."""
        return self.solve_path(log, [score])[0]

    def least_losses(self, log: Log, scores: Sequence[Score]) -> Floats:  # noqa: ARG002 (for exact oracles)
        """Return the smallest sum over the class of the credits of the losses 1 - R, (S,), for each score.

        Raises:
            UsageError: for an oracle that is not exact: what a surrogate finds bounds nothing.
        """
        raise UsageError(
            f"the {self.name} oracle does not find the smallest loss of its class; use "
            "oracles.Exhaustive"
        )

    def log_class_size(self) -> float | None:
        """Return log |Pi|, None where the class is infinite or unknown."""
        return None

    def contains(self, policy: Policy) -> bool:  # noqa: ARG002 (for classes that are known)
        """Whether a policy is one of the class, which was fixed before the log was seen."""
        return False

    def needs_context(self) -> bool:
        """Whether the oracle learns from the context."""
        return True

    def needs_rows(self) -> bool:
        """Whether the oracle needs all rows on one machine; sums can be had of logs in clusters too."""
        return False

    def fit_for(self, log: Log) -> None:
        """Raise where the log lacks what the oracle needs; called before any work.

        Raises:
            DataError: saying what is missing.
            UsageError: for a log in a cluster, where sums are not enough.
        """
        if self.needs_rows():
            log.require_one_machine(f"the {self.name} oracle")
        if self.needs_context() and not log.has_context:
            raise DataError(
                f"the {self.name} oracle needs the context, and the log was read without; read it "
                f"with {argument('context', '[...]')}"
            )
