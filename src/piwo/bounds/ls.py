"""LS bounds on the value from logarithmic smoothing, for rewards >= 0 and one lambda > 0.

V = mean_t log(1 + lambda w_t R_t)/lambda, or in the form that is linear in the policy mean_t
pi(A_t|X_t) log(1 + lambda R_t/mu_t)/lambda. Both are admissible scores, never below IX at lambda =
2 gamma and at the same penalty. lambda is fixed before looking; `piwo.bounds.value_lower` averages
over lambda instead.
"""

from collections.abc import Sequence

from piwo.bounds.fixed_bet import score_interval, score_lower
from piwo.bounds.interval import Interval

__all__ = ["ls_interval", "ls_lower"]


def ls_lower(value_ls: float, n: int, bet: float, log_inv_delta: float) -> float:
    """Lower bound on the value from an LS or LS-linear estimate, exact inverse.

        ( exp(lambda V - log(1/delta)/n) - 1 ) / lambda

    Args:
        value_ls: LS or LS-linear estimate V.
        n: number of rows.
        bet: lambda > 0.
        log_inv_delta: log(1/delta) of this one statement.

    Returns:
        The raw bound, above -1/lambda.

    >>> round(ls_lower(3.2025251116, n=6, bet=0.2, log_inv_delta=2.995732273554), 8)
    0.7583687

    Source: arXiv 2405.14335, Cor. 5 and Eq. (12).
    """
    return score_lower(value_ls, n, bet, log_inv_delta)


def ls_interval(
    values: Sequence[float],
    loss_values: Sequence[float],
    bets: Sequence[float],
    n: int,
    log_inv_delta: float,
) -> Interval:
    """Return the interval of the value from LS estimates of R and of 1 - R, best of m lambdas.

    See `piwo.bounds.score_interval`.

    >>> ls_interval([0.5], [0.4], [0.1], n=1000, log_inv_delta=3.0).says_nothing_above()
    False
    """
    return score_interval(values, loss_values, bets, n, log_inv_delta)
