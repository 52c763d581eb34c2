"""Interval: what a two-sided bound returns, with its guarantee."""

import math
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Guarantee", "Interval"]

Guarantee = Literal["finite-sample", "asymptotic"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A raw interval: its ends are those of the formula, even if the quantity cannot reach them.

    Args:
        lower: lower end, or None if there is none.
        upper: upper end, or None if there is none (as for rewards without an upper end).
        guarantee: "finite-sample" is valid with probability 1 - delta at every n;
            "asymptotic" only as n grows.

    >>> Interval(-13.3, 0.4).reported()
    Interval(lower=0.0, upper=0.4, guarantee='finite-sample')
    """

    lower: float | None
    upper: float | None
    guarantee: Guarantee = "finite-sample"

    def reported(self, least: float = 0.0, most: float = 1.0) -> "Interval":
        """Return the interval without what the range [least, most] rules out.

        This interval keeps the raw ends. An end is only ever moved inward to the range: a lower end
        above `most`, which means that the log contradicts its own propensities, stays visible.
        """
        lower = None if self.lower is None else max(least, self.lower)
        upper = None if self.upper is None else min(most, self.upper)
        return replace(self, lower=lower, upper=upper)

    def contradicts(self, most: float = 1.0) -> bool:
        """Whether a finite-sample interval is empty or beyond the range [0, most].

        By chance this happens at most once in 1/delta logs.

        >>> Interval(0.7, 0.6).contradicts(), Interval(0.6, 0.7).contradicts()
        (True, False)
        """
        if self.guarantee != "finite-sample" or self.lower is None:
            return False
        upper = math.inf if self.upper is None else self.upper
        return self.lower > upper or upper < 0.0 or self.lower > most

    def says_nothing_below(self, least: float = 0.0) -> bool:
        """Whether the lower end is vacuous: no better than the range itself."""
        return self.lower is None or self.lower <= least

    def says_nothing_above(self, most: float = 1.0) -> bool:
        """Whether the upper end is vacuous: no better than the range itself."""
        return self.upper is None or self.upper >= most
