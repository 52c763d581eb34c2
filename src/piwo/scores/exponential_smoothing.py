"""ExponentialSmoothing: the propensity is raised to a power below one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over
from piwo.scores.score import Parameter, Score

__all__ = ["ExponentialSmoothing"]


@dataclass(frozen=True)
class ExponentialSmoothing(Score):
    """Exponential smoothing: rho = pi R / mu^alpha, 0 < alpha <= 1; alpha = 1 is importance weighting.

    For comparison: a smooth alternative to clipping, biased downwards since mu^alpha >= mu. It is
    not pessimistic in the sense of `Score`: its own bounds need an explicit variance term, so its
    intervals come from the unclipped rows.

    Formula: V = (1/n) sum_t pi(A_t|X_t) R_t / mu(A_t|X_t)^alpha.
    Source: Aouali, Brunel, Rohde, Korba 2023 (arXiv 2305.15877).

    Args:
        alpha: the power, in (0, 1]; a number, "auto" or several (see `IX`). The alpha that goes
            with a gamma of IX is 1 / (1 + gamma), near 1 - 1/sqrt(n) for the usual gamma.

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(1, np.int32), np.array([1.0]), np.array([0.25]))
    >>> ExponentialSmoothing(0.5).rho(batch, np.array([1.0])).tolist()
    [2.0]
    """

    alpha: Parameter = "auto"
    name: ClassVar[str] = "exponential-smoothing"
    label: ClassVar[str] = "ES"
    parameter: ClassVar[str | None] = "alpha"
    largest: ClassVar[float] = 1.0
    of_gamma: ClassVar[str] = "1 / (1 + {})"

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return R / mu^alpha, (n, S)."""
        return np.stack([over(batch.reward, _power(batch, alpha)) for alpha in parameters], axis=1)

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return pi R / mu^alpha, (n,); 0 where pi is 0, however large the gain."""
        return over(pi * batch.reward, _power(batch, self.number))

    @property
    def gamma_equivalent(self) -> float:
        """1 / alpha - 1."""
        return 1.0 / self.number - 1.0

    def at_gamma(self, gamma: float) -> Self:
        """Return the score with alpha = 1 / (1 + gamma)."""
        return self.at(1.0 / (1.0 + gamma))


def _power(batch: Batch, alpha: float) -> Floats:
    """Return mu^alpha, from the logarithm where the log has it."""
    if batch.log_propensity is None:
        return np.asarray(batch.propensity**alpha)
    return np.asarray(np.exp(alpha * batch.log_propensity))
