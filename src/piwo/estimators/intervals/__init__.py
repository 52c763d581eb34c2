"""Interval methods by name: how the sums of one pass become an interval, and what that promises."""

from __future__ import annotations

from piwo.errors import UsageError
from piwo.estimators.intervals.asymptotic import BootstrapInterval, NormalInterval
from piwo.estimators.intervals.control_variate import AutoInterval, ControlVariateInterval
from piwo.estimators.intervals.fixed_bet import IXInterval, LSInterval
from piwo.estimators.intervals.method import Evidence, IntervalMethod
from piwo.estimators.intervals.mixture import MixtureInterval

__all__ = ["INTERVALS", "Evidence", "IntervalMethod", "interval_named"]

INTERVALS: dict[str, IntervalMethod] = {
    made.name: made
    for made in (
        AutoInterval(),
        ControlVariateInterval(),
        MixtureInterval(),
        IXInterval(),
        LSInterval(),
        NormalInterval(),
        BootstrapInterval(),
    )
}
"""Every interval method by name. A new one is its own file and its place in this list."""


def interval_named(name: str) -> IntervalMethod:
    """Return the interval method of that name.

    Raises:
        UsageError: listing the names.

    >>> interval_named("mixture").guarantee
    'finite-sample'
    """
    if name not in INTERVALS:
        raise UsageError(f"interval {name!r} is not known, expected one of {', '.join(INTERVALS)}")
    return INTERVALS[name]
