"""Hoeffding's bound: from the mean and a number that no observation can exceed. For comparison."""

import math

from piwo.checks import check_count, check_non_negative, check_positive

__all__ = ["hoeffding_lower"]


def hoeffding_lower(mean: float, n: int, largest: float, log_inv_delta: float) -> float:
    """Lower bound on the mean of Y in [0, b] for any variance: wide if weights can be large.

        mean - b sqrt(log(1/delta) / (2 n))

    Args:
        mean: mean of Y over n independent rows.
        n: number of rows.
        largest: b, the largest value that Y can have: declared, never the largest one seen.
        log_inv_delta: log(1/delta) of this one statement.

    Returns:
        The raw bound; negative if it says nothing.

    >>> round(hoeffding_lower(0.5, n=1000, largest=2.0, log_inv_delta=3.0), 4)
    0.4225

    Source: Hoeffding 1963, Theorem 2.
    """
    check_count("n", n, 1)
    check_non_negative("the mean", mean)
    check_positive("largest", largest)
    check_positive("log_inv_delta", log_inv_delta)
    # mean - b sqrt(log(1/delta) / (2 n))
    return mean - largest * math.sqrt(log_inv_delta / (2.0 * n))
