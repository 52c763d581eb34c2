"""Intervals that rest on the largest weight that can occur, which somebody must declare."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from piwo import bounds
from piwo.errors import DataError, UsageError
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy

__all__ = [
    "DeclaredWeight",
    "EmpiricalBernsteinInterval",
    "HoeffdingInterval",
    "check_declared",
    "declared_number",
]


def declared_number(name: str, text: str, least: float = 0.0) -> float:
    """Return the number that was written behind the name of a method.

    Args:
        name: the method's.
        text: what stood behind the colon.
        least: 0: above 0; else at least this.

    Raises:
        UsageError: for text that is no such number.

    >>> declared_number("hoeffding", "20")
    20.0
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0 and number >= least):
        expected = f"of at least {least:g}" if least else "above 0"
        raise UsageError(
            f"interval '{name}:{text}' ends in {text!r}, expected a number {expected}: the largest "
            "weight"
        )
    return number


def check_declared(name: str, seen: float, declared: float) -> None:
    """Refuse a log with a row of a larger weight than was declared.

    Raises:
        DataError: where there is one.

    >>> check_declared("hoeffding", 2.0, 2.0)
    """
    if seen > declared * (1 + 1e-9):
        raise DataError(
            f"a row has weight {seen:.6g}, which is above the {declared:g} that "
            f"{argument('interval', name)} was told; declare a number that no weight can exceed"
        )


@dataclass(frozen=True)
class DeclaredWeight(IntervalMethod):
    """Interval method that bounds w R and w (1 - R) by a largest weight: "hoeffding:20" by name.

    Args:
        max_weight: what pi/mu can be at most, such as K for a uniform logger. The largest weight in
            the log is not it.

    >>> HoeffdingInterval().declared("20").max_weight
    20.0
    """

    max_weight: float | None = None

    def declared(self, text: str) -> Self:
        """Return the method with the weight that was written behind its name.

        Raises:
            UsageError: for text that is no number above 0.
        """
        return replace(self, max_weight=declared_number(self.name, text))

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:  # noqa: ARG002
        """Return this method.

        Raises:
            UsageError: without a declared weight, and for rewards without an upper end.
        """
        if self.max_weight is None:
            raise UsageError(
                f"{argument('interval', self.name)} rests on the largest weight pi/mu that can occur, which "
                f"no log can tell; declare it, as in '{self.name}:20', or use {argument('interval', 'mixture')}, "
                "which needs none"
            )
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                f"{argument('interval', self.name)} needs rewards with an upper end; use {argument('interval', 'mixture')}"
            )
        return self

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval.

        Raises:
            DataError: where a row has a larger weight than was declared.
        """
        sums, n = evidence.state.moments, evidence.rows
        assert self.max_weight is not None
        check_declared(self.name, sums.max_weight, self.max_weight)
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
        return bounds.empirical_bernstein_lower(
            max(0.0, mean), variance, n, self.max_weight, penalty
        )
