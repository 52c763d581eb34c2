"""Regret bounds: how far below the best policy can a policy be that was learned with one gamma?

Planning functions: they speak of a coverage C that no log reveals. C may be C_gamma(pi*) = E sum_a
pi*(a|X) r(X,a)/(mu(a|X) + gamma) of the policy pi* to compete with, or anything above it, such as
1/p when the logging policy takes the actions of pi* with probability at least p. Regrets are in
units of the reward range and say nothing from 1 up; they need an exact oracle.
`piwo.bounds.rows_needed` computes how many rows each of them needs; for PIWO-Grid, which needs no
gamma, see `piwo.bounds.grid`.
"""

import math

from piwo.bounds.union import log_inv_delta
from piwo.checks import check_count, check_non_negative, check_positive

__all__ = [
    "gamma_auto",
    "gamma_linear",
    "regret_bound",
    "regret_bound_alone",
    "regret_bound_ls",
    "regret_bound_one_comparator",
    "regret_bound_pac_bayes",
    "regret_bound_tuned",
]


def regret_bound(
    n: int, gamma: float, coverage: float, log_class_size: float, delta: float
) -> float:
    """Return the regret of PIWO-IX against every policy of the class, jointly with certificates.

        L/(gamma n) + 2 gamma C_gamma,  L = log(2|Pi|/delta)

    Args:
        n: number of rows.
        gamma: gamma > 0.
        coverage: C_gamma of the policy to compete with, or anything above it.
        log_class_size: log|Pi|.
        delta: chance of error.

    >>> round(
    ...     regret_bound(100_000, 0.01, coverage=2.0, log_class_size=math.log(1000), delta=0.05), 4
    ... )
    0.0506

    Source: arXiv 2309.15771, Theorem 1.
    """
    return _regret(
        n, gamma, coverage, log_inv_delta(delta, statements=2, log_class_size=log_class_size)
    )


def regret_bound_alone(
    n: int, gamma: float, coverage: float, log_class_size: float, delta: float
) -> float:
    """Return `regret_bound` with L = log(|Pi|/delta): valid alone, not jointly with certificates.

    >>> round(
    ...     regret_bound_alone(
    ...         100_000, 0.01, coverage=2.0, log_class_size=math.log(1000), delta=0.05
    ...     ),
    ...     4,
    ... )
    0.0499

    Source: docs/theory.md, section "Regret"; arXiv 2309.15771, Theorem 1, without its union bound.
    """
    return _regret(n, gamma, coverage, log_inv_delta(delta, log_class_size=log_class_size))


def regret_bound_one_comparator(
    n: int, gamma: float, coverage: float, log_class_size: float, delta: float
) -> float:
    """Return `regret_bound` against one policy that was named before the data were seen.

        (log|Pi|/2 + log(1/delta))/(gamma n) + 2 gamma C_gamma

    >>> round(
    ...     regret_bound_one_comparator(
    ...         100_000, 0.01, coverage=2.0, log_class_size=math.log(1000), delta=0.05
    ...     ),
    ...     4,
    ... )
    0.0464

    Source: docs/theory.md, section "Regret".
    """
    check_non_negative("log_class_size", log_class_size)
    # L = log|Pi|/2 + log(1/delta)
    return _regret(n, gamma, coverage, log_inv_delta(delta, log_class_size=log_class_size / 2.0))


def regret_bound_ls(
    n: int, gamma: float, coverage: float, log_class_size: float, delta: float
) -> float:
    """Return the regret of PIWO-LS with linear gains at lambda = 2 gamma against the class.

        log(|Pi|/delta)/(gamma n) + 2 gamma C_{2 gamma}

    The form of `regret_bound_alone` with a smaller coverage: pass `coverage` at 2 gamma.

    >>> round(
    ...     regret_bound_ls(100_000, 0.01, coverage=1.9, log_class_size=math.log(1000), delta=0.05),
    ...     4,
    ... )
    0.0479

    Source: docs/theory.md, section "Regret"; analogue of arXiv 2405.14335, Prop. 10.
    """
    return regret_bound_alone(n, gamma, coverage, log_class_size, delta)


def regret_bound_pac_bayes(n: int, gamma: float, coverage: float, kl: float, delta: float) -> float:
    """Return the regret of the Gibbs posterior of IX with prior P against every mixture Q*.

        (KL(Q*||P) + log(1/delta))/(gamma n) + 2 gamma C_gamma(Q*)

    Valid alone, not jointly with a certificate. With linear LS gains pass the coverage at 2
    gamma.

    Args:
        n: number of rows.
        gamma: gamma > 0; the temperature of the posterior is 2 gamma n.
        coverage: C_gamma of the mixture to compete with, or anything above it.
        kl: KL(Q*||P); log|Pi| for one policy of a finite class under the uniform prior.
        delta: chance of error.

    >>> round(regret_bound_pac_bayes(100_000, 0.01, coverage=2.0, kl=4.0, delta=0.05), 4)
    0.047

    Source: docs/theory.md, section "Regret"; arXiv 2309.15771, Theorem 2.
    """
    check_non_negative("kl", kl)
    return regret_bound_alone(n, gamma, coverage, kl, delta)


def regret_bound_tuned(n: int, coverage: float, log_class_size: float, delta: float) -> float:
    """Return the regret of PIWO-IX at gamma = sqrt(L/(2 C_0 n)), which requires C_0; at most 1.

        2 sqrt(2 C_0 L/n),  L = log(2|Pi|/delta)

    The goal that `piwo.bounds.regret_bound_grid` reaches, within 6 % and a log log n, without
    knowing C_0.

    >>> round(
    ...     regret_bound_tuned(100_000, coverage=2.0, log_class_size=math.log(1000), delta=0.05), 4
    ... )
    0.0412

    Source: docs/errata.md, E13; arXiv 2309.15771, Appendix B.
    """
    check_count("n", n, 1)
    check_non_negative("coverage", coverage)
    penalty = log_inv_delta(delta, statements=2, log_class_size=log_class_size)
    # 2 sqrt(2 C_0 L/n)
    return min(1.0, 2.0 * math.sqrt(2.0 * coverage * penalty / n))


def gamma_auto(n: int, log_class_size: float, delta: float) -> float:
    """Return the gamma of the theory for an unknown coverage, sqrt(log(2|Pi|/delta)/n).

    >>> round(gamma_auto(100_000, math.log(1000), 0.05), 6)
    0.010294

    Source: arXiv 2309.15771, Theorem 1.
    """
    check_count("n", n, 1)
    return math.sqrt(log_inv_delta(delta, statements=2, log_class_size=log_class_size) / n)


def gamma_linear(n: int, width: int) -> float:
    """Return the gamma of the paper's experiments with linear policies of d features, sqrt(d/n).

    >>> gamma_linear(1600, 16)
    0.1

    Source: arXiv 2309.15771, section 6.
    """
    check_count("n", n, 1)
    check_count("width", width, 1)
    # the paper's sqrt(d/n)
    return math.sqrt(width / n)


def _regret(n: int, gamma: float, coverage: float, penalty: float) -> float:
    check_count("n", n, 1)
    check_positive("gamma", gamma)
    check_non_negative("coverage", coverage)
    # L/(gamma n) + 2 gamma C
    return penalty / (gamma * n) + 2.0 * gamma * coverage
