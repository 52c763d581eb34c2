"""Intervals: how the sums of one pass become an interval, and what that promises."""

from piwo.intervals.bootstrap import Bootstrap, BootstrapResult, bootstrap, bootstrap_interval
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.intervals.table import INTERVALS, interval_named

__all__ = [
    "INTERVALS",
    "Bootstrap",
    "BootstrapResult",
    "Evidence",
    "IntervalMethod",
    "bootstrap",
    "bootstrap_interval",
    "interval_named",
]
