"""What the reductions share that are about one policy: what it asks of the batches, and its weights."""

# Annotations are not postponed here: the fields below become arguments of dataclasses in modules
# without these names.
from dataclasses import dataclass
from typing import TypeVar

from piwo.logs.batch import Batch, Floats
from piwo.policies.policy import Policy
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import Weights, importance_weights

__all__ = ["PolicyReduction"]

S = TypeVar("S")


@dataclass(frozen=True)
class PolicyReduction(Reduction[S]):
    """Base of the reductions about one policy: batches carry what it looks at.

    Args:
        policy: over the log's action list.
    """

    policy: Policy

    @property
    def context(self) -> bool:
        """Whether the policy looks at the context."""
        return self.policy.needs_context

    @property
    def labels(self) -> bool:
        """Whether the policy asks which action was taken."""
        return self.policy.needs_actions

    def weights(self, batch: Batch, pi: Floats | None = None) -> Weights:
        """Return the importance weights of the logged actions.

        Args:
            batch: the rows.
            pi: their (n,) probabilities, where the policy has been asked for them.
        """
        taken = self.policy.logged(batch) if pi is None else pi
        return importance_weights(batch, taken, lambda: self.policy.log_logged(batch))
