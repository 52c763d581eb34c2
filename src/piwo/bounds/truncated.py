"""Upper end of the value from truncated weights, given the probability of every action.

A row of large weight and no reward says little about the rows of large weight that were not seen:
so losses w (1 - R) need many rows. What truncation of the weights cuts off is known row by row if
the log and the policy have the probability of every action.
"""

import math

import numpy as np

from piwo.bounds.mixture import FloatArray, Horizon, check_horizon
from piwo.checks import check_count, check_positive, numbers
from piwo.errors import UsageError
from piwo.messages import argument
from piwo.reductions.bets import CAPPED_BETS, THETA

__all__ = ["highest_mean", "truncated_upper", "useful_bets"]

_HALVINGS = 100


def truncated_upper(
    bet_sums: FloatArray, n: int, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Upper bound on the value from bets on weights truncated at c_k = 2^(k-1), k = 0, 1, ....

    v <= 1 - E Y for Y = C(X) - min(w, c) R with C(x) = sum_a min(pi(a|x), c mu(a|x)), for every c:
    what truncation cuts off, 1 - C(X), is seen in each row, and is worth at most 1. A bet whose
    size goes with 1 / c cannot lose all on one row, whatever its weight:

        S_k = sum_t log(1 + lambda_k (C_k(X_t) - min(w_t, c_k) R_t)),  lambda_k = theta / c_k
        m = sup{ m >= 0 : log mean_k exp(S_k - n log(1 + lambda_k m)) >= log(1/delta) },  0 if none
        U = 1 - m

    over the K = max(1, floor(log2(theta N / log(1/delta))) + 2) largest bets, theta = 0.8.

    Args:
        bet_sums: (48,) S_k, see `piwo.reductions.control_variate`.
        n: number of rows, or units.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: number of rows N that K is for; None is n, "universal" makes K 48. If declared, the
            bound is valid at all n together.

    Returns:
        The raw bound, at most 1. It is valid with probability 1 - delta without overlap, and for
        loggers that learn, if the propensities of all actions are right.

    Raises:
        UsageError: for arguments out of range.

    Example: 600 rows, mu = (.8, .15, .05) and pi = (.2, .3, .5) in each; the actions were rewarded
    5, 2 and 0 times in 480, 90 and 30 rows. The mixture of bets on w (1 - R) gives .316.

    >>> mu, pi = np.array([0.8, 0.15, 0.05]), np.array([0.2, 0.3, 0.5])
    >>> c = 2.0 ** np.arange(-1, 47)[:, None]
    >>> lost, won = np.array([475, 88, 30]), np.array([5, 2, 0])
    >>> mass = np.minimum(pi, c * mu).sum(axis=1, keepdims=True)
    >>> paid = mass - np.minimum(pi / mu, c)
    >>> sums = lost.sum() * np.log1p(0.8 / c * mass)[:, 0] + np.log1p(0.8 / c * paid) @ won
    >>> round(truncated_upper(sums, 600, math.log(20)), 8)
    0.1765577

    Source: docs/theory.md, section "Truncated weights".
    """
    check_count("n", n, 0)
    check_positive("log_inv_delta", log_inv_delta)
    check_horizon(horizon)
    sums = numbers("bet_sums", bet_sums)
    if sums.shape != CAPPED_BETS.shape or not np.isfinite(sums).all():
        raise UsageError(
            f"{argument('bet_sums')} have shape {sums.shape}; expected {CAPPED_BETS.shape} finite "
            "sums: pass those of piwo.reductions.control_variate"
        )
    size = useful_bets(THETA, n, log_inv_delta, horizon)
    return 1.0 - highest_mean(sums[:size], CAPPED_BETS[:size], n, log_inv_delta)


def useful_bets(largest: float, n: int, log_inv_delta: float, horizon: Horizon) -> int:
    """Return K; bets below log(1/delta) / N cannot reach 1/delta in N rows.

    Args:
        largest: the bet for c = 1; those for 1/2 and 1, 2, 4, ... have it times 2, 1, 1/2, ....
        n: number of rows, which is N without a horizon.
        log_inv_delta: log(1/delta).
        horizon: see `piwo.bounds.Horizon`.

    >>> useful_bets(0.8, 600, math.log(20), None), useful_bets(0.8, 600, 3.0, "universal")
    (9, 48)
    """
    if isinstance(horizon, str):
        return len(CAPPED_BETS)
    planned = n if horizon is None else horizon
    if largest * planned < log_inv_delta:
        return 1
    # in logarithms: the ratio may be beyond float64
    useful = math.log2(largest * planned) - math.log2(log_inv_delta)
    return min(len(CAPPED_BETS), math.floor(useful) + 2)


def highest_mean(sums: FloatArray, bets: FloatArray, n: int, log_inv_delta: float) -> float:
    """Return the largest m >= 0 that the average wealth of the bets refutes; 0 if there is none.

        sup{ m : log mean_k exp(S_k - n log(1 + lambda_k m)) >= log(1/delta) }

    Args:
        sums: (K,) S_k.
        bets: (K,) lambda_k.
        n: number of rows.
        log_inv_delta: log(1/delta).

    >>> highest_mean(np.array([10.0]), np.array([1.0]), 10, 10 - 10 * math.log(1.5))
    0.5
    """
    # log of K / delta: what the sum of the wealths must reach
    goal = log_inv_delta + math.log(len(bets))

    def refuted(mean: float) -> bool:
        terms = sums - n * np.log1p(bets * mean)
        peak = float(terms.max())
        return bool(peak + math.log(np.exp(terms - peak).sum()) > goal)

    if n == 0 or not refuted(0.0):
        return 0.0
    # where no bet alone reaches 1/delta, their average does not
    low, high = 0.0, float((np.expm1(np.maximum(0.0, sums - log_inv_delta) / n) / bets).max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low
