"""Value bounds: between which numbers is the value of a policy? The default interval of piwo."""

import math

from piwo.bounds.interval import Interval
from piwo.bounds.mixture import FloatArray, Horizon, lower
from piwo.checks import check_positive

__all__ = ["one_minus_lower", "value_interval", "value_lower", "value_upper"]


def value_lower(
    reward_sums: FloatArray, n: int, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Return the lower bound on the value, for rewards R >= 0 of any size, and without overlap.

    Args:
        reward_sums: (48,) bet sums of Y = w R.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(value_lower(bet_sums([2.0, 0.0] * 500), 1000, log_inv_delta=3.0), 4)
    0.897

    Source: docs/theory.md, section "The mixture bound".
    """
    return lower(reward_sums, n, log_inv_delta, horizon=horizon)


def value_upper(
    loss_sums: FloatArray, n: int, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Upper bound on the value for rewards in [0, 1]: 1 minus a lower bound on the losses.

    Valid without overlap, because the policy's probabilities sum to at most 1:
    v <= 1 - E[w (1 - R)].

    Args:
        loss_sums: (48,) bet sums of Y = w (1 - R).
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`.

    Returns:
        The raw bound, at most 1. Below 0 it means that the log contradicts its own propensities.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(value_upper(bet_sums([2.0, 0.0, 0.0, 0.0] * 250), 1000, log_inv_delta=3.0), 4)
    0.5863

    Source: docs/theory.md, section "The mixture bound".
    """
    return one_minus_lower(loss_sums, n, log_inv_delta, horizon)


def value_interval(
    reward_sums: FloatArray,
    loss_sums: FloatArray | None,
    n: int,
    log_inv_delta: float,
    *,
    horizon: Horizon = None,
) -> Interval:
    """Return the raw interval that contains the value with probability 1 - delta.

    Each side has half of delta.

    Args:
        reward_sums: (48,) bet sums of Y = w R.
        loss_sums: (48,) bet sums of Y = w (1 - R); None if rewards have no upper end: the interval
            then has none either, and the lower end has all of delta.
        n: number of rows.
        log_inv_delta: log(1/delta) of the whole interval; add log N for N policies at once.
        horizon: see `piwo.bounds.Horizon`.

    >>> from piwo.reductions.bets import bet_sums
    >>> wins, fails = bet_sums([2.0, 0.0, 0.0, 0.0] * 250), bet_sums([0.0, 2.0, 0.0, 0.0] * 250)
    >>> value_interval(wins, fails, 1000, log_inv_delta=3.0)
    Interval(lower=0.407..., upper=0.592..., guarantee='finite-sample')
    """
    if loss_sums is None:
        return Interval(value_lower(reward_sums, n, log_inv_delta, horizon=horizon), None)
    check_positive("log_inv_delta", log_inv_delta)
    # delta / 2 for each side
    share = log_inv_delta + math.log(2.0)
    return Interval(
        value_lower(reward_sums, n, share, horizon=horizon),
        value_upper(loss_sums, n, share, horizon=horizon),
    )


def one_minus_lower(bet_sums: FloatArray, n: int, log_inv_delta: float, horizon: Horizon) -> float:
    """Upper bound on 1 - E Y, for Y >= 0."""
    return 1.0 - lower(bet_sums, n, log_inv_delta, horizon=horizon)
