"""Diagnostics of importance weights from their sums: effective sample size, test of the mean."""

from __future__ import annotations

import math

__all__ = ["effective_size", "weight_z"]


def effective_size(total: float, squares: float) -> float | None:
    """Return the effective sample size, (sum w)^2 / sum w^2.

    It is the number of equal weights that are worth as much.

    Args:
        total: sum w.
        squares: sum w^2.

    Returns:
        A number between 1 and n; None if all weights are 0 or a square is beyond float64.

    >>> effective_size(3.0, 5.0)
    1.8
    """
    if not (0 < squares < math.inf):
        return None
    # total^2 may be beyond float64
    return total * (total / squares)


def weight_z(total: float, squares: float, n: int) -> float | None:
    """Return (mean weight - 1) / its standard error; None if that is not defined.

    Args:
        total: sum w.
        squares: sum w^2.
        n: number of rows.

    Returns:
        The ratio; 0 if all weights are 1.

    >>> round(weight_z(1800.0, 3600.0, 1000))
    42
    """
    if n < 2 or not math.isfinite(squares):
        return None
    mean = total / n
    # E w^2 - (E w)^2, which is rounding error if all weights are equal
    variance = squares / n - mean * mean
    if variance <= 1e-12 * max(1.0, mean * mean):
        if abs(mean - 1.0) <= 1e-9:
            return 0.0
        return None
    # the standard error of the mean is sqrt(var(w) / n)
    return (mean - 1.0) / math.sqrt(variance / n)
