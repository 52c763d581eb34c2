"""Compiled loop of the deadline bets. Imported when first needed: Numba takes over a second."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_log_wealth"]

_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
# Acklam's rational approximation of the normal quantile, relative error 1.2e-9: in the middle
# z = t A(t^2) / B(t^2) with t = p - 1/2, in the tail z = C(t) / D(t) with t = sqrt(-2 log p).
_A = (
    -3.969683028665376e01,
    2.209460984245205e02,
    -2.759285104469687e02,
    1.383577518672690e02,
    -3.066479806614716e01,
    2.506628277459239e00,
)
_B = (
    -5.447609879822406e01,
    1.615858368580409e02,
    -1.556989798598866e02,
    6.680131188771972e01,
    -1.328068155288572e01,
    1.0,
)
_C = (
    -7.784894002430293e-03,
    -3.223964580411365e-01,
    -2.400758277161838e00,
    -2.549732539343734e00,
    4.374664141464968e00,
    2.938163982698783e00,
)
_D = (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00, 3.754408661907416e00, 1.0)
_TAIL = 0.02425


@njit(cache=True)
def _polynomial(coefficients: Any, x: float) -> float:
    total = 0.0
    for one in coefficients:
        total = total * x + one
    return total


@njit(cache=True)
def _quantile(log_p: float) -> float:
    """Return z with Phi(z) = exp(log_p), for log_p from -600 to 0."""
    p = math.exp(log_p)
    log_tail, sign = log_p, 1.0
    if p > 0.5:
        # z(p) = -z(1 - p)
        p = -math.expm1(log_p)
        log_tail, sign = math.log(p), -1.0
    if p < _TAIL:
        t = math.sqrt(-2.0 * log_tail)
        z = _polynomial(_C, t) / _polynomial(_D, t)
    else:
        t = p - 0.5
        z = t * _polynomial(_A, t * t) / _polynomial(_B, t * t)
    # one step of Halley's method
    step = (0.5 * math.erfc(-z / math.sqrt(2.0)) - p) * _ROOT_TWO_PI * math.exp(0.5 * z * z)
    return sign * (z - step / (1.0 + 0.5 * z * step))


@njit(cache=True)
def _hedge(log_p: float) -> float:
    """Return phi(z)/p for p = Phi(z), without forming p, which may underflow."""
    if log_p < -600.0:
        return math.sqrt(-2.0 * log_p)
    z = _quantile(min(log_p, -1e-15))
    return math.exp(-0.5 * z * z - log_p) / _ROOT_TWO_PI


@njit(cache=True)
def _blended_variance(center: float, seen: float, total: float, squares: float) -> float:
    """Return V of `piwo.bounds.deadline.log_wealth`."""
    if total <= 0.0:
        return center
    if squares == math.inf:
        return math.inf
    # N, the effective number of earlier rows with Y > 0
    effective = total * (total / squares)
    around = max(squares - 2.0 * center * total + seen * (center * center), 0.0)
    rare = max(center * (squares / total) - center * center, 0.0)
    deviations = (around + center * center / 4.0) / (seen + 1.0)
    return max((effective * deviations + rare) / (effective + 1.0), 1e-12 * center * center)


@njit(cache=True)
def _prior_variance(
    mean: float, center: float, prior: float, seen: float, t: float, q: float
) -> float:
    """Return V if prior rows are given, see `piwo.bounds.deadline.Design`."""
    around = max(q - 2.0 * center * t + seen * (center * center), 0.0)
    return max((around + prior * max(mean / 4.0, 1e-3)) / (seen + prior), 1e-9)


@njit(cache=True, error_model="numpy")
def _bet(stake: float, cap: float, center: float, largest: float, smallest: float) -> float:
    """Return lambda with lambda/(1 + lambda center) = min(stake, cap/center), within its range."""
    # also for a center of 1e300, and a stake of infinity on one of 1e-310
    if stake * center >= cap:
        bet = cap / (1.0 - cap) / center
    else:
        bet = stake / (1.0 - stake * center)
    return min(max(bet, smallest), largest)


@njit(nogil=True, cache=True, error_model="numpy")
def add_log_wealth(  # noqa: C901 - one loop nest, compiled whole
    means: Any,
    targets: Any,
    rows: Any,
    total: Any,
    squares: Any,
    sums: Any,
    bets: Any,
    shifts: Any,
    planned: float,
    constants: Any,
    wealth: Any,
) -> None:
    """Add log W(v) to `wealth`, (G,), for each of the means v; see `piwo.bounds.deadline`.

    Args:
        means: (G,).
        targets: (G,).
        rows: (B,).
        total: (F, B).
        squares: (F, B).
        sums: (F, B, J).
        bets: (J,), falling by a constant factor.
        shifts: (F,).
        planned: number of rows.
        constants: cap, factor, aim, prior rows (0: the blended variance), first block bet on.
        wealth: (G,) zeros.
    """
    cap, factor, aim, prior, first = constants
    forms, count, last = len(shifts), len(bets), len(bets) - 2
    spacing = math.log(bets[0] / bets[1])
    variances = np.empty(forms)
    for g in range(len(means)):
        left, seen = planned, 0.0
        before, before2 = np.zeros(forms), np.zeros(forms)
        for b in range(len(rows)):
            if rows[b] == 0.0:
                continue
            if wealth[g] >= targets[g]:
                break
            if left > 0.0 and (seen > 0.0 or first > 0.0):
                hedge = _hedge(wealth[g] - targets[g] - aim)
                least = math.inf
                for f in range(forms):
                    center = means[g] + shifts[f]
                    if prior > 0.0:
                        v = _prior_variance(means[g], center, prior, seen, before[f], before2[f])
                    else:
                        v = _blended_variance(center, seen, before[f], before2[f])
                    variances[f] = v
                    least = min(least, v)
                # the drift that the option expects of the best form
                drift = hedge * math.sqrt(least / left)
                chosen, bet, most = 0, 0.0, -math.inf
                for f in range(forms):
                    center = means[g] + shifts[f]
                    stake = factor * hedge / math.sqrt(variances[f] * left)
                    one = _bet(stake, cap, center, bets[0], bets[count - 1])
                    s = one / (1.0 + one * center)
                    growth = s * drift
                    if variances[f] < math.inf:
                        growth -= 0.5 * s * s * variances[f]
                    # a form must be better by more than rounding to be preferred to earlier ones
                    if f == 0 or growth > most + 1e-9 * abs(most):
                        chosen, bet, most = f, one, growth
                center = means[g] + shifts[chosen]
                j = min(max(math.floor(math.log(bets[0] / bet) / spacing), 0), last)
                # q = (s - s_{j+1}) / (s_j - s_{j+1}) with s = lambda / (1 + lambda center)
                part = (bet - bets[j + 1]) / (bets[j] - bets[j + 1])
                part *= (1.0 + bets[j] * center) / (1.0 + bet * center)
                part = min(max(part, 0.0), 1.0)
                x = sums[chosen, b, j] - rows[b] * math.log1p(bets[j] * center)
                y = sums[chosen, b, j + 1] - rows[b] * math.log1p(bets[j + 1] * center)
                peak = max(x, y)
                won = part * math.exp(x - peak) + (1.0 - part) * math.exp(y - peak)
                wealth[g] += peak + math.log(won)
            seen += rows[b]
            left -= rows[b]
            for f in range(forms):
                before[f] += total[f, b]
                before2[f] += squares[f, b]
