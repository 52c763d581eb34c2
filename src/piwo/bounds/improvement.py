"""Improvement bound: is a policy better than the one that wrote the log, and by how much at least?"""

from piwo.bounds.mixture import FloatArray, Horizon, lower

__all__ = ["improvement_lower"]


def improvement_lower(gain_sums: FloatArray, n: int, log_inv_delta: float, *, horizon: Horizon = None) -> float:
    """Lower bound on v(pi) - v(logging policy), for rewards in [0, 1].

    Much tighter than a lower bound minus an upper bound, because both values are measured on the same rows.
    If the logging policy changed over time, it is compared with the average of its values.

        LB(E Y) - 1,  Y = w R + 1 - R >= 0,  E Y - 1 <= v(pi) - v(mu)

    Args:
        gain_sums: (48,) bet sums of Y = w R + 1 - R.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`.

    Returns:
        The raw bound, at least -1. Above 0 the improvement is certified.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(improvement_lower(bet_sums([2.0, 1.0, 0.0, 1.0, 2.0] * 200), 1000, log_inv_delta=3.0), 4)
    0.1216

    Source: docs/theory.md, section "Improvement over the logging policy".
    """
    return lower(gain_sums, n, log_inv_delta, horizon=horizon) - 1.0
