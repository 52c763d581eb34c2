"""Point estimates of a policy's value from the sums of one pass, under the names of the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from piwo.checks import shown
from piwo.errors import UsageError
from piwo.reductions.policy_sums import MomentState
from piwo.scores import IW, SCORES, Score

__all__ = ["ESTIMATORS", "MARGINAL", "Estimate", "Estimator", "estimator_named", "smoothed"]


@dataclass(frozen=True)
class Estimate:
    """A value on the unit scale with its standard error; None if it is not defined."""

    value: float | None
    standard_error: float | None

    @property
    def finite(self) -> bool:
        """Whether there is a finite value."""
        return self.value is not None and math.isfinite(self.value)


@dataclass(frozen=True)
class Estimator:
    """A point estimate: which score is summed, and how the sums become a number."""

    name: str
    score: Callable[[float], Score]
    """Makes the score from gamma; lam = 2 gamma for LS and LSLinear, see `Score.gamma_scale`."""
    smoothed: bool
    """Whether it has a gamma."""
    finish: Callable[..., Estimate]
    """Makes the estimate from the sums and the origin, lo / (hi - lo), on the unit scale."""
    squares: bool = False
    """Whether it uses the sums of R, w^2 and w^2 R."""

    def on(self, origin: float) -> Estimator:
        """Return the estimator for rewards whose 0 lies at -origin on the unit scale."""
        return replace(self, finish=partial(self.finish, origin=origin))


def mean_of_credits(sums: MomentState, origin: float = 0.0) -> Estimate:  # noqa: ARG001
    """Return the mean credit V = sum(s rho) / sum(s), with its standard error.

    That is sqrt(n / (n - 1) sum s^2 (rho - V)^2) / sum(s), by the delta method if the log was
    thinned (s, the sampling weights, are random there, too); None for one row. The origin plays no
    part: scores are defined on the unit scale.

    >>> mean_of_credits(MomentState(rows=2, total=2.0, rho=2.0, rho2=4.0))
    Estimate(value=1.0, standard_error=1.0)
    """
    if sums.total <= 0:
        return Estimate(None, None)
    # V = sum(s rho) / sum(s)
    value = sums.rho / sums.total
    if sums.rows < 2 or not math.isfinite(value) or not math.isfinite(sums.rho2):
        return Estimate(value, None)
    # sum s^2 rho and sum s^2, which are the plain sums of a log that was not thinned
    crossed, squares = sums.rho, sums.total
    if sums.s2 > 0:
        crossed, squares = sums.srho, sums.s2
    # sum s^2 (rho - V)^2
    spread = max(0.0, sums.rho2 - 2.0 * value * crossed + value * value * squares)
    error = math.sqrt(spread * sums.rows / (sums.rows - 1)) / sums.total
    return Estimate(value, error)


def importance_weighted(sums: MomentState, origin: float = 0.0) -> Estimate:
    """Return IW, the mean of w R for rewards in their own unit, whatever their declared range.

    With R = lo + (hi - lo) R' this is mean(w R') + origin (mean(w) - 1) on the unit scale, with
    origin = lo / (hi - lo).

    >>> importance_weighted(
    ...     MomentState(rows=2, total=2.0, w=4.0, w2=8.0, wr=4.0, w2r=8.0, w2r2=8.0), origin=-1.0
    ... ).value
    1.0
    """
    if sums.total <= 0:
        return Estimate(None, None)
    # sums of w (R' + origin) and of its square
    earned, squares, crossed = sums.wr, sums.w2r2, sums.swr
    if not math.isfinite(sums.w):
        # a row that earns 0 adds 0, although its weight is beyond float64
        earned, squares = sums.earned, sums.earned2
    elif origin != 0.0:
        earned += origin * sums.w
        squares += 2.0 * origin * sums.w2r + origin * origin * sums.w2
        crossed += origin * sums.sw
    if math.isnan(earned):
        # rows of infinite gain and of infinite loss
        return Estimate(None, None)
    found = mean_of_credits(replace(sums, rho=earned, rho2=squares, srho=crossed))
    if found.value is None:
        return found
    return replace(found, value=found.value - origin)


def self_normalized(sums: MomentState, origin: float = 0.0) -> Estimate:  # noqa: ARG001
    """Return SNIPS, V = sum(w R) / sum(w), which moves with the origin by itself.

    Its standard error is that of the delta method, sqrt(sum w^2 (R - V)^2) / sum(w).

    >>> self_normalized(MomentState(rows=2, total=2.0, w=4.0, w2=8.0, wr=4.0, w2r=8.0, w2r2=8.0))
    Estimate(value=1.0, standard_error=0.0)
    """
    if sums.w <= 0:
        return Estimate(None, None)
    # V = sum w R / sum w
    value = sums.wr / sums.w
    if not math.isfinite(value):
        return Estimate(None, None)
    if sums.rows < 2 or not math.isfinite(sums.w2):
        return Estimate(value, None)
    # sum w^2 (R - V)^2
    spread = max(0.0, sums.w2r2 - 2.0 * value * sums.w2r + value * value * sums.w2)
    return Estimate(value, math.sqrt(spread) / sums.w)


def cressie_read(sums: MomentState, origin: float = 0.0) -> Estimate:  # noqa: ARG001
    """Return the Cressie-Read estimate, which moves with the origin by itself.

    The rows, and one that was not seen, get the probabilities q that are closest to equal ones and
    have sum q w = 1. Formula, if the mean weight is below 1:

        V = mean(w R) + (1 - mean(w)) mean(R)

    so that what the policy does and the log does not hold earns what the logger earned. Otherwise
    the row that was not seen has weight 0, and V = sum q w R has a closed form. The standard
    error is that of w R - c w, c the slope by which V moves with the mean weight; the slope differs
    below and above a mean weight of 1, so it is rough near 1.

    Source: Karampatziakis, Langford, Mineiro 2020 (arXiv 1906.03323), in the quadratic form of
    their library, VowpalWabbit/estimators.

    >>> round(cressie_read(MomentState(rows=2, total=2.0, w=1.0, wr=1.0, reward=1.0)).value, 3)
    0.75
    """
    n = sums.total
    if n <= 0 or not math.isfinite(sums.wr):
        return Estimate(None, None)
    if sums.w < n:
        slope = sums.reward / n
        value = sums.wr / n + (1.0 - sums.w / n) * slope
    else:
        if not (math.isfinite(sums.w2) and math.isfinite(sums.w2r)):
            return Estimate(None, None)
        # W, V, var(w) and cov(w, w R), over N = n + 1 atoms
        count = n + 1.0
        mean_w, mean_y = sums.w / count, sums.wr / count
        of_w = sums.w2 / count - mean_w * mean_w
        slope = (sums.w2r / count - mean_w * mean_y) / of_w
        value = mean_y + slope * (1.0 - mean_w)
    # sums of w R - slope w and of its square
    residual = sums.wr - slope * sums.w
    squares = sums.w2r2 - 2.0 * slope * sums.w2r + slope * slope * sums.w2
    crossed = sums.swr - slope * sums.sw
    found = mean_of_credits(replace(sums, rho=residual, rho2=squares, srho=crossed))
    return Estimate(value, found.standard_error)


def smoothed(score: type[Score]) -> Estimator:
    """Return the estimator that is the mean credit of a score with a hyper-parameter.

    >>> from piwo.scores import LS
    >>> smoothed(LS).name, smoothed(LS).score(0.1)
    ('ls', LS(lam=0.2))
    """
    return Estimator(score.name, score().at_gamma, smoothed=True, finish=mean_of_credits)


_SMOOTHED = [
    smoothed(kind) for kind in SCORES.values() if kind.parameter is not None and not kind.dense
]
ESTIMATORS = {
    "iw": Estimator("iw", lambda _: IW(), smoothed=False, finish=importance_weighted),
    "snips": Estimator("snips", lambda _: IW(), smoothed=False, finish=self_normalized),
    "cressie-read": Estimator(
        "cressie-read", lambda _: IW(), smoothed=False, finish=cressie_read, squares=True
    ),
    **{made.name: made for made in _SMOOTHED},
}
"""Every point estimate by name: importance weighting in three ways, and each score that is one."""


MARGINAL = "mips"
"""The point estimate by weights of categories, which `piwo.evaluate` and `piwo.compare` have
besides."""


def estimator_named(name: Any) -> Estimator:
    """Return the estimator of that name.

    Raises:
        UsageError: listing the names.

    >>> estimator_named("ix").smoothed
    True
    """
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise UsageError(
            f"estimator {shown(name)} is not known, expected one of "
            f"{', '.join([*ESTIMATORS, MARGINAL])}"
        )
    return ESTIMATORS[name]
