"""Improvement bound: by how much is a policy better than the logging policy, at least?"""

import math

import numpy as np

from piwo.bounds.mixture import FloatArray, Horizon, grid_size, lower
from piwo.checks import check_count, check_positive
from piwo.reductions.bets import BETS

__all__ = ["improvement_bets", "improvement_lower"]

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
