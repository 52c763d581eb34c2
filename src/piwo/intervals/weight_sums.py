"""What the sums of importance weights say: the effective sample size, and how far their mean is from 1."""

from __future__ import annotations

import math

__all__ = ["effective_size", "weight_z"]


def effective_size(total: float, squares: float) -> float | None:
    """Return the effective sample size (sum w)^2 / sum w^2: so many equal weights would be worth these.

    Args:
        total: sum w.
        squares: sum w^2.

    Returns:
        A number between 1 and n; None where all weights are 0 or a square is beyond float64.

    >>> effective_size(3.0, 5.0)
    1.8
    """
    if not (0 < squares < math.inf):
        return None
    return total * (total / squares)


def weight_z(total: float, squares: float, n: int) -> float | None:
    """Return (mean weight - 1) / its standard error; 0 where all weights are 1, None where it is not defined.

    Args:
        total: sum w.
        squares: sum w^2.
        n: rows.

    >>> round(weight_z(1800.0, 3600.0, 1000))
    42
    """
    if n < 2 or not math.isfinite(squares):
        return None
    mean = total / n
    variance = squares / n - mean * mean
    if variance <= 1e-12 * max(1.0, mean * mean):
        return None if abs(mean - 1.0) > 1e-9 else 0.0
    return (mean - 1.0) / math.sqrt(variance / n)
