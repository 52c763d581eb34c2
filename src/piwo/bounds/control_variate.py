"""Pooled mixture bound: bets on several quantities with one mean, each raised by its own shift.

A control variate gives the value of a policy as the mean of a quantity phi that may be negative,
but never below -k: phi + k >= 0 has the mean v + k. Which control variate has the least variance is
not known beforehand, so the wealth of the bets on all of them is averaged, with weights fixed
beforehand.
"""

import math
from collections.abc import Sequence

import numpy as np

from piwo.bounds.mixture import FloatArray, Horizon, check_horizon, planned_size
from piwo.checks import check_count, check_positive, numbers
from piwo.errors import UsageError
from piwo.reductions.bets import BETS

__all__ = [
    "pool_log_prior",
    "pooled_bounds",
    "pooled_log_wealth",
    "pooled_lower",
    "pooled_lower_many",
]

_LOG_BETS = np.log(BETS)
_HALVINGS = 64
_LOG_LARGEST = math.log(np.finfo(np.float64).max)


def pooled_lower(
    bet_sums: FloatArray,
    shifts: Sequence[float] | FloatArray,
    weights: Sequence[float] | FloatArray,
    n: int,
    log_inv_delta: float,
    *,
    horizon: Horizon = None,
) -> float:
    """Lower bound on a number v >= 0 from C quantities Y_c >= 0 whose means are at most v + k_c.

        sup{ v >= 0 : log sum_c p_c (1/m) sum_j exp(S_cj - n log(1 + lambda_j (v + k_c))) >=
        log(1/delta) }

    With C = 1 and k = 0 it is `piwo.bounds.lower`.

    Args:
        bet_sums: (C, 48) sums S_cj = sum_t log(1 + lambda_j Y_ct), see `piwo.reductions.bets`.
        shifts: (C,) k_c >= 0.
        weights: (C,) p_c >= 0, fixed before looking, that sum to at most 1.
        n: number of rows, those with Y = 0 included.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: size of the grid of bets, see `piwo.bounds.Horizon`; None is n.

    Returns:
        The lower end of the bracket that the bisection ends with; 0 if nothing can be said.

    Raises:
        UsageError: for sums, shifts or weights of other shapes, or out of range.

    >>> from piwo.reductions.bets import bet_sums
    >>> plain, raised = (
    ...     bet_sums([0.0, 2.0] * 500),
    ...     bet_sums([1.5, 2.5] * 500),
    ... )  # phi = 0.5 and 1.5, k = 1
    >>> round(pooled_lower(plain[None], [0], [1], 1000, 3.0), 3)
    0.897
    >>> round(pooled_lower(np.stack([plain, raised]), [0, 1], [0.5, 0.5], 1000, 3.0), 3)
    0.947

    Source: docs/theory.md, section "Control variates".
    """
    sums = numbers("bet_sums", bet_sums)
    return float(
        pooled_lower_many(sums[None], shifts, weights, n, log_inv_delta, horizon=horizon)[0]
    )


def pooled_lower_many(
    bet_sums: FloatArray,
    shifts: Sequence[float] | FloatArray,
    weights: Sequence[float] | FloatArray,
    n: int,
    log_inv_delta: float,
    *,
    horizon: Horizon = None,
) -> FloatArray:
    """Return `pooled_lower` for N numbers v on n rows each: (N, C, 48) sums to (N,) bounds.

    >>> from piwo.reductions.bets import bet_sums
    >>> pooled_lower_many(bet_sums([1.5] * 99)[None, None], [1], [1], 99, 3.0).round(2)
    array([0.44])
    """
    check_count("n", n, 0)
    check_positive("log_inv_delta", log_inv_delta)
    check_horizon(horizon)
    sums, raised, log_weights = _checked(numbers("bet_sums", bet_sums), shifts, weights)
    size = planned_size(n, log_inv_delta, horizon)
    log_prior = pool_log_prior(log_weights, np.full(size, 1.0 / size))
    return pooled_bounds(sums[:, :, :size], raised, log_prior, n, log_inv_delta)


def pooled_bounds(
    sums: FloatArray, raised: FloatArray, log_prior: FloatArray, n: int, log_inv_delta: float
) -> FloatArray:
    """Return `pooled_lower_many` for any weights of the bets; the arguments are not checked.

    Args:
        sums: (N, C, m) bet sums.
        raised: (C,) k_c.
        log_prior: (C, m) log p_cj.
        n: number of rows.
        log_inv_delta: log(1/delta).
    """

    def surplus(log_value: FloatArray, some: FloatArray) -> FloatArray:
        return pooled_log_wealth(some, raised, log_prior, n, log_value) - log_inv_delta

    bounds = np.zeros(len(sums))
    # a number v > 0 is refuted only if v = 0 is
    at_zero = surplus(np.full(len(sums), -np.inf), sums)
    refuted = (at_zero > 0.0) & (n > 0)
    if not refuted.any():
        return bounds
    some = sums[refuted]
    # the log-wealth falls by at most n lambda_0 per unit of v
    low = np.log(at_zero[refuted]) - math.log(n) - _LOG_BETS[0]
    high = np.maximum(low, _highest(some, raised, n, log_inv_delta))
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2.0
        above = surplus(middle, some) > 0.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    bounds[refuted] = np.exp(np.minimum(low, _LOG_LARGEST))
    return bounds


def pooled_log_wealth(
    sums: FloatArray, shifts: FloatArray, log_prior: FloatArray, n: int, log_values: FloatArray
) -> FloatArray:
    """Return the log of the average wealth of all bets on all quantities, (N,), if v is as given.

        log sum_c sum_j p_cj exp(S_cj - n log(1 + lambda_j (v + k_c)))

    Args:
        sums: (N, C, m) or (1, C, m) bet sums.
        shifts: (C,) k_c.
        log_prior: (C, m) log p_cj.
        n: number of rows.
        log_values: (N,) log v; -inf for 0.
    """
    # log k_c, -inf for k_c = 0
    log_shifts = np.log(shifts, out=np.full(shifts.shape, -np.inf), where=shifts > 0.0)
    # log(1 + lambda (v + k)) without forming lambda v, which may overflow
    means = np.logaddexp(log_values[:, None], log_shifts)
    stakes = np.logaddexp(0.0, means[:, :, None] + _LOG_BETS[: sums.shape[2]])
    terms = (sums - n * stakes + log_prior).reshape(len(log_values), -1)
    peak = terms.max(axis=1)
    found: FloatArray = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
    return found


def pool_log_prior(log_weights: FloatArray, bet_weights: FloatArray) -> FloatArray:
    """Return log p_cj, (C, m): weights of quantities times those of bets, which may be 0."""
    with np.errstate(divide="ignore"):
        logs: FloatArray = log_weights[:, None] + np.log(bet_weights)
    return logs


def _highest(sums: FloatArray, shifts: FloatArray, n: int, log_inv_delta: float) -> FloatArray:
    """Return log v beyond which no bet alone reaches 1/delta, even at weight 1; (N,)."""
    growth = np.maximum(sums - log_inv_delta, 0.0) / n
    with np.errstate(divide="ignore"):
        # log((e^g - 1) / lambda) without overflow: there n log(1 + lambda (v + k)) = n g
        log_means = growth + np.log(-np.expm1(-growth)) - _LOG_BETS[: sums.shape[2]]
        means = np.exp(np.minimum(log_means, _LOG_LARGEST))
        highest: FloatArray = np.log(np.maximum(0.0, means.max(axis=2) - shifts).max(axis=1))
    return highest


def _checked(
    sums: FloatArray, shifts: Sequence[float] | FloatArray, weights: Sequence[float] | FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    raised, shares = numbers("shifts", shifts), numbers("weights", weights)
    if sums.ndim != 3 or sums.shape[1:] != (raised.size, BETS.size) or raised.shape != shares.shape:
        raise UsageError(
            f"bet sums have shape {sums.shape}, shifts {raised.shape}, weights {shares.shape}; "
            f"expected (N, C, {BETS.size}), (C,) and (C,): give one shift and one weight for each "
            "quantity"
        )
    if not (np.isfinite(sums).all() and (sums >= 0.0).all()):
        raise UsageError(
            "bet sums hold a number that is not finite or below 0; expected sums of log(1 + bet * "
            "y), y >= 0"
        )
    if not ((raised >= 0.0).all() and (shares > 0.0).all() and shares.sum() <= 1.0 + 1e-12):
        raise UsageError(
            f"shifts are {raised.tolist()} and weights {shares.tolist()}; expected shifts >= 0, "
            "and weights above 0 that sum to at most 1"
        )
    return sums, raised, np.log(shares)
