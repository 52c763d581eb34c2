"""Mixture bound on a mean, from which value, improvement and missing-mass bounds are made.

For Y >= 0 with mean v and a bet size lambda, prod_t (1 + lambda Y_t)/(1 + lambda v) is the wealth
of a fair bet: it is 1 on average and, by Ville's inequality, ever reaches 1/delta with probability
at most delta. Averaging the wealth over a grid of bets keeps this and removes the choice of lambda.
The bound is the largest v that the average refutes.

It needs no bound on Y, is valid at the given n (or at all n, see `Horizon`), and also if the
logging policy learns.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from piwo.bounds.union import log_inv_delta as log_inverse
from piwo.checks import check_count, check_non_negative, check_positive, is_whole, numbers, shown
from piwo.errors import UsageError
from piwo.messages import argument
from piwo.reductions.bets import BETS
from piwo.reductions.bets import bet_sums as sum_bets

__all__ = [
    "Horizon",
    "check_horizon",
    "grid_size",
    "lcb_mean",
    "log_e_value",
    "lower",
    "lower_many",
    "planned_size",
]

FloatArray = NDArray[np.float64]

#: How many bets the mixture is over; to be fixed before looking at the data.
#: None: as many as suit the given n; for one analysis of a log of fixed size, valid at that n only.
#: An integer: as many as suit that many rows; "universal": all 48. Both are valid at all n, so one
#: may look again.
Horizon = int | Literal["universal"] | None

_LOG_BETS = np.log(BETS)
# The bracket is at most about 1500 wide in log v, and 1500 / 2^64 is below the rounding of log v.
_HALVINGS = 64
_LOG_LARGEST = math.log(np.finfo(np.float64).max)


def grid_size(horizon: int, log_inv_delta: float) -> int:
    """Return the number m of bets that a log of `horizon` rows can make use of, at most 48.

    The best bet of a log of N rows is hardly ever below log(1/delta)/N; smaller ones would only
    increase log m.

        m = max(1, ceil(log2(32 N / log(1/delta))) + 1)

    Args:
        horizon: number of rows N, fixed before looking.
        log_inv_delta: log(1/delta).

    >>> grid_size(600, 2.9957)
    14
    """
    check_count("horizon", horizon, 0)
    check_positive("log_inv_delta", log_inv_delta)
    if horizon == 0:
        return 1
    # log2(lambda_0 N / log(1/delta)), lambda_0 = 32
    octaves = math.log2(BETS[0]) + math.log2(horizon) - math.log2(log_inv_delta)
    return min(BETS.size, max(1, math.ceil(octaves) + 1))


def lower(
    bet_sums: FloatArray,
    n: int,
    log_inv_delta: float,
    *,
    horizon: Horizon = None,
    upper_end: float = math.inf,
    prior: ArrayLike | None = None,
) -> float:
    """Lower bound on the mean of Y >= 0 that is valid with probability 1 - delta.

        sup{ v >= 0 : log sum_j p_j exp(S_j - n log(1 + lambda_j v)) >= log(1/delta) },  0 if there
        is none

    Args:
        bet_sums: (48,) sums S_j = sum_t log(1 + lambda_j Y_t), see `piwo.reductions.bets`.
        n: number of rows, those with Y = 0 included.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: size of the grid of bets, see `Horizon`; None is n.
        upper_end: a number that the bound is known not to exceed, such as the mean of Y. It only
            changes the last digits; infinity is fine.
        prior: weights p_j >= 0 of the first bets, summing to at most 1, instead of 1/m; excludes
            `horizon`.

    Returns:
        The lower end of the bracket that the bisection ends with, so rounding errs toward 0. Never
        negative.

    Raises:
        UsageError: sums that are not 48 finite numbers >= 0, or an argument out of range.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(lower(bet_sums([0.5, 1.0, 0.0, 2.0] * 50), 200, log_inv_delta=3.0), 4)
    0.7152

    Source: docs/theory.md, section "The mixture bound"; the bet of fixed size is Cor. 5 of arXiv
    2405.14335.
    """
    sums = numbers("bet_sums", bet_sums)
    if sums.ndim != 1:
        raise UsageError(
            f"{argument('bet_sums')} has shape {sums.shape}; expected ({BETS.size},): use "
            "lower_many for several at once"
        )
    bounds = lower_many(
        sums[None, :], n, log_inv_delta, horizon=horizon, upper_end=upper_end, prior=prior
    )
    return float(bounds[0])


def lower_many(
    bet_sums: FloatArray,
    n: int,
    log_inv_delta: float,
    *,
    horizon: Horizon = None,
    upper_end: float = math.inf,
    prior: ArrayLike | None = None,
) -> FloatArray:
    """Return `lower` for N quantities measured on the same n rows: (N, 48) sums to (N,) bounds.

    Each bound is valid with probability 1 - delta by itself; for all N together pass log(N/delta),
    see `piwo.bounds.log_inv_delta`.

    >>> from piwo.reductions.bets import bet_sums
    >>> lower_many(
    ...     np.stack([bet_sums(np.ones(99)), bet_sums(np.zeros(99))]), 99, log_inv_delta=3.0
    ... ).round(3)
    array([0.957, 0.   ])
    """
    check_count("n", n, 0)
    check_positive("log_inv_delta", log_inv_delta)
    check_non_negative("upper_end", upper_end)
    sums = _checked_sums(bet_sums, n)
    log_prior = _log_prior(n, log_inv_delta, horizon, prior)
    sums = sums[:, : log_prior.size]
    bounds = np.zeros(len(sums))
    # log sum_j p_j exp(S_j) - log(1/delta), the excess at v = 0
    surplus = _log_sum_exp(sums + log_prior) - log_inv_delta
    refuted = surplus > 0.0
    if upper_end == 0.0 or not refuted.any():
        return bounds
    low, high = _bracket(sums[refuted], surplus[refuted], n, log_inv_delta, log_prior)
    high = np.minimum(high, math.log(upper_end))
    low = _bisect(sums[refuted], n, log_inv_delta, log_prior, np.minimum(low, high), high)
    bounds[refuted] = np.exp(np.minimum(low, _LOG_LARGEST))
    return bounds


def log_e_value(bet_sums: FloatArray, n: int, null_mean: float) -> float:
    """Return the log e-value against "the mean of Y is at most null_mean", over all 48 bets.

    Under the hypothesis the e-value is at most 1 on average, so 1/e is a p-value, at all n
    together; e-values of several tests may be averaged, and go into the e-BH procedure under any
    dependence.

        log E = log mean_j exp(S_j - n log(1 + lambda_j null_mean))

    >>> from piwo.reductions.bets import bet_sums
    >>> round(log_e_value(bet_sums(np.full(20, 3.0)), 20, null_mean=1.0), 3)
    18.432

    Source: docs/theory.md, section "The mixture bound".
    """
    check_count("n", n, 0)
    check_non_negative("null_mean", null_mean)
    sums = _checked_sums(numbers("bet_sums", bet_sums)[None], n)
    if null_mean == math.inf:
        return -math.inf
    log_mean = -math.inf
    if null_mean > 0.0:
        log_mean = math.log(null_mean)
    # equal weights, 1/m
    log_prior = np.full(BETS.size, -math.log(BETS.size))
    return float(_log_wealth(sums, n, log_prior, np.array([log_mean]))[0])


def lcb_mean(y: ArrayLike, delta: float, horizon: Horizon = None) -> float:
    """Lower bound, valid with probability 1 - delta, on the mean of numbers y >= 0 of any size.

    Prefer it to a bound that needs the largest possible y, which for importance weights is enormous
    or unknown. y_t may depend on the past; the bound is then on the average of its conditional
    means.

    Args:
        y: (n,) finite numbers >= 0, such as weight times reward.
        delta: chance of error, in (0, 1); for a lower and an upper bound that hold together give
            each delta/2.
        horizon: None for one analysis at this n; to look again as rows come in, a number of rows
            declared in advance or "universal", see `Horizon`.

    Returns:
        The bound, in the unit of y; 0 if nothing can be said.

    Raises:
        UsageError: y is not one-dimensional, not numeric, or has a value that is not finite or
            below 0.

    >>> round(lcb_mean([0.0, 2.0, 1.0, 0.5] * 100, delta=0.05), 4)
    0.7586

    Source: docs/theory.md, section "The mixture bound".
    """
    penalty = log_inverse(delta)
    values = _checked_values(y)
    return lower(sum_bets(values), values.size, penalty, horizon=horizon)


def _log_sum_exp(terms: FloatArray) -> FloatArray:
    # subtracting the maximum keeps the exponentials within float64
    peak: FloatArray = terms.max(axis=-1)
    total: FloatArray = peak + np.log(np.exp(terms - peak[..., None]).sum(axis=-1))
    return total


def _log_wealth(
    sums: FloatArray, n: int, log_prior: FloatArray, log_mean: FloatArray
) -> FloatArray:
    """Return the log of the average wealth if the mean is exp(log_mean), (N,); it falls in it."""
    # log(1 + lambda v) without forming lambda v, which may overflow
    stakes = np.logaddexp(0.0, _LOG_BETS[: log_prior.size] + log_mean[:, None])
    # log sum_j p_j exp(S_j - n log(1 + lambda_j v))
    return _log_sum_exp(sums - n * stakes + log_prior)


def _bracket(
    sums: FloatArray, surplus: FloatArray, n: int, log_inv_delta: float, log_prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the logs of two means between which the wealth falls to 1/delta.

    `surplus` is the excess of the log-wealth at 0.
    """
    # one bet alone, with its share of the prior, proves the lower end; so the mixture is never
    # below the union bound over bets
    alone = _log_single_bet(sums + log_prior - log_inv_delta, n)
    # the log-wealth falls by at most n lambda_0 per unit of the mean
    near_zero = np.log(surplus) - math.log(n) - _LOG_BETS[0]
    low: FloatArray = np.maximum(alone, near_zero)
    # where no bet alone reaches 1/delta at weight 1, their average does not
    return low, np.maximum(low, _log_single_bet(sums - log_inv_delta, n))


def _log_single_bet(excess: FloatArray, n: int) -> FloatArray:
    """Return the largest log v over bets with n log(1 + lambda v) = excess, -inf if excess <= 0."""
    growth = np.maximum(excess, 0.0) / n
    with np.errstate(divide="ignore"):
        # log((e^g - 1) / lambda) without overflow, g = excess / n
        logs = growth + np.log(-np.expm1(-growth)) - _LOG_BETS[: excess.shape[1]]
    best: FloatArray = logs.max(axis=1)
    return best


def _bisect(
    sums: FloatArray,
    n: int,
    log_inv_delta: float,
    log_prior: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Return the log of the bracket's lower end after halving; the wealth there is over 1/delta."""
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2.0
        above = _log_wealth(sums, n, log_prior, middle) > log_inv_delta
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


def check_horizon(horizon: object) -> None:
    """Demand None, "universal", or a number of rows of at least 1.

    >>> check_horizon(100)
    """
    text = isinstance(horizon, str) and horizon == "universal"
    counted = is_whole(horizon) and 1 <= horizon <= 2**63  # type: ignore[operator]
    if not (horizon is None or text or counted):
        raise UsageError(
            f"{argument('horizon')} is {shown(horizon)}; expected a number of rows from 1 to 2^63, "
            "'universal' or None: fix it before looking"
        )


def planned_size(n: int, log_inv_delta: float, horizon: Horizon) -> int:
    """Return the number of bets for a horizon that was declared, None for n rows.

    >>> planned_size(600, 2.9957, None), planned_size(600, 2.9957, "universal")
    (14, 48)
    """
    if horizon is None:
        return grid_size(n, log_inv_delta)
    if isinstance(horizon, str):
        return int(BETS.size)
    return grid_size(horizon, log_inv_delta)


def _log_prior(
    n: int, log_inv_delta: float, horizon: Horizon, prior: ArrayLike | None
) -> FloatArray:
    if prior is None:
        check_horizon(horizon)
        size = planned_size(n, log_inv_delta, horizon)
        return np.full(size, -math.log(size))
    if horizon is not None:
        raise UsageError(
            "prior and horizon were both given; expected one: the length of the prior is the size "
            "of the grid"
        )
    weights = numbers("prior", prior)
    if weights.ndim != 1 or not 1 <= weights.size <= BETS.size:
        raise UsageError(
            f"{argument('prior')} has shape {weights.shape}; expected up to {BETS.size} weights: "
            "give one for each bet"
        )
    if not (np.all(weights >= 0.0) and 0.0 < weights.sum() <= 1.0 + 1e-12):
        raise UsageError(
            f"prior sums to {weights.sum()}; expected weights >= 0 that sum to at most 1: divide "
            "by the sum"
        )
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _checked_sums(bet_sums: FloatArray, n: int) -> FloatArray:
    sums = numbers("bet_sums", bet_sums)
    if sums.ndim != 2 or sums.shape[1] != BETS.size:
        raise UsageError(
            f"{argument('bet_sums')} has shape {sums.shape}; expected (N, {BETS.size}): pass one "
            "sum for each bet size"
        )
    if not (np.all(np.isfinite(sums)) and np.all(sums >= 0.0)):
        raise UsageError(
            "bet_sums holds a number that is not finite or below 0; expected sums of log(1 + bet "
            "* y), y >= 0"
        )
    if n == 0 and sums.any():
        raise UsageError(
            "n is 0 but bet_sums is not; expected the number of rows that were summed: pass it as n"
        )
    return sums


def _checked_values(y: ArrayLike) -> FloatArray:
    values = numbers("y", y, "a one-dimensional array of numbers")
    if values.ndim != 1:
        raise UsageError(
            f"{argument('y')} has shape {values.shape}; expected one dimension: pass one number "
            "for each row"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0.0)))
    if bad.size:
        shown = ", ".join(f"row {row}: {values[row]}" for row in bad[:3])
        raise UsageError(
            f"y has {bad.size} of {values.size} values that are not finite or below 0 ({shown}); "
            "expected numbers >= 0: map costs or negative rewards to [0, 1] first"
        )
    return values
