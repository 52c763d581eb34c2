"""Improvement bounds: how much better is a policy than the logging policy, at least and at most?"""

import math

import numpy as np

from piwo.bounds.mixture import FloatArray, Horizon, grid_size, lower
from piwo.checks import check_count, check_non_negative, check_positive, numbers
from piwo.errors import UsageError
from piwo.messages import argument
from piwo.reductions.bets import BETS

__all__ = ["improvement_bets", "improvement_lower", "improvement_upper", "logged_value_lower"]

_WITHIN = 2.0
"""Octaves to either side within which bets weigh the same."""


def improvement_lower(
    gain_sums: FloatArray, n: int, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Lower bound on v(pi) - v(logging policy), for rewards in [0, 1].

    Much tighter than a lower bound minus an upper bound, because both values are measured on the
    same rows. If the logging policy changed over time, it is compared with the average of its
    values.

        LB(E Y) - 1,  Y = w R + 1 - R >= 0,  E Y - 1 <= v(pi) - v(mu)

    Args:
        gain_sums: (48,) bet sums of Y = w R + 1 - R.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`; None: bets are weighted as in `improvement_bets`.

    Returns:
        The raw bound, at least -1. Above 0 the improvement is certified.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(
    ...     improvement_lower(bet_sums([2.0, 1.0, 0.0, 1.0, 2.0] * 200), 1000, log_inv_delta=3.0), 4
    ... )
    0.1285

    Source: docs/theory.md, section "Improvement over the logging policy".
    """
    # LB(E[w R + 1 - R]) - 1
    prior = improvement_bets(n, log_inv_delta) if horizon is None else None
    return lower(gain_sums, n, log_inv_delta, horizon=horizon, prior=prior) - 1.0


def improvement_upper(
    gain_sums: FloatArray,
    weight_sums: FloatArray,
    n: int,
    log_inv_delta: float,
    *,
    horizon: Horizon = None,
) -> float:
    """Upper bound on v(pi) - v(logging policy), for rewards in [0, 1].

    It comes from the same sums as `improvement_lower`, and those of the weights. If the logging
    policy changed over time, it is compared with the average of its values.

        1 - LB(E Z),  Z = w (1 - R) + R >= 0,  1 - E Z >= v(pi) - v(mu)

    With Y = w R + 1 - R, Y + Z = 1 + w and Y Z - w = R (1 - R) (w - 1)^2 >= 0, so that

        log(1 + lambda Z) >= log(1 + lambda w) + log(1 + lambda) - log(1 + lambda Y),

    exact for rewards 0 and 1, and for w = 1. The sums of the right side take the place of those of
    Z.

    Args:
        gain_sums: (48,) bet sums of Y = w R + 1 - R, a row at a time: the inequality does not hold
            for means over the rows of a unit.
        weight_sums: (48,) bet sums of w.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`; None: bets are weighted as in `improvement_bets`.

    Returns:
        The raw bound, at most 1. Below 0 the policy is certified worse.

    >>> from piwo.reductions.bets import bet_sums
    >>> w, r = np.array([2.0, 0.0] * 500), np.array([0.0, 1.0] * 500)
    >>> round(improvement_upper(bet_sums(w * r + 1 - r), bet_sums(w), 1000, log_inv_delta=3.0), 4)
    -0.4537

    Source: docs/theory.md, section "Improvement over the logging policy".
    """
    gains, weights = numbers("gain_sums", gain_sums), numbers("weight_sums", weight_sums)
    check_count("n", n, 0)
    shape = BETS.shape
    for name, given in (("gain_sums", gains), ("weight_sums", weights)):
        if given.shape != shape:
            raise UsageError(f"{argument(name)} has shape {given.shape}; expected {shape}")
    # log(1 + lambda w) + log(1 + lambda) - log(1 + lambda Y) >= log(1 + lambda min(w, 1)) >= 0, but
    # for rounding
    sums = np.maximum(0.0, weights + n * np.log1p(BETS) - gains)
    prior = improvement_bets(n, log_inv_delta) if horizon is None else None
    return 1.0 - lower(sums, n, log_inv_delta, horizon=horizon, prior=prior)


def logged_value_lower(
    earned: float, n: int, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Lower bound on the value of the logging policy, for rewards in [0, 1], from their sum.

    If the logging policy changed over time, on the average of its values. For rewards 0 and 1 it is
    the mixture bound on their mean; others pay for what the sum does not say.

        LB(E R) with S_j = (sum R) log(1 + lambda_j) <= sum log(1 + lambda_j R)

    Args:
        earned: the sum of the rewards, at most n.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`.

    Returns:
        The bound, at least 0.

    Raises:
        UsageError: for a sum that cannot be.

    >>> round(logged_value_lower(300.0, 1000, log_inv_delta=3.0), 4)
    0.2541

    Source: docs/theory.md, section "Improvement over the logging policy".
    """
    check_non_negative("earned", earned)
    check_count("n", n, 0)
    # sums over many rows in another order may differ in the last digits
    if earned > n * (1.0 + 1e-9):
        raise UsageError(
            f"{argument('earned')} is {earned:g}, expected at most {n}, the number of rows: "
            "rewards in [0, 1]"
        )
    # log(1 + lambda R) >= R log(1 + lambda), by concavity
    return lower(min(earned, float(n)) * np.log1p(BETS), n, log_inv_delta, horizon=horizon)


def improvement_bets(n: int, log_inv_delta: float) -> FloatArray:
    """Return the weights of the bets on an improvement, (m,).

    They favor bets that can prove a gain that is just provable.

    If Y has mean near 1 and deviation sigma, the smallest gain that n rows can prove is proved
    by the bet sqrt(2 log(1/delta)/n)/sigma. The bets for sigma from 1/4 to 4 have equal weights,
    those an octave further off half, and so on. All is known before the rows are seen.

        p_j proportional to 2^-max(0, |log2(lambda_j / lambda°)| - 2),  lambda° = sqrt(2
        log(1/delta)/n)

    Args:
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.

    >>> improvement_bets(800, 4.0).round(2).tolist()
    [0.0, 0.0, 0.01, 0.01, 0.03, 0.06, 0.12, 0.15, 0.15, 0.15, 0.15, 0.09, 0.05, 0.02]

    Source: docs/theory.md, section "Improvement over the logging policy".
    """
    check_count("n", n, 0)
    check_positive("log_inv_delta", log_inv_delta)
    # log2 lambda°
    best = 0.5 * (1.0 + math.log2(log_inv_delta) - math.log2(max(n, 1)))
    # log2(lambda_j / lambda°)
    octaves = np.log2(BETS[: grid_size(n, log_inv_delta)]) - best
    distance = np.maximum(0.0, np.abs(octaves) - _WITHIN)
    # 2^-distance, with the largest weight 1
    weights = np.exp2(distance.min() - distance)
    shares: FloatArray = weights / weights.sum()
    return shares
