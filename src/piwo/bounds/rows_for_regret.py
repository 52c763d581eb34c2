"""How many rows until a learned policy is close to the best, and how close is it after n rows?

For planning, before there is a log; the coverage is what `piwo.bounds.regret` says. Every regret
bound becomes a plan by `rows_needed`; the learners that one would choose among have their plans
here by name.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from piwo.bounds.grid import (
    gamma_grid_ix,
    gamma_grid_ls,
    regret_bound_grid,
    regret_bound_grid_variance,
)
from piwo.bounds.pac_bayes import regret_bound_pac_bayes_grid
from piwo.bounds.regret import gamma_auto, regret_bound, regret_bound_ls
from piwo.checks import check_positive, shown
from piwo.errors import UsageError
from piwo.messages import argument

__all__ = [
    "PLANS",
    "Coverage",
    "regret_after",
    "rows_for_regret",
    "rows_for_regret_variance",
    "rows_needed",
]

Coverage = float | Callable[[float], float]
"""gamma -> C_gamma of the policy to compete with; or one number that none of them exceeds, such as
C_0 or 1/p."""

_MOST = 2**62


def rows_needed(target: float, regret: Callable[[int], float]) -> int:
    """Return the rows at which a regret bound is at most `target`; one row fewer is not enough.

    For any bound of `piwo.bounds` that falls with n, theorem by theorem. PIWO-Grid's rises by less
    than 1 % wherever its grid gains a gamma; the number is then at most so much above the smallest.

    Args:
        target: regret that can be accepted, in units of the reward range, such as 0.05.
        regret: n -> the bound at n rows.

    Raises:
        UsageError: if 2^62 rows are not enough.

    >>> from piwo.bounds import regret_bound_alone
    >>> rows_needed(
    ...     0.05,
    ...     lambda n: regret_bound_alone(n, 0.01, coverage=2.0, log_class_size=7.0, delta=0.05),
    ... )
    99958

    Source: the bound that is asked.
    """
    check_positive("target", target)
    if not callable(regret):
        raise UsageError(
            f"{argument('regret')} is {shown(regret)}, expected a function of the number of rows"
        )
    # doubling, then bisection
    enough = 1
    while not regret(enough) <= target:
        if enough >= _MOST:
            raise UsageError(
                f"{argument('target')} is {shown(target)}, and 2^62 rows are not enough for it: "
                "accept a larger regret"
            )
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if regret(middle) <= target:
            enough = middle
        else:
            too_few = middle
    return enough


def _grid(n: int, coverage: Coverage, log_class_size: float, delta: float) -> float:
    return regret_bound_grid(gamma_grid_ls(n, log_class_size, delta), coverage)


def _grid_ix(n: int, coverage: Coverage, log_class_size: float, delta: float) -> float:
    return regret_bound_grid(gamma_grid_ix(n, log_class_size, delta), coverage)


def _pac_bayes(n: int, coverage: Coverage, kl: float, delta: float) -> float:
    return regret_bound_pac_bayes_grid(gamma_grid_ls(n, 0.0, delta), coverage, kl)


def _ix(n: int, coverage: Coverage, log_class_size: float, delta: float) -> float:
    gamma = gamma_auto(n, log_class_size, delta)
    return regret_bound(n, gamma, _at(coverage, gamma), log_class_size, delta)


def _ls(n: int, coverage: Coverage, log_class_size: float, delta: float) -> float:
    gamma = gamma_auto(n, log_class_size, delta)
    return regret_bound_ls(n, gamma, _at(coverage, 2.0 * gamma), log_class_size, delta)


def _at(coverage: Coverage, gamma: float) -> float:
    return coverage(gamma) if callable(coverage) else coverage


PLANS: Mapping[str, Callable[[int, Coverage, float, float], float]] = MappingProxyType(
    {"grid": _grid, "grid-ix": _grid_ix, "pac-bayes": _pac_bayes, "ix": _ix, "ls": _ls}
)
"""What `rows_for_regret` and `regret_after` know: learner -> its regret, from n, coverage, log|Pi|
and delta."""


def regret_after(
    n: int, coverage: Coverage, log_class_size: float, delta: float, *, learner: str = "grid"
) -> float:
    """Return how far below the best policy of its class a learner can be after n rows.

    Oracles must be exact, such as `Exhaustive`; others promise no regret.

    | learner | what it is | bound |
    |---|---|---|
    | "grid" | `piwo.PIWOGrid`, without a parameter: the one to plan with | `regret_bound_grid` |
    | "grid-ix" | the same with IX gains | `regret_bound_grid` |
    | "pac-bayes" | `piwo.PACBayes`, with KL for log_class_size | `regret_bound_pac_bayes_grid` |
    | "ix" | `piwo.PIWO` with one gamma, `gamma_auto` | `regret_bound` |
    | "ls" | `piwo.PIWO`, LS-linear gains, lambda = 2 `gamma_auto` | `regret_bound_ls`, alone |

    Args:
        n: number of rows.
        coverage: of the policy to compete with: gamma -> C_gamma, or C_0 or any number above it,
            such as 1/p.
        log_class_size: log|Pi|.
        delta: chance of error.
        learner: see the table.

    Returns:
        The regret, in units of the reward range; from 1 up it says nothing.

    Raises:
        UsageError: for arguments out of range, and other learners.

    >>> import math
    >>> round(regret_after(100_000, coverage=20.0, log_class_size=math.log(1000), delta=0.05), 3)
    0.148
    >>> round(
    ...     regret_after(
    ...         100_000, coverage=20.0, log_class_size=math.log(1000), delta=0.05, learner="ix"
    ...     ),
    ...     3,
    ... )
    0.422

    Source: docs/grid.md, Theorem 1 (b); docs/theory.md, section "Regret"; docs/pac_bayes.md,
    Theorem 3.
    """
    return _plan(learner)(n, coverage, log_class_size, delta)


def rows_for_regret(
    target: float, coverage: Coverage, log_class_size: float, delta: float, *, learner: str = "grid"
) -> int:
    """Return the number of rows after which a learner has a regret of at most `target`.

    The inverse of `regret_after`; about 9 C_0 L/target^2 for the grid, L ((2C + 1)/target)^2 for
    one gamma, which cannot be tuned to the unknown coverage.

    Args:
        target: regret that can be accepted, in units of the reward range, such as 0.05.
        coverage: see `regret_after`.
        log_class_size: log|Pi|.
        delta: chance of error.
        learner: "grid", "grid-ix", "pac-bayes", "ix" or "ls"; see `regret_after`.

    Raises:
        UsageError: for arguments out of range, other learners, and if 2^62 rows are not enough.

    >>> import math
    >>> rows_for_regret(0.05, coverage=20.0, log_class_size=math.log(1000), delta=0.05)
    928630
    >>> rows_for_regret(
    ...     0.05, coverage=20.0, log_class_size=math.log(1000), delta=0.05, learner="ix"
    ... )
    7125178

    Source: docs/grid.md, Theorem 1; arXiv 2309.15771, Theorem 1.
    """
    plan = _plan(learner)
    return rows_needed(target, lambda n: plan(n, coverage, log_class_size, delta))


def rows_for_regret_variance(
    target: float,
    variance: float | Callable[[float], float],
    log_class_size: float,
    delta: float,
    *,
    value: float = 1.0,
    missing: float = 0.0,
) -> int:
    """Return `rows_for_regret` of PIWO-Grid from a variance.

    Prefer it if the logger often does what is best.

    The inverse of `regret_bound_grid_variance`.

    Args:
        target: see `rows_for_regret`; above `missing`.
        variance: of w R under the policy to compete with, see `regret_bound_grid_variance`.
        log_class_size: log|Pi|.
        delta: chance of error.
        value: the value of that policy, or anything above it.
        missing: what that policy earns where the logging policy never goes.

    >>> import math
    >>> rows_for_regret_variance(
    ...     0.05, variance=0.19, log_class_size=math.log(200), delta=0.05, value=0.9
    ... )
    8055
    >>> rows_for_regret(0.05, coverage=1.0, log_class_size=math.log(200), delta=0.05)
    41069

    Source: docs/grid.md, Theorem 2.
    """
    return rows_needed(
        target,
        lambda n: regret_bound_grid_variance(
            gamma_grid_ls(n, log_class_size, delta), variance, value, missing
        ),
    )


def _plan(learner: Any) -> Callable[[int, Coverage, float, float], float]:
    if not (isinstance(learner, str) and learner in PLANS):
        raise UsageError(
            f"{argument('learner')} is {shown(learner)}, expected one of {', '.join(PLANS)}"
        )
    return PLANS[learner]
