"""Asymptotic intervals, for comparison: they may be wrong far more often than delta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from piwo import bounds
from piwo.bounds.interval import Guarantee
from piwo.intervals.bootstrap import bootstrap_interval
from piwo.intervals.method import Evidence, IntervalMethod, check_exact
from piwo.logs.log import Log
from piwo.policies import Policy

__all__ = ["BootstrapInterval", "CressieReadInterval", "NormalInterval"]

_NOTHING = bounds.Interval(None, None, "asymptotic")


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
        estimate = evidence.estimate
        if estimate.value is None or not estimate.finite:
            return _NOTHING
        return bounds.normal_interval(estimate.value, estimate.standard_error, evidence.delta)


@dataclass(frozen=True)
class CressieReadInterval(IntervalMethod):
    """Interval method: empirical likelihood in quadratic form, which knows that weights are 1 on average.

    >>> CressieReadInterval().guarantee
    'asymptotic'
    """

    name: ClassVar[str] = "cressie-read"
    guarantee: ClassVar[Guarantee] = "asymptotic"
    estimators: ClassVar[tuple[str, ...]] = ("iw", "snips")

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:  # noqa: ARG002
        """Return this method.

        Raises:
            UsageError: for propensities that may be too small: weights are then not 1 on average.
        """
        check_exact(self, log)
        return self

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval, without ends where a weight is beyond float64 or the rows are fewer than three."""
        sums, n = evidence.state.moments, evidence.rows
        if n < 3 or evidence.log.columns.weight is not None:
            return _NOTHING
        return bounds.cressie_read_interval(
            n, sums.w, sums.w2, sums.wr, sums.w2r, sums.w2r2, evidence.delta
        )


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
        if not evidence.estimate.finite:
            return _NOTHING
        return bootstrap_interval(
            evidence.log,
            evidence.policy,
            evidence.score,
            evidence.estimator,
            delta=evidence.delta,
            random_state=evidence.random_state,
        ).interval
