"""IX bounds on the value from the implicit-exploration estimate, for rewards in [0, 1].

V = mean_t pi(A_t|X_t) R_t / (mu(A_t|X_t) + gamma), gamma > 0, is an admissible score at lambda = 2
gamma, so its lower bounds are those of `piwo.bounds.fixed_bet`. gamma is fixed before looking; for
a gamma chosen among m from the data add log m to log(1/delta).
"""

import math
from collections.abc import Sequence

from piwo.bounds.fixed_bet import score_interval, score_linear_lower, score_lower
from piwo.bounds.interval import Interval
from piwo.checks import check_count, check_non_negative, check_positive, check_sequences

__all__ = [
    "ix_interval",
    "ix_linear_lower",
    "ix_lower",
    "ix_upper_deviation",
    "ix_upper_deviation_sqrt",
]


def ix_lower(value_ix: float, n: int, gamma: float, log_inv_delta: float) -> float:
    """Lower bound on the value from the IX estimate, exact inverse; the one to use.

        ( exp(2 gamma V - log(1/delta)/n) - 1 ) / (2 gamma)

    Args:
        value_ix: IX estimate V.
        n: number of rows.
        gamma: gamma > 0.
        log_inv_delta: log(1/delta) of this one statement.

    Returns:
        The raw bound, above -1/(2 gamma).

    >>> round(ix_lower(0.5, n=1000, gamma=0.05, log_inv_delta=3.0), 6)
    0.481219

    Source: arXiv 2309.15771, Lemma 1, with 1 + 2 gamma v in place of exp(2 gamma v).
    """
    check_positive("gamma", gamma)
    # lambda = 2 gamma
    return score_lower(value_ix, n, 2.0 * gamma, log_inv_delta)


def ix_linear_lower(value_ix: float, n: int, gamma: float, log_inv_delta: float) -> float:
    """Return the lower bound on the value in the linear form, V - log(1/delta)/(2 gamma n), raw.

    >>> round(ix_linear_lower(1 / 0.6, n=1, gamma=0.1, log_inv_delta=math.log(20)), 6)
    -13.311995

    Source: arXiv 2309.15771, Lemma 1.
    """
    check_positive("gamma", gamma)
    return score_linear_lower(value_ix, n, 2.0 * gamma, log_inv_delta)


def ix_upper_deviation(coverage: float, n: int, gamma: float, log_inv_delta: float) -> float:
    """Return an upper bound on v - V: how far above the IX estimate the value can be.

        log(1/delta)/(2 gamma n) + 2 gamma C_gamma

    With probability 1 - delta, at all n together. For planning: C_gamma is a property of the world,
    not of the log.

    Args:
        coverage: C_gamma = E sum_a pi(a|X) r(X,a) / (mu(a|X) + gamma), or anything above it; at
            most 1/gamma.
        n: number of rows.
        gamma: gamma > 0.
        log_inv_delta: log(1/delta) of this one statement.

    >>> round(ix_upper_deviation(2.0, n=1000, gamma=0.05, log_inv_delta=3.0), 6)
    0.23

    Source: arXiv 2309.15771, Lemma 2.
    """
    _check(coverage, n, gamma, log_inv_delta)
    return log_inv_delta / (2.0 * gamma * n) + 2.0 * gamma * coverage


def ix_upper_deviation_sqrt(coverage: float, n: int, gamma: float, log_inv_delta: float) -> float:
    """Return `ix_upper_deviation` at its best lambda: never larger, but for one fixed n.

        gamma C_gamma + sqrt(2 C_gamma log(1/delta) / n)

    >>> round(ix_upper_deviation_sqrt(2.0, n=1000, gamma=0.05, log_inv_delta=3.0), 6)
    0.209545

    Source: docs/theory.md, section "Admissible scores"; the proof of arXiv 2309.15771, Lemma 2,
        before lambda is chosen.
    """
    _check(coverage, n, gamma, log_inv_delta)
    return gamma * coverage + math.sqrt(2.0 * coverage * log_inv_delta / n)


def ix_interval(
    values: Sequence[float],
    loss_values: Sequence[float],
    gammas: Sequence[float],
    n: int,
    log_inv_delta: float,
) -> Interval:
    """Return the interval of the value from IX estimates of R and of 1 - R, best of m gammas.

    The case lambda = 2 gamma of `piwo.bounds.score_interval`.

    >>> ix_interval([0.5], [0.4], [0.05], n=1000, log_inv_delta=3.0).reported()
    Interval(lower=0.473..., upper=0.630..., guarantee='finite-sample')
    """
    check_sequences("gamma", gammas=gammas, values=values, loss_values=loss_values)
    return score_interval(values, loss_values, [2.0 * gamma for gamma in gammas], n, log_inv_delta)


def _check(coverage: float, n: int, gamma: float, log_inv_delta: float) -> None:
    check_non_negative("coverage", coverage)
    check_count("n", n, 1)
    check_positive("gamma", gamma)
    check_positive("log_inv_delta", log_inv_delta)
