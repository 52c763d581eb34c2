"""ExponentialSmoothing: the propensity is raised to a power below one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over
from piwo.scores.score import GammaScale, Parameter, Score

__all__ = ["ExponentialSmoothing"]


@dataclass(frozen=True)
class ExponentialSmoothing(Score):
    """Exponential smoothing: rho = pi R / mu^alpha, 0 < alpha <= 1.

    With alpha = 1 it is importance weighting. For comparison: a smooth alternative to
    clipping, biased downwards since mu^alpha >= mu. It is not pessimistic in the sense of `Score`:
    its own bounds need an explicit variance term, so its intervals come from the unclipped rows.

    Formula: V = (1/n) sum_t pi(A_t|X_t) R_t / mu(A_t|X_t)^alpha.
    Source: Aouali, Brunel, Rohde, Korba 2023 (arXiv 2305.15877).

    Args:
        alpha: the power, in (0, 1]; a number, "auto" or several (see `IX`). The alpha that
            corresponds to a gamma of IX is 1 / (1 + gamma), near 1 - 1/sqrt(n) for the usual gamma.

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
    gamma_scale: ClassVar[GammaScale] = GammaScale(
        "1 / (1 + {})", lambda gamma: 1.0 / (1.0 + gamma), lambda alpha: 1.0 / alpha - 1.0
    )

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return R / mu^alpha, (n, S)."""
        # R / mu^alpha, one column for each alpha
        columns = [over(batch.reward, _power(batch, alpha)) for alpha in parameters]
        return np.stack(columns, axis=1)

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return pi R / mu^alpha, (n,); 0 if pi is 0, however large the gain."""
        # pi R first: the gain alone may be infinite if pi is 0
        return over(pi * batch.reward, _power(batch, self.number))


def _power(batch: Batch, alpha: float) -> Floats:
    """Return mu^alpha, from the logarithm if the log has it."""
    if batch.log_propensity is None:
        # mu^alpha
        return np.asarray(batch.propensity**alpha)
    # mu^alpha = exp(alpha log mu), correct even if mu underflows
    return np.asarray(np.exp(alpha * batch.log_propensity))
