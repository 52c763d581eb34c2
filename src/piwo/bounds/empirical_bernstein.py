"""Empirical Bernstein bound: from mean, variance and a largest possible value. For comparison."""

import math

from piwo.checks import check_count, check_non_negative, check_positive

__all__ = ["empirical_bernstein_lower"]


def empirical_bernstein_lower(
    mean: float, variance: float, n: int, largest: float, log_inv_delta: float
) -> float:
    """Lower bound on the mean of Y in [0, b], in which b has a factor 1/n instead of 1/sqrt(n).

        mean - sqrt(2 V log(2/delta) / n) - 7 b log(2/delta) / (3 (n - 1))

    Args:
        mean: mean of Y over n independent rows.
        variance: V, their sample variance with n - 1 in the denominator.
        n: number of rows, at least 2.
        largest: b, the largest value that Y can have: declared, never the largest one seen, with
            which it is wrong if the rows that matter are rare.
        log_inv_delta: log(1/delta) of this one statement.

    Returns:
        The raw bound; negative if it says nothing.

    >>> round(empirical_bernstein_lower(0.5, 0.75, n=1000, largest=2.0, log_inv_delta=3.0), 4)
    0.4083

    Source: Maurer and Pontil 2009 (arXiv 0907.3740), Theorem 4.
    """
    check_count("n", n, 2)
    check_non_negative("the mean", mean)
    check_non_negative("the variance", variance)
    check_positive("largest", largest)
    check_positive("log_inv_delta", log_inv_delta)
    # log(2/delta): the variance is estimated, too
    paid = log_inv_delta + math.log(2.0)
    return mean - math.sqrt(2.0 * variance * paid / n) - 7.0 * largest * paid / (3.0 * (n - 1))
