"""Normal interval: asymptotic, for comparison only. It is never a default.

With rare actions or rare rewards its errors are many times delta at any n that occurs in practice;
see docs/theory.md, section "Why not the normal interval?".
"""

import math

from piwo.bounds.interval import Interval
from piwo.checks import check_delta, check_finite, check_non_negative, is_number

__all__ = ["normal_interval"]


def normal_interval(mean: float, standard_error: float | None, delta: float) -> Interval:
    """Asymptotic interval mean -+ z standard_error, z the normal quantile of 1 - delta/2.

    Args:
        mean: estimate.
        standard_error: its standard error; None or NaN if it is undefined, as for a single row.
        delta: nominal chance of error of both sides together.

    Returns:
        An interval whose guarantee is "asymptotic"; its ends are None if the standard error is
        undefined.

    Raises:
        UsageError: delta outside (0, 1), a mean that is not finite, or a negative or infinite
            standard error.

    >>> normal_interval(0.5, 0.1, delta=0.05)
    Interval(lower=0.304..., upper=0.695..., guarantee='asymptotic')
    >>> normal_interval(0.5, None, delta=0.05)
    Interval(lower=None, upper=None, guarantee='asymptotic')
    """
    from scipy.special import ndtri

    check_delta(delta)
    check_finite("mean", mean)
    if standard_error is None or (is_number(standard_error) and math.isnan(standard_error)):
        return Interval(None, None, "asymptotic")
    check_finite("standard_error", standard_error)
    check_non_negative("standard_error", standard_error)
    # z = -quantile of delta/2, which keeps its digits for the smallest delta; the quantile of
    # 1 - delta/2 would round to infinity
    margin = -float(ndtri(delta / 2.0)) * standard_error
    return Interval(mean - margin, mean + margin, "asymptotic")
