"""Compiled loop of the deadline bets. Imported when first needed: Numba takes over a second."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_log_wealth"]

_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
# The normal quantile to 16 digits, M. J. Wichura, Algorithm AS 241, Applied Statistics 37 (1988):
# with q = p - 1/2, z = q A(r)/B(r) at r = .425^2 - q^2 in the middle; with t = sqrt(-log p),
# z = -C(r)/D(r) at r = t - 1.6 in the tail, and z = -E(r)/F(r) at r = t - 5 far out.
_A = (
    2509.0809287301226727,
    33430.575583588128105,
    67265.770927008700853,
    45921.953931549871457,
    13731.693765509461125,
    1971.5909503065514427,
    133.14166789178437745,
    3.3871328727963666080,
)
_B = (
    5226.4952788528545610,
    28729.085735721942674,
    39307.895800092710610,
    21213.794301586595867,
    5394.1960214247511077,
    687.18700749205790830,
    42.313330701600911252,
    1.0,
)
_C = (
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    0.241780725177450611770,
    1.27045825245236838258,
    3.64784832476320460504,
    5.76949722146069140550,
    4.63033784615654529590,
    1.42343711074968357734,
)
_D = (
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    0.148103976427480074590,
    0.689767334985100004550,
    1.67638483018380384940,
    2.05319162663775882187,
    1.0,
)
_E = (
    2.01033439929228813265e-7,
    2.71155556874348757815e-5,
    1.24266094738807843860e-3,
    2.65321895265761230930e-2,
    0.296560571828504891230,
    1.78482653991729133580,
    5.46378491116411436990,
    6.65790464350110377720,
)
_F = (
    2.04426310338993978564e-15,
    1.42151175831644588870e-7,
    1.84631831751005468180e-5,
    7.86869131145613259100e-4,
    1.48753612908506148525e-2,
    0.136929880922735805310,
    0.599832206555887937690,
    1.0,
)


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
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * _polynomial(_A, r) / _polynomial(_B, r)
    if q < 0.0:
        t, sign = math.sqrt(-log_p), -1.0
    else:
        # z(p) = -z(1 - p)
        t, sign = math.sqrt(-math.log(-math.expm1(log_p))), 1.0
    if t <= 5.0:
        return sign * _polynomial(_C, t - 1.6) / _polynomial(_D, t - 1.6)
    return sign * _polynomial(_E, t - 5.0) / _polynomial(_F, t - 5.0)


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
    size = len(means)
    # log(1 + lambda_j center) where it was needed, and the larger of the two bets made last
    logs, places = np.full((size, forms, count), math.nan), np.zeros(size, np.int64)
    variances, before, before2 = np.empty(forms), np.zeros(forms), np.zeros(forms)
    left, seen = planned, 0.0
    for b in range(len(rows)):
        if rows[b] == 0.0:
            continue
        # Each step waits for the one before it; those of several means are done at a time.
        for g in range(size):
            if wealth[g] >= targets[g] or left <= 0.0 or (seen == 0.0 and first == 0.0):
                continue
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
            # the bets next to it: mostly those of the block before
            j = places[g]
            while j < last and bets[j + 1] >= bet:
                j += 1
            while j > 0 and bets[j] < bet:
                j -= 1
            places[g] = j
            # q = (s - s_{j+1}) / (s_j - s_{j+1}) with s = lambda / (1 + lambda center)
            part = (bet - bets[j + 1]) / (bets[j] - bets[j + 1])
            part *= (1.0 + bets[j] * center) / (1.0 + bet * center)
            part = min(max(part, 0.0), 1.0)
            for i in (j, j + 1):
                if math.isnan(logs[g, chosen, i]):
                    logs[g, chosen, i] = math.log1p(bets[i] * center)
            x = sums[chosen, b, j] - rows[b] * logs[g, chosen, j]
            y = sums[chosen, b, j + 1] - rows[b] * logs[g, chosen, j + 1]
            if x >= y:
                wealth[g] += x + math.log(part + (1.0 - part) * math.exp(y - x))
            else:
                wealth[g] += y + math.log(part * math.exp(x - y) + (1.0 - part))
        seen += rows[b]
        left -= rows[b]
        for f in range(forms):
            before[f] += total[f, b]
            before2[f] += squares[f, b]
