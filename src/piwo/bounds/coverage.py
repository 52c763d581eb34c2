"""Coverage bounds, from a log: how well does the logger try what a policy plays?

Regret bounds depend on this coverage.
"""

from piwo.bounds.missing_mass import missing_mass_upper
from piwo.bounds.mixture import FloatArray, Horizon, lower
from piwo.checks import check_positive

__all__ = ["coverage_lower", "coverage_upper"]


def coverage_upper(
    uncovered_sums: FloatArray,
    n: int,
    gamma: float,
    log_inv_delta: float,
    *,
    horizon: Horizon = None,
) -> float:
    """Upper bound on the coverage C_gamma of a policy, for rewards in [0, 1].

    Rewards that were never logged count as 1, because nothing else is known of them. The logged
    propensities suffice:

        ( 1 - LB(E Y) ) / gamma,  Y = pi/(mu + gamma) + gamma pi (1 - R)/(mu (mu + gamma)),  1 - E Y
        >= gamma C_gamma

    Y = pi/(mu + gamma) alone gives the bound on the reward-free coverage E sum_a pi/(mu + gamma).
    If all propensities are known, 1 - gamma sum_a pi(a|X)/(mu(a|X) + gamma) takes the place of
    pi/(mu + gamma) in both, and varies less.

    Args:
        uncovered_sums: (48,) bet sums of Y.
        n: number of rows.
        gamma: gamma > 0.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: see `piwo.bounds.Horizon`.

    Returns:
        The bound, at most 1/gamma, which every policy satisfies.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(coverage_upper(bet_sums([0.9, 0.8] * 500), 1000, 0.1, log_inv_delta=3.0), 4)
    1.5524

    Source: docs/theory.md, section "Coverage".
    """
    check_positive("gamma", gamma)
    # gamma C_gamma <= 1 - LB(E Y)
    hidden = missing_mass_upper(uncovered_sums, n, log_inv_delta, horizon=horizon)
    return max(0.0, hidden) / gamma


def coverage_lower(
    covered_sums: FloatArray, n: int, gamma: float, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Lower bound on the coverage C_gamma of a policy: what was logged shows at least this much.

        LB(E Y) / gamma,  Y = gamma pi R/(mu (mu + gamma)),  E Y <= gamma C_gamma

    Returns:
        The bound, at least 0. `covered_sums` are the bet sums of Y, the other arguments those of
        `coverage_upper`.

    >>> from piwo.reductions.bets import bet_sums
    >>> round(coverage_lower(bet_sums([0.1, 0.2] * 500), 1000, 0.1, log_inv_delta=3.0), 4)
    1.4496

    Source: docs/theory.md, section "Coverage".
    """
    check_positive("gamma", gamma)
    # LB(E Y) <= gamma C_gamma
    return lower(covered_sums, n, log_inv_delta, horizon=horizon) / gamma
