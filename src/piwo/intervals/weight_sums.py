"""Diagnostics of importance weights from their sums: effective sample size, test of the mean."""

from __future__ import annotations

import math

__all__ = ["FAR", "ROUNDING", "effective_size", "weight_z", "z_score"]

FAR = 4.0
"""Standard errors: chance alone moves the mean of weights that are alike this far once in 30,000
times, and that of weights which are seldom large far more often; see
`piwo.evaluation.low_weights.far_below`."""

ROUNDING = 1e-3
"""Relative difference of a mean weight from what is expected that says nothing of propensities:
they are commonly written with four digits, as .3333 for 1/3, which are wrong by up to a part in
2,000. If weights are almost alike, as of a uniform logger, so small a difference is many standard
errors. It moves a value by at most a thousandth of itself."""


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
        The ratio; 0 if all weights are 1; None also if the mean is near 1, see `z_score`.

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
    return z_score(mean, math.sqrt(variance / n))


def z_score(mean: float, error: float, expected: float = 1.0) -> float | None:
    """Return (mean - expected) / error, for a mean of weights and its standard error.

    Args:
        mean: of the weights.
        error: its standard error.
        expected: what the mean is if propensities are right, above 0.

    Returns:
        The ratio. None if the error is none but that of float64, or beyond it. None also if the
        ratio is 4 or more, up or down, but mean and expectation differ by at most a thousandth of
        the expectation: rounded propensities do that.

    >>> z_score(1.01, 0.001), z_score(1.0001, 0.00001), z_score(1.0001, 0.0002)
    (10.000000000000009, None, 0.4999999999999449)
    """
    if not 1e-12 * max(mean, expected) < error < math.inf:
        return None
    z = (mean - expected) / error
    if abs(z) >= FAR and abs(mean - expected) <= ROUNDING * expected:
        return None
    return z
