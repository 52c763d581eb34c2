"""Gamma-exponential mixture: a confidence sequence from two sums. For comparison."""

import math

from piwo.checks import check_count, check_non_negative, check_positive

__all__ = ["gamma_exponential_lower"]

_RHO = 1.0
_STEPS = 60


def gamma_exponential_lower(total: float, squares: float, n: int, log_inv_delta: float) -> float:
    """Lower bound on the mean, at most 1, of Y >= 0, valid at every n together.

    The classical confidence sequence of streaming counters: the count, the sum and the sum of
    squares are all that it keeps, and Y needs no upper bound, unlike in an empirical Bernstein
    bound. `lower` is narrower nearly everywhere, most of all if rewards are rare.

    For the true mean m <= 1, exp(lam (Y - m) - psi(lam) (Y - m)^2) with psi(lam) = -log(1 - lam) -
    lam is at most 1 + lam (Y - m) for all lam in [0, 1). Mixed over lam with density proportional
    to (1 - lam)^(rho - 1) exp(-rho (1 - lam)), the product over rows is, with s = sum (Y - m), V =
    sum (Y - m)^2, rho = 1,

        log W(m) = s + V + rho log rho - (V + rho) log(s + V + rho) + log G(V + rho, s + V + rho) -
        log G(rho, rho)

    where G is the lower incomplete gamma function, not normalized. A mean m is ruled out if log
    W(m) >= log(1/delta); V is centered at the m in question rather than at a running mean: the
    order of the rows plays no part.

    Args:
        total: sum of Y.
        squares: sum of Y^2; infinity if it is beyond float64.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.

    Returns:
        A number in [0, 1]; 0 says nothing.

    >>> round(gamma_exponential_lower(500.0, 500.0, n=1000, log_inv_delta=3.0), 4)
    0.444

    Source: Howard, Ramdas, McAuliffe, Sekhon 2021 (arXiv 1810.08240), Proposition 9 for the
    mixture, Theorem 4 for the inequality, which is that of Fan, Grama, Liu 2015.
    """
    check_count("n", n, 1)
    check_non_negative("total", total)
    check_non_negative("squares", squares)
    check_positive("log_inv_delta", log_inv_delta)
    if not math.isfinite(squares) or _log_mixture(0.0, total, squares, n) < log_inv_delta:
        return 0.0
    kept, ruled_out = min(1.0, total / n), 0.0
    if _log_mixture(kept, total, squares, n) >= log_inv_delta:
        # no mean up to 1 is left: the mean is above 1, contrary to the assumption
        return 1.0
    # log W rises at most once and then falls, so an interval [0, m] of means is ruled out
    for _ in range(_STEPS):
        middle = 0.5 * (kept + ruled_out)
        if _log_mixture(middle, total, squares, n) >= log_inv_delta:
            ruled_out = middle
        else:
            kept = middle
    return ruled_out


def _log_mixture(mean: float, total: float, squares: float, n: int) -> float:
    """Return log W(m), for m up to the mean of the rows."""
    from scipy.special import gammainc

    # s = sum (Y - m) and a = V + rho
    s = max(0.0, total - n * mean)
    a = max(0.0, squares - 2.0 * mean * total + n * mean * mean) + _RHO
    # log G(a, a + s) - a log(a + s) + a + s, without differences of large numbers
    x = s / a
    seen = _log_gamma_excess(a) + a * (x - math.log1p(x)) + math.log(gammainc(a, a + s))
    # minus the same at s = 0 and a = rho
    return seen - _log_gamma_excess(_RHO) - math.log(gammainc(_RHO, _RHO))


def _log_gamma_excess(a: float) -> float:
    """Return log Gamma(a) - a log a + a."""
    if a > 1e4:
        # Stirling's series
        return 0.5 * math.log(2.0 * math.pi / a) + 1.0 / (12.0 * a)
    return math.lgamma(a) - a * math.log(a) + a
