"""Fixed-bet bound: a lower bound on the value from the mean of an admissible score.

A score rho is admissible when 0 <= rho <= log(1 + lambda Y)/lambda for Y = weight times reward;
then E exp(lambda rho) <= 1 + lambda v, and Markov's inequality does the rest. IX with lambda = 2
gamma, LS, LS-linear and the corrected clips are; plain clipping is not. lambda must be fixed before
looking at the data.
"""

import math
import sys
from collections.abc import Sequence

from piwo.bounds.interval import Interval
from piwo.checks import check_count, check_finite, check_positive, check_sequences

__all__ = ["floor_at_zero", "score_interval", "score_linear_lower", "score_lower"]

_LOG_LARGEST = math.log(sys.float_info.max)


def score_linear_lower(mean_score: float, n: int, bet: float, log_inv_delta: float) -> float:
    """Lower bound on the value in the linear form of papers; `score_lower` is never below it.

        V - log(1/delta)/(lambda n)

    Returns:
        The raw bound; negative if it says nothing. The arguments are those of `score_lower`.

    >>> round(score_linear_lower(0.5, n=1000, bet=0.1, log_inv_delta=3.0), 6)
    0.47
    """
    _check(mean_score, n, bet, log_inv_delta)
    return mean_score - log_inv_delta / (bet * n)


def score_lower(mean_score: float, n: int, bet: float, log_inv_delta: float) -> float:
    """Lower bound on the value with the exact inverse: never below the linear form, same guarantee.

        ( exp(lambda V - log(1/delta)/n) - 1 ) / lambda

    Args:
        mean_score: V, the mean of an admissible score over n rows.
        n: number of rows.
        bet: lambda > 0.
        log_inv_delta: log(1/delta) of this one statement.

    Returns:
        The raw bound, above -1/lambda; negative if it says nothing, see `floor_at_zero`.

    Raises:
        UsageError: an argument is out of range, or n is 0.

    >>> round(score_lower(0.5, n=1000, bet=0.1, log_inv_delta=3.0), 6)
    0.481219

    Source: docs/theory.md, section "Admissible scores"; sharpens Lemma 1 of arXiv 2309.15771.
    """
    _check(mean_score, n, bet, log_inv_delta)
    # lambda V - log(1/delta)/n
    growth = bet * mean_score - log_inv_delta / n
    # if the exponential would overflow, the largest float is below the bound, so it is a bound too
    return min(math.expm1(min(growth, _LOG_LARGEST)) / bet, sys.float_info.max)


def floor_at_zero(raw: float) -> float:
    """Return the bound to report if the value cannot be negative; keep the raw one as well.

    >>> floor_at_zero(-13.311995)
    0.0
    """
    check_finite("raw", raw)
    return max(0.0, raw)


def score_interval(
    reward_scores: Sequence[float],
    loss_scores: Sequence[float],
    bets: Sequence[float],
    n: int,
    log_inv_delta: float,
) -> Interval:
    """Interval of the value of a policy for rewards in [0, 1], best of m bet sizes.

    The upper end is one minus the lower bound on the value of the losses 1 - R. Each of the 2m
    bounds includes a penalty log(2m), so the best may be taken. `piwo.bounds.value_interval` needs
    no bet sizes and is usually narrower.

        [ max_i LB(V_i),  min_i 1 - LB(Vloss_i) ]  at log(1/delta) + log(2m)

    Args:
        reward_scores: (m,) mean scores of the rewards R, one for each bet size.
        loss_scores: (m,) mean scores of the losses 1 - R.
        bets: (m,) bet sizes, fixed before looking.
        n: number of rows.
        log_inv_delta: log(1/delta) of the whole interval; add log N for N policies at once.

    Returns:
        The raw interval.

    >>> score_interval([0.5], [0.4], [0.1], n=1000, log_inv_delta=3.0)
    Interval(lower=0.473..., upper=0.630..., guarantee='finite-sample')

    Source: docs/theory.md, section "Admissible scores".
    """
    check_sequences("bet size", bets=bets, reward_scores=reward_scores, loss_scores=loss_scores)
    check_positive("log_inv_delta", log_inv_delta)
    # each of the 2m bounds has delta / (2m)
    share = log_inv_delta + math.log(2 * len(bets))
    lowers = [
        score_lower(score, n, bet, share) for score, bet in zip(reward_scores, bets, strict=True)
    ]
    uppers = [
        1.0 - score_lower(score, n, bet, share)
        for score, bet in zip(loss_scores, bets, strict=True)
    ]
    return Interval(max(lowers), min(uppers))


def _check(mean_score: float, n: int, bet: float, log_inv_delta: float) -> None:
    check_finite("the mean score", mean_score)
    check_count("n", n, 1)
    check_positive("the bet size", bet)
    check_positive("log_inv_delta", log_inv_delta)
