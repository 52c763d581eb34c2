"""Interval: what a two-sided bound returns, with its guarantee."""

import math
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Guarantee", "Interval"]

Guarantee = Literal["finite-sample", "asymptotic"]

_ROUNDING = 1e-12
"""Ends on the unit scale are no more exact than this: sums depend on the order of rows as much."""


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
        above `most` stays visible. Such an interval is empty (`empty`), and results do not show it.
        Ends that cross by no more than rounding change places, and both are in the result.

        >>> Interval(1e-12, 1e-12 - 2e-17).reported().lower < 1e-12
        True
        """
        lower, upper = self.lower, self.upper
        if lower is not None and upper is not None and upper < lower <= upper + _ROUNDING:
            lower, upper = upper, lower
        if lower is not None:
            lower = max(least, lower)
            if lower <= most + _ROUNDING:
                lower = min(most, lower)
        if upper is not None:
            upper = min(most, upper)
            if upper >= least - _ROUNDING:
                upper = max(least, upper)
        return replace(self, lower=lower, upper=upper)

    def empty(self, most: float = 1.0) -> bool:
        """Whether no number in [0, most] is in the interval, by more than rounding.

        >>> Interval(0.7, 0.6).empty(), Interval(1.1, 4.3).empty(), Interval(0.6, 0.7).empty()
        (True, True, False)
        """
        lower = -math.inf if self.lower is None else self.lower
        upper = math.inf if self.upper is None else self.upper
        return max(lower, 0.0) > min(upper, most) + _ROUNDING

    def contradicts(self, most: float = 1.0) -> bool:
        """Whether a finite-sample interval is empty or beyond the range [0, most].

        By chance this happens at most once in 1/delta logs. An asymptotic interval may be empty on
        a log whose propensities are right, if it has few rows for its weights.

        >>> Interval(0.7, 0.6).contradicts(), Interval(0.6, 0.7).contradicts()
        (True, False)
        """
        return self.guarantee == "finite-sample" and self.empty(most)

    def says_nothing_below(self, least: float = 0.0) -> bool:
        """Whether the lower end is vacuous: no better than the range itself."""
        return self.lower is None or self.lower <= least

    def says_nothing_above(self, most: float = 1.0) -> bool:
        """Whether the upper end is vacuous: no better than the range itself."""
        return self.upper is None or self.upper >= most
