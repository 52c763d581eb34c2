"""Asymptotic intervals, for comparison: they may be wrong far more often than delta."""

from __future__ import annotations

from piwo import bounds
from piwo.intervals.bootstrap import bootstrap_interval
from piwo.intervals.method import Evidence

__all__ = ["bootstrap_ends", "cressie_read_ends", "normal_ends"]


def normal_ends(evidence: Evidence) -> bounds.Interval:
    """Return the normal interval of the point estimate; without ends if that is not finite."""
    estimate = evidence.estimate
    if estimate.value is None or not estimate.finite:
        return bounds.Interval(None, None, "asymptotic")
    # V -+ z se, z the normal quantile of 1 - delta/2
    return bounds.normal_interval(estimate.value, estimate.standard_error, evidence.delta)


def cressie_read_ends(evidence: Evidence) -> bounds.Interval:
    """Return the Cressie-Read interval; without ends if a weight is beyond float64."""
    sums = evidence.state.moments
    return bounds.cressie_read_interval(
        evidence.rows,
        sums.w,
        sums.w2,
        sums.wr,
        sums.w2r,
        sums.w2r2,
        evidence.delta,
        largest=evidence.max_weight,
        bounded=evidence.bounded,
    )


def bootstrap_ends(evidence: Evidence) -> bounds.Interval:
    """Return quantiles of the estimate on resampled rows, which takes another pass over the log."""
    if not evidence.estimate.finite:
        return bounds.Interval(None, None, "asymptotic")
    found = bootstrap_interval(
        evidence.log,
        evidence.policy,
        evidence.score,
        evidence.estimator,
        delta=evidence.delta,
        random_state=evidence.random_state,
    )
    return found.interval
