"""Harmonic: the harmonic mean of the weight and one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over
from piwo.scores.score import GammaScale, Parameter, Score

__all__ = ["Harmonic"]


@dataclass(frozen=True)
class Harmonic(Score):
    """The power mean of weight and 1 with exponent -1: rho = R w / (1 - lam + lam w), 0 < lam <= 1.

    For comparison: weights are at most 1/lam, and those below 1 are raised, so it is not
    pessimistic and intervals come from the unclipped rows. Deviations are sub-Gaussian at a lam
    made from E w^2, which is unknown.

    Formula: V = (1/n) sum_t R_t / ((1 - lam) / w_t + lam).
    Source: Metelli, Russo, Restelli 2021 (NeurIPS, "Subgaussian and differentiable importance
    sampling for off-policy evaluation and learning"), exponent s = -1.

    Args:
        lam: weight of the 1; a number, "auto" or several (see `IX`). The lam that corresponds to a
            gamma of IX is gamma / (1 + gamma): for pi = 1 the weight is then
            (1 + gamma) / (mu + gamma).

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(1, np.int32), np.array([1.0]), np.array([0.25]))
    >>> Harmonic(0.5).rho(batch, np.array([1.0])).tolist()
    [1.6]
    """

    lam: Parameter = "auto"
    name: ClassVar[str] = "harmonic"
    label: ClassVar[str] = "Harmonic"
    parameter: ClassVar[str | None] = "lam"
    largest: ClassVar[float] = 1.0
    linear: ClassVar[bool] = False
    gamma_scale: ClassVar[GammaScale] = GammaScale(
        "1 - 1 / (1 + {})",
        lambda gamma: gamma / (1.0 + gamma),
        lambda lam: lam / (1.0 - lam) if lam < 1.0 else float("inf"),
    )

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return R w / (1 - lam + lam w) = pi R / ((1 - lam) mu + lam pi), (n,)."""
        lam = self.number
        # w = pi / mu, so R w / (1 - lam + lam w) = pi R / ((1 - lam) mu + lam pi)
        return over(pi * batch.reward, (1.0 - lam) * batch.propensity + lam * pi)
