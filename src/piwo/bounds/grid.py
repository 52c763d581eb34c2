"""Grid bounds: the gammas of PIWO-Grid, its union bound, and the regret of the policy it keeps.

PIWO-Grid learns with O(log n) values of gamma and keeps the policy with the highest lower bound.
The regret bounds are planning functions like those of `piwo.bounds.regret`: they depend on a
coverage or a variance that no log reveals, are in units of the reward range, and need an oracle
that finds the maximum over its class. The grid depends on the number of rows and on the class, on
nothing in the log.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from piwo.bounds.mixture import grid_size
from piwo.bounds.union import log_inv_delta
from piwo.checks import check_count, check_kind, check_non_negative
from piwo.errors import UsageError

__all__ = [
    "GammaGrid",
    "gamma_grid_ix",
    "gamma_grid_ls",
    "regret_bound_grid",
    "regret_bound_grid_one_comparator",
    "regret_bound_grid_root",
    "regret_bound_grid_variance",
]


@dataclass(frozen=True, slots=True)
class GammaGrid:
    """The gammas that PIWO-Grid learns with, and the union penalty of choosing among them.

    >>> GammaGrid(gammas=(1.0, 0.5), penalty=8.0, rows=20, largest=1.0, smoothing=1.0).bets
    (2.0, 1.0)
    """

    gammas: tuple[float, ...]
    """Powers of two from the largest down to L/n; empty if n is so small that the theorem says
    nothing."""
    penalty: float
    """L, the log(1/delta) of each statement: one a policy, a gamma and a side."""
    rows: int
    """n."""
    largest: float
    """What the grid begins with."""
    smoothing: float
    """The regret is bounded by C at smoothing * gamma: 1 for IX, 2 for linear LS."""

    @property
    def bets(self) -> tuple[float, ...]:
        """Lambda = 2 gamma of each gamma."""
        return tuple(2.0 * gamma for gamma in self.gammas)


def gamma_grid_ix(n: int, log_class_size: float, delta: float) -> GammaGrid:
    """Return the grid of PIWO-Grid with IX gains: 1, 1/2, 1/4, ... as long as gamma >= L/n.

        m = floor(log2 n) + 1,  L = log(2 |Pi| max(m, m') / delta)

    with m' the number of bets of the mixture bound at delta/(2|Pi|), which is then never below a
    bound of the grid.

    Args:
        n: number of rows to learn from.
        log_class_size: log|Pi|.
        delta: chance that any lower bound, or the regret bound, fails.

    >>> grid = gamma_grid_ix(10_000, math.log(200), 0.05)
    >>> len(grid.gammas), grid.gammas[-1], round(grid.penalty, 3)
    (10, 0.001953125, 11.82)

    Source: docs/grid.md, section "The algorithm".
    """
    return _grid(n, log_class_size, delta, octaves=0, smoothing=1.0)


def gamma_grid_ls(n: int, log_class_size: float, delta: float) -> GammaGrid:
    """Return the grid of PIWO-Grid with linear LS gains: lambda = 2 gamma from 32 down to 2L/n.

    As `gamma_grid_ix`, with m = floor(log2 n) + 6: larger bets serve rewards of small variance.

    >>> grid = gamma_grid_ls(10_000, math.log(200), 0.05)
    >>> len(grid.bets), grid.bets[0], grid.bets[-1]
    (14, 32.0, 0.00390625)

    Source: docs/grid.md, section "The algorithm".
    """
    # lambda = 32 is the largest bet of the mixture bound, too
    return _grid(n, log_class_size, delta, octaves=4, smoothing=2.0)


def regret_bound_grid(grid: GammaGrid, coverage: float | Callable[[float], float]) -> float:
    """Return the regret of PIWO-Grid against the whole class, jointly with its lower bounds.

        min over gamma of L/(gamma n) + 2 gamma C_gamma   (linear LS: C_{2 gamma});  at most 1 and
        (1 + gamma) C_gamma

    The minimum is reached without knowing the coverage, as if gamma had been tuned to it.

    Args:
        grid: of `gamma_grid_ix` or `gamma_grid_ls`.
        coverage: of the policy to compete with: gamma -> C_gamma, or C_0 or any number above it.

    >>> round(
    ...     regret_bound_grid(
    ...         gamma_grid_ix(10_000, math.log(200), 0.05), lambda gamma: 0.9 / (0.02 + gamma)
    ...     ),
    ...     3,
    ... )
    0.597

    Source: docs/grid.md, Theorem 1 (b).
    """
    _check_grid(grid)
    return _regret(grid, coverage, grid.penalty)


def regret_bound_grid_one_comparator(
    grid: GammaGrid, coverage: float | Callable[[float], float], delta: float
) -> float:
    """Return `regret_bound_grid` against one policy that was named before the data were seen.

        min over gamma of (L + log(2/delta))/(2 gamma n) + 2 gamma C_gamma   (linear LS: C_{2
        gamma})

    Args:
        grid: of `gamma_grid_ix` or `gamma_grid_ls`.
        coverage: see `regret_bound_grid`.
        delta: that of the grid.

    >>> grid = gamma_grid_ix(10_000, math.log(200), 0.05)
    >>> round(regret_bound_grid_one_comparator(grid, lambda gamma: 0.9 / (0.02 + gamma), 0.05), 3)
    0.493

    Source: docs/grid.md, section "Theorem 1: coverage".
    """
    _check_grid(grid)
    # (L + log(2/delta)) / 2 in place of L
    return _regret(grid, coverage, (grid.penalty + log_inv_delta(delta, statements=2)) / 2.0)


def regret_bound_grid_root(grid: GammaGrid, coverage: float) -> float:
    """Return the regret of PIWO-Grid in closed form; `regret_bound_grid` is never above it.

        min(1, 3 sqrt(C_0 L/n))

    Args:
        grid: of `gamma_grid_ix` or `gamma_grid_ls`.
        coverage: C_0 = E sum_a pi*(a|X) r(X,a)/mu(a|X) of the policy to compete with, or anything
            above it.

    >>> round(
    ...     regret_bound_grid_root(gamma_grid_ix(1_000_000, math.log(200), 0.05), coverage=45.0), 3
    ... )
    0.07

    Source: docs/grid.md, Theorem 1 (c).
    """
    _check_grid(grid)
    check_non_negative("coverage", coverage)
    # 3 sqrt(C_0 L/n)
    return min(1.0, 3.0 * math.sqrt(coverage * grid.penalty / grid.rows))


def regret_bound_grid_variance(
    grid: GammaGrid,
    variance: float | Callable[[float], float],
    value: float = 1.0,
    missing: float = 0.0,
) -> float:
    """Return the regret of PIWO-Grid with linear LS gains in terms of a variance.

    Prefer it if coverage is good.

        min over lambda of 2L/(lambda n) + lambda W_lambda, + 2 v L/n + missing
            <= 3 sqrt(Var L/n) + 2 (1 + v) L/n + missing

    Args:
        grid: of `gamma_grid_ls`.
        variance: of the policy to compete with: lambda -> W_lambda = E[(Y - E Y)^2/(1 + lambda Y)],
            or a number that none of them exceeds, such as Var = E sum_a pi*(a|X) E[R^2]/mu(a|X) -
            v(pi*)^2.
        value: v(pi*), or anything above it.
        missing: what pi* earns where the logging policy never goes.

    Returns:
        The bound, at most 1.

    Raises:
        UsageError: for a grid of IX, for which this does not hold.

    >>> round(
    ...     regret_bound_grid_variance(
    ...         gamma_grid_ls(10_000, math.log(200), 0.05), variance=0.19, value=0.9
    ...     ),
    ...     4,
    ... )
    0.045

    Source: docs/grid.md, Theorem 2.
    """
    _check_grid(grid)
    if grid.smoothing != 2.0:
        raise UsageError(
            "this grid is for IX gains, expected one for linear LS gains: make it with "
            "gamma_grid_ls"
        )
    check_non_negative("value", value)
    check_non_negative("missing", missing)
    best = math.inf
    for bet in grid.bets:
        w = variance(bet) if callable(variance) else variance
        check_non_negative("variance", w)
        # 2L/(lambda n) + lambda W_lambda
        best = min(best, 2.0 * grid.penalty / (bet * grid.rows) + bet * w)
    # + 2 v L/n + missing
    return min(1.0, best + 2.0 * value * grid.penalty / grid.rows + missing)


def _check_grid(grid: GammaGrid) -> None:
    check_kind("grid", grid, GammaGrid, "; gamma_grid_ix and gamma_grid_ls make one")


def _regret(grid: GammaGrid, coverage: float | Callable[[float], float], penalty: float) -> float:
    """Return the least of penalty/(gamma n) + 2 gamma C, and of what no regret exceeds."""
    best = 1.0
    if not callable(coverage):
        check_non_negative("coverage", coverage)
        # v(pi*) <= C_0, because mu <= 1
        best = min(best, coverage)
    for gamma in grid.gammas:
        smoothed = grid.smoothing * gamma
        c = coverage(smoothed) if callable(coverage) else coverage
        check_non_negative("coverage", c)
        # v(pi*) <= (1 + gamma) C_gamma likewise; and no policy is worse than 0
        best = min(best, penalty / (gamma * grid.rows) + 2.0 * gamma * c, (1.0 + smoothed) * c)
    return best


def _grid(
    n: int, log_class_size: float, delta: float, *, octaves: int, smoothing: float
) -> GammaGrid:
    """Return the powers of two from 2^octaves down that are at least L/n."""
    check_count("n", n, 1)
    # log(2 |Pi| / delta)
    each = log_inv_delta(delta, statements=2, log_class_size=log_class_size)
    # m = floor(log2 n) + 1 for IX, floor(log2 n) + 6 for linear LS
    size = int(n).bit_length() + octaves + (1 if octaves else 0)
    # L = log(2 |Pi| max(m, m') / delta)
    penalty = each + math.log(max(size, grid_size(n, each)))
    powers = (math.ldexp(1.0, octaves - j) for j in range(size))
    gammas = tuple(gamma for gamma in powers if gamma * n >= penalty)
    return GammaGrid(gammas, penalty, n, math.ldexp(1.0, octaves), smoothing)
