"""Shrinkage: weights pulled towards zero, the more the larger they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over_propensity
from piwo.scores.score import GammaScale, Parameter, Score

__all__ = ["Shrinkage"]


@dataclass(frozen=True)
class Shrinkage(Score):
    """Optimistic shrinkage of the weights: rho = R lam w / (w^2 + lam), lam > 0.

    For comparison, and as the weights of doubly robust shrinkage
    (`doubly_robust(weights=Shrinkage(lam))`). The weight is largest at w = sqrt(lam), where it is
    sqrt(lam)/2; beyond that it falls back to 0. It is not pessimistic, so intervals come from the
    unclipped rows.

    Formula: V = (1/n) sum_t R_t lam w_t / (w_t^2 + lam).
    Source: Su, Dimakopoulou, Krishnamurthy, Dudik 2020 (arXiv 1907.09623), optimistic shrinkage.

    Args:
        lam: the square of the weight that is trusted most; a number, "auto" or several (see `IX`).
            The lam that corresponds to a gamma of IX is 1 / gamma^2.

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> Shrinkage(4.0).rho(batch, np.ones(2)).round(3).tolist()
    [1.0, 0.04]
    """

    lam: Parameter = "auto"
    name: ClassVar[str] = "shrinkage"
    label: ClassVar[str] = "Shrinkage"
    parameter: ClassVar[str | None] = "lam"
    linear: ClassVar[bool] = False
    gamma_scale: ClassVar[GammaScale] = GammaScale(
        "1 / ({})^2", lambda gamma: gamma**-2.0, lambda lam: float(lam**-0.5)
    )

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return R lam w / (w^2 + lam), (n,)."""
        w, lam = over_propensity(pi, batch), self.number
        with np.errstate(divide="ignore", over="ignore"):
            # lam w / (w^2 + lam) = lam / (w + lam/w): 0 for w = 0 and for w = inf, never inf / inf
            return np.asarray(batch.reward * (lam / (w + lam / w)))
