"""Bound on the best value: how much could any policy of the class earn?"""

import math
from collections.abc import Sequence

from piwo.bounds.fixed_bet import score_lower
from piwo.checks import check_positive, check_sequences

__all__ = ["best_value_upper"]


def best_value_upper(
    least_loss_scores: Sequence[float], bets: Sequence[float], n: int, log_inv_delta: float
) -> float:
    """Upper bound on max over the class of v(pi), for rewards in [0, 1], best of m bet sizes.

    No policy misses less than the one that an exact oracle finds for the losses 1 - R:

        max_pi v(pi) <= min_i [ 1 - LB(min_pi Vloss_i(pi)) ]  at log(|Pi|/delta) + log m

    A surrogate oracle does not find the least loss, and gives no such bound.

    Args:
        least_loss_scores: (m,) for each bet size the smallest mean loss score over the class, of an
            admissible score.
        bets: (m,) bet sizes, fixed before looking.
        n: number of rows.
        log_inv_delta: log(|Pi|/delta).

    Returns:
        The raw bound.

    Raises:
        UsageError: for no bets, or another number of scores.

    >>> round(best_value_upper([0.4], [0.1], n=1000, log_inv_delta=3.0), 4)
    0.6231

    Source: docs/theory.md, section "Regret certificates".
    """
    check_sequences("bet size", bets=bets, least_loss_scores=least_loss_scores)
    check_positive("log_inv_delta", log_inv_delta)
    # each of the m bounds has delta / m
    share = log_inv_delta + math.log(len(bets))
    # min_i 1 - LB(min_pi Vloss_i(pi))
    return min(
        1.0 - score_lower(score, n, bet, share)
        for score, bet in zip(least_loss_scores, bets, strict=True)
    )
