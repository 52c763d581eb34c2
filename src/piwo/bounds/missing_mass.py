"""Missing-mass bound: how much of what a policy does can the log not show?"""

from piwo.bounds.mixture import FloatArray, Horizon
from piwo.bounds.value import one_minus_lower

__all__ = ["missing_mass_upper"]


def missing_mass_upper(
    weight_sums: FloatArray, n: int, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Upper bound on the mass of a policy that smoothing by gamma hides, from logged propensities.

        1 - LB(E Y),  Y = pi(A|X)/(mu(A|X) + gamma),
        1 - E Y = gamma E sum_a pi(a|X)/(mu(a|X) + gamma)

    With gamma = 0, Y = w and the mass is that of actions that the logging policy never takes.

    Args:
        weight_sums: (48,) bet sums of Y.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`.

    Returns:
        The raw bound, at most 1.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(missing_mass_upper(bet_sums([0.9, 1.0] * 500), 1000, log_inv_delta=3.0), 4)
    0.0555

    Source: docs/theory.md, section "Missing mass".
    """
    # 1 - LB(E Y)
    return one_minus_lower(weight_sums, n, log_inv_delta, horizon)
