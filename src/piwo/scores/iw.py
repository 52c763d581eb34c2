"""IW: plain importance weighting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over_propensity
from piwo.scores.score import Score

__all__ = ["IW"]


@dataclass(frozen=True)
class IW(Score):
    """Importance weighting (inverse propensity scoring): rho = pi R / mu.

    Answers: what would the policy have earned? Unbiased if the logger tried every action that the
    policy plays. The variance is unbounded; prefer IX or LSLinear if propensities are small.

    Formula: V = (1/n) sum_t pi(A_t|X_t) R_t / mu(A_t|X_t).
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Eq. (IW).

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(2, np.int32), np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    >>> IW().rho(batch, np.array([1.0, 1.0])).tolist()
    [2.0, 0.0]
    """

    name: ClassVar[str] = "iw"
    label: ClassVar[str] = "IW"

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return R / mu, (n, S)."""
        # R / mu, the same whatever the parameter
        gains = over_propensity(batch.reward, batch)[:, None]
        return np.repeat(gains, len(parameters), axis=1)

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return pi R / mu, (n,); 0 if pi is 0, however large the gain."""
        # pi R first: the gain alone may be infinite if pi is 0
        return over_propensity(pi * batch.reward, batch)
