"""IX: implicit exploration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from piwo.logs.batch import Batch, Floats
from piwo.scores.score import Parameter, Score

__all__ = ["IX"]


@dataclass(frozen=True)
class IX(Score):
    """Implicit exploration: rho = pi R / (mu + gamma), gamma > 0.

    Answers: which policy is certainly good? Adding gamma to the propensity biases the estimate
    downwards by exactly gamma * C_gamma(pi), most for actions that the logger seldom took, and
    gives lower bounds with no assumption on coverage.

    Formula: V_gamma = (1/n) sum_t pi(A_t|X_t) R_t / (mu(A_t|X_t) + gamma); E V_gamma = v - gamma
    C_gamma.
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Eq. (IX).

    Args:
        gamma: the number added to the propensity. Or "auto": a learner or `evaluate` chooses it
            (for a finite class the theory's sqrt(log(2|Pi|/delta) / n), for linear policies the
            paper's sqrt(d / n)). Or several numbers, a path from which a learner chooses.

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(1, np.int32), np.array([1.0]), np.array([0.4]))
    >>> IX(0.1).rho(batch, np.array([1.0])).tolist()
    [2.0]
    """

    gamma: Parameter = "auto"
    name: ClassVar[str] = "ix"
    label: ClassVar[str] = "IX"
    pessimistic: ClassVar[bool] = True
    parameter: ClassVar[str | None] = "gamma"
    needs_upper_end: ClassVar[bool] = True
    small_bets: ClassVar[bool] = True
    regret_known: ClassVar[bool] = True

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return R / (mu + gamma), (n, S)."""
        gamma = parameters
        # Eq. (IX): R / (mu + gamma)
        return batch.reward[:, None] / (batch.propensity[:, None] + gamma)
