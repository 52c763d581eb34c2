"""Intervals that rest on the largest weight that can occur, which somebody must declare."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from piwo import bounds
from piwo.errors import DataError, UsageError
from piwo.estimators.intervals.method import Evidence, IntervalMethod
from piwo.logs.log import Log
from piwo.policies import Policy

__all__ = ["DeclaredWeight", "EmpiricalBernsteinInterval", "HoeffdingInterval"]


@dataclass(frozen=True)
class DeclaredWeight(IntervalMethod):
    """Interval method that bounds w R and w (1 - R) by a largest weight: "hoeffding:20" by name.

    Args:
        max_weight: what pi/mu can be at most, such as K for a uniform logger. The largest weight in the log is not it.

    >>> HoeffdingInterval().declared("20").max_weight
    20.0
    """

    max_weight: float | None = None

    def declared(self, text: str) -> Self:
        """Return the method with the weight that was written behind its name.

        Raises:
            UsageError: for text that is no number above 0.
        """
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise UsageError(
                f"interval '{self.name}:{text}' ends in {text!r}, expected a number above 0: the largest weight"
            )
        return replace(self, max_weight=number)

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:  # noqa: ARG002
        """Return this method.

        Raises:
            UsageError: without a declared weight, and for rewards without an upper end.
        """
        if self.max_weight is None:
            raise UsageError(
                f"interval={self.name!r} rests on the largest weight pi/mu that can occur, which no log can tell; "
                f"declare it, as in '{self.name}:20', or use interval='mixture', which needs none"
            )
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(f"interval={self.name!r} needs rewards with an upper end; use interval='mixture'")
        return self

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval.

        Raises:
            DataError: where a row has a larger weight than was declared.
        """
        sums, n = evidence.state.moments, evidence.rows
        assert self.max_weight is not None
        if sums.max_weight > self.max_weight * (1 + 1e-9):
            raise DataError(
                f"a row has weight {sums.max_weight:.6g}, which is above the {self.max_weight:g} that "
                f"interval={self.name!r} was told; declare a number that no weight can exceed"
            )
        if n < 2:
            return bounds.Interval(None, None)
        half = evidence.log_inv_delta + math.log(2.0)
        # (w - w R)^2 = w^2 - 2 w^2 R + w^2 R^2
        lower = self.lower(sums.wr / n, sums.w2r2, n, half)
        missed = self.lower((sums.w - sums.wr) / n, sums.w2 - 2.0 * sums.w2r + sums.w2r2, n, half)
        return bounds.Interval(lower, 1.0 - missed)

    @abstractmethod
    def lower(self, mean: float, squares: float, n: int, penalty: float) -> float:
        """Return the lower bound on a mean, from it and the sum of squares."""


@dataclass(frozen=True)
class HoeffdingInterval(DeclaredWeight):
    """Interval method: Hoeffding's bound on w R and on w (1 - R), `bounds.hoeffding_lower`.

    >>> HoeffdingInterval(2.0).guarantee
    'finite-sample'
    """

    name: ClassVar[str] = "hoeffding"

    def lower(self, mean: float, squares: float, n: int, penalty: float) -> float:  # noqa: ARG002
        """Return Hoeffding's bound."""
        assert self.max_weight is not None
        return bounds.hoeffding_lower(max(0.0, mean), n, self.max_weight, penalty)


@dataclass(frozen=True)
class EmpiricalBernsteinInterval(DeclaredWeight):
    """Interval method: the empirical Bernstein bound on w R and on w (1 - R), `bounds.empirical_bernstein_lower`.

    >>> EmpiricalBernsteinInterval(2.0).guarantee
    'finite-sample'
    """

    name: ClassVar[str] = "empirical-bernstein"

    def lower(self, mean: float, squares: float, n: int, penalty: float) -> float:
        """Return the empirical Bernstein bound."""
        assert self.max_weight is not None
        variance = max(0.0, squares - n * mean * mean) / (n - 1)
        return bounds.empirical_bernstein_lower(max(0.0, mean), variance, n, self.max_weight, penalty)
