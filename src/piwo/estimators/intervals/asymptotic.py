"""Asymptotic intervals, for comparison: they may be wrong far more often than delta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from piwo import bounds
from piwo.bounds.interval import Guarantee
from piwo.estimators.bootstrap import bootstrap_interval
from piwo.estimators.intervals.method import Evidence, IntervalMethod

__all__ = ["BootstrapInterval", "NormalInterval"]


@dataclass(frozen=True)
class NormalInterval(IntervalMethod):
    """Interval method: the point estimate and its standard error, as if it were normal.

    >>> NormalInterval().guarantee
    'asymptotic'
    """

    name: ClassVar[str] = "normal"
    guarantee: ClassVar[Guarantee] = "asymptotic"

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval, without ends where there is no finite estimate."""
        value = evidence.estimate.value
        if value is None or not math.isfinite(value):
            return bounds.Interval(None, None, "asymptotic")
        return bounds.normal_interval(value, evidence.estimate.standard_error, evidence.delta)


@dataclass(frozen=True)
class BootstrapInterval(IntervalMethod):
    """Interval method: quantiles of the estimate on rows drawn again; it takes another pass over the log.

    >>> BootstrapInterval().guarantee
    'asymptotic'
    """

    name: ClassVar[str] = "bootstrap"
    guarantee: ClassVar[Guarantee] = "asymptotic"

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval, without ends where there is no finite estimate."""
        value = evidence.estimate.value
        if value is None or not math.isfinite(value):
            return bounds.Interval(None, None, "asymptotic")
        return bootstrap_interval(
            evidence.log,
            evidence.policy,
            evidence.score,
            evidence.estimator,
            delta=evidence.delta,
            random_state=evidence.random_state,
        ).interval
