"""The base of reductions about one policy: the columns that it needs, and its weights."""

# Annotations are evaluated here: fields become arguments of dataclasses in modules that lack these
# names.
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Batch, Floats
from piwo.policies.policy import Policy
from piwo.reductions.blocks import BetSums, Partition, bet_sums_of
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import Weights, importance_weights

__all__ = ["PolicyReduction", "credit_bets"]

S = TypeVar("S")


@dataclass(frozen=True)
class PolicyReduction(Reduction[S]):
    """Base of the reductions about one policy: batches carry the columns that it needs.

    Args:
        policy: over the log's action list.
    """

    policy: Policy

    @property
    def context(self) -> bool:
        """Whether the policy uses the context."""
        return self.policy.needs_context

    @property
    def labels(self) -> bool:
        """Whether the policy needs the logged action."""
        return self.policy.needs_actions

    def weights(self, batch: Batch, pi: Floats | None = None) -> Weights:
        """Return the importance weights w = pi/mu of the logged actions.

        Args:
            batch: the rows.
            pi: their (n,) probabilities, if they are known already.
        """
        taken = self.policy.logged(batch) if pi is None else pi
        return importance_weights(batch, taken, lambda: self.policy.log_logged(batch))


def credit_bets(
    batch: Batch,
    weights: Weights,
    factor: Floats,
    rest: Floats,
    partition: Partition | None = None,
) -> BetSums:
    """Return the bet sums of w times a factor, plus a rest; by logarithms beyond float64.

    Args:
        batch: the rows; if it is read by unit, sums are of the means over units.
        weights: w of these rows.
        factor: (n,) numbers of at least 0, such as R or 1 - R.
        rest: (n,) numbers of at least 0.
        partition: into blocks; None: without.
    """

    def logarithm(rows: npt.NDArray[np.intp]) -> Floats:
        # log Y = logaddexp(log w + log factor, log rest)
        with np.errstate(divide="ignore"):
            logs: Floats = np.logaddexp(
                weights.logarithm()[rows] + np.log(factor[rows]), np.log(rest[rows])
            )
        return logs

    return bet_sums_of(batch, weights.times(factor) + rest, logarithm, partition)
