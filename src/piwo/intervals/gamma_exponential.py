"""The gamma-exponential confidence sequence on w R and on w (1 - R)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from piwo import bounds
from piwo.intervals.method import Evidence, IntervalMethod

__all__ = ["GammaExponentialInterval"]


@dataclass(frozen=True)
class GammaExponentialInterval(IntervalMethod):
    """Interval method: the gamma-exponential mixture of both sides, `bounds.gamma_exponential_lower`.

    >>> GammaExponentialInterval().anytime
    True
    """

    name: ClassVar[str] = "gamma-exponential"
    anytime: ClassVar[bool] = True

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval; without an upper end of the rewards it has none either, and the lower end all delta."""
        sums, n, penalty = evidence.state.moments, evidence.rows, evidence.log_inv_delta
        if not evidence.bounded:  # where values may exceed 1 the bound stops at 1, and still holds
            return bounds.Interval(
                bounds.gamma_exponential_lower(sums.wr, sums.w2r2, n, penalty), None
            )
        half = penalty + math.log(2.0)
        # (w - w R)^2 = w^2 - 2 w^2 R + w^2 R^2
        squares = sums.w2 - 2.0 * sums.w2r + sums.w2r2 if math.isfinite(sums.w2) else math.inf
        lower = bounds.gamma_exponential_lower(sums.wr, sums.w2r2, n, half)
        missed = bounds.gamma_exponential_lower(
            max(0.0, sums.w - sums.wr), max(0.0, squares), n, half
        )
        return bounds.Interval(lower, 1.0 - missed)
