"""IXReward: implicit exploration that grows with the reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.score import Parameter, Score

__all__ = ["IXReward"]


@dataclass(frozen=True)
class IXReward(Score):
    """Implicit exploration in proportion to the reward: rho = pi R / (mu + gamma R), gamma > 0.

    IX with a smaller bias if rewards are small, at the same penalty; `LSLinear` at lam = 2 gamma
    is larger still. Pessimistic for any R >= 0, without an upper end: z / (1 + z/2) <= log(1 + z)
    and Bernoulli's inequality.

    Formula: V = (1/n) sum_t pi(A_t|X_t) R_t / (mu(A_t|X_t) + gamma R_t).
    Source: docs/theory.md, section "Admissible scores"; a step of the proof for IX in Gabbianelli,
    Neu, Papini 2024 (arXiv 2309.15771).

    Args:
        gamma: added to the propensity at reward 1; a number, "auto" or several (see `IX`).

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(1, np.int32), np.array([0.5]), np.array([0.4]))
    >>> IXReward(0.2).rho(batch, np.array([1.0])).tolist()
    [1.0]
    """

    gamma: Parameter = "auto"
    name: ClassVar[str] = "ix-reward"
    label: ClassVar[str] = "IX-R"
    pessimistic: ClassVar[bool] = True
    parameter: ClassVar[str | None] = "gamma"

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return R / (mu + gamma R), (n, S); 0 if R is 0."""
        reward, gamma = batch.reward[:, None], parameters
        # mu + gamma R
        smoothed = batch.propensity[:, None] + gamma * reward
        # R / (mu + gamma R); 0 if R is 0, even if mu underflows to 0
        return np.divide(reward, smoothed, out=np.zeros_like(smoothed), where=reward > 0)
