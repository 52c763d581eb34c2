"""Upper end of the value under a declared cap on rates, E[R | x, a] <= rho, for rare rewards."""

import math

import numpy as np
import numpy.typing as npt

from piwo.bounds.mixture import Horizon, check_horizon
from piwo.bounds.truncated import highest_mean, useful_bets
from piwo.checks import check_count, check_finite, check_positive, numbers
from piwo.errors import UsageError
from piwo.messages import argument
from piwo.reductions.bets import CAPS, FIRST_CELL, LAST_CELL, THETA

__all__ = ["TESTED", "rate_cap_log_e_values", "rate_cap_rows", "rate_cap_upper", "rows_by_weight"]

FloatArray = npt.NDArray[np.float64]

_MOST_ROWS = 10**12
TESTED = (-10, 20)
"""Exponents of the cells in which the cap is tested; smaller and larger weights count there."""
_RATES = np.arange(1, 8) / 8


def rate_cap_upper(
    cells: FloatArray, n: int, rho: float, log_inv_delta: float, *, horizon: Horizon = None
) -> float:
    """Upper bound on the value if E[R | x, a] <= rho for every context and action.

    If so, v <= rho (1 - E Y) for Y = min(w, c) (1 - R / rho) and every c > 0: what truncation of
    the weights cuts off is worth at most rho. A bet whose size goes with 1 / c cannot lose all on
    one row, whatever its weight:

        c_k = 2^k, k = -1, ..., K - 2;  lambda_k = theta rho / ((1 - rho) c_k),  theta = 0.8
        S_k = sum_t log(1 + lambda_k min(w_t, c_k) (1 - R_t / rho))
        m = sup{ m >= 0 : log mean_k exp(S_k - n log(1 + lambda_k m)) >= log(1/delta) },  0 if none
        U = rho (1 - m)

    with K = max(1, floor(log2(theta rho N / ((1 - rho) log(1/delta)))) + 2), at most 48: the bets
    that N rows can make use of. S_k is bounded from below from the sums by cell: log is concave.

    Args:
        cells: (80, 4) sums by cell of the weight, see `piwo.reductions.rate_cells`.
        n: number of rows, or units.
        rho: the cap on the unit scale, in (0, 1), fixed before looking at the log.
        log_inv_delta: log(1/delta) of this one statement.
        horizon: number of rows N that K is for; None is n, "universal" makes K 48. If declared, the
            bound is valid at all n together.

    Returns:
        The raw bound, at most rho. It is valid with probability 1 - delta without overlap, for
        loggers that learn, and for propensities that are too large. Below 0 it means that the log
        contradicts the cap or its propensities.

    Raises:
        UsageError: for arguments out of range.

    Example: 600 rows with weights 2, 0, .5, 2.5, .25 and .75 in turn; 10 of weight .5 have reward
    1. The bound without the cap is .128.

    >>> import numpy as np
    >>> cells = np.zeros((80, 4))
    >>> cells[[0, 30, 33], :2] = [[100, 0], [100, 25], [200, 450]]
    >>> cells[31] = [190, 120, 10, 5]
    >>> round(rate_cap_upper(cells, 600, 0.2, np.log(20)), 8)
    0.04490055

    Source: docs/theory.md, section "A cap on rates".
    """
    check_count("n", n, 0)
    check_positive("log_inv_delta", log_inv_delta)
    check_horizon(horizon)
    known = _checked(cells, rho)
    # lambda_k = theta rho / ((1 - rho) c_k)
    bets = THETA * rho / ((1.0 - rho) * CAPS)
    size = useful_bets(float(bets[1]), n, log_inv_delta, horizon)
    sums = np.array([_bet_sum(known, rho, float(bets[k]), k) for k in range(size)])
    return rho * (1.0 - highest_mean(sums, bets[:size], n, log_inv_delta))


def rate_cap_rows(
    cells: FloatArray, n: int, rho: float, log_inv_delta: float, target: float
) -> int | None:
    """Return how many rows like these bring `rate_cap_upper` to the target; None: no number does.

    For planning. It repeats the rows that were seen, so it is as good as their rewards and their
    largest weights.

    Args:
        cells: (80, 4) sums by cell of the weight, see `piwo.reductions.rate_cells`.
        n: number of rows, or units, in the sums.
        rho: the cap on the unit scale, in (0, 1).
        log_inv_delta: log(1/delta) of the bound.
        target: the upper end that is needed, on the unit scale.

    Raises:
        UsageError: for arguments out of range.

    Example: the rows of `rate_cap_upper`, whose upper end is .045 and value .0083.

    >>> cells = np.zeros((80, 4))
    >>> cells[[0, 30, 33], :2] = [[100, 0], [100, 25], [200, 450]]
    >>> cells[31] = [190, 120, 10, 5]
    >>> (
    ...     rate_cap_rows(cells, 600, 0.2, math.log(20), 0.02),
    ...     rate_cap_rows(cells, 600, 0.2, math.log(20), 0.008),
    ... )
    (3217, None)

    Source: docs/theory.md, section "A cap on rates".
    """
    check_count("n", n, 1)
    check_positive("target", target)
    known = _checked(cells, rho)

    def enough(rows: int) -> bool:
        return rate_cap_upper(known * (rows / n), rows, rho, log_inv_delta) <= target

    if target >= rho:
        return 0
    # doubling, then bisection
    most = n
    while not enough(most):
        if most >= _MOST_ROWS:
            return None
        most *= 2
    few = 0
    while most - few > max(1, most // 1000):
        middle = (few + most) // 2
        if enough(middle):
            most = middle
        else:
            few = middle
    return most


def rate_cap_log_e_values(cells: FloatArray, rho: float) -> FloatArray:
    """Return the logs of e-values against E[R | x, a] <= rho: over all rows, and by weight.

    Formula: of N rows with C rewards in all, the e-value is the mean over i = 1, ..., 7 of
    (q_i / rho)^C ((1 - q_i) / (1 - rho))^(N - C), q_i = rho^(i/8). Times its weight, 1/2 for all
    rows and 1/62 for the rows with w in [2^j, 2^(j+1)), j = -10, ..., 20. The sum of all 32 is an
    e-value: at most 1 on average under the cap, at all n, also for loggers that learn.

    Args:
        cells: (80, 4) sums by cell of the weight, see `piwo.reductions.rate_cells`.
        rho: the cap on the unit scale, in (0, 1).

    Returns:
        (32,) logs, the weights included; the first is over all rows.

    >>> import numpy as np
    >>> cells = np.zeros((80, 4))
    >>> cells[[0, 30, 33], :2] = [[100, 0], [100, 25], [200, 450]]
    >>> cells[31] = [190, 120, 10, 5]
    >>> logs = rate_cap_log_e_values(cells, 0.005)
    >>> round(float(np.logaddexp.reduce(logs)), 8), int(logs.argmax())
    (8.29243247, 10)

    Source: docs/theory.md, section "A cap on rates".
    """
    tested = rows_by_weight(_checked(cells, rho))
    # C log(q / rho) + (N - C) log((1 - q) / (1 - rho))
    won, lost = (_RATES - 1.0) * math.log(rho), np.log1p(-(rho**_RATES)) - math.log1p(-rho)
    logs = tested[:, 1:] * won + tested[:, :1] * lost
    cell_weights = np.full(len(tested), 0.5 / (len(tested) - 1))
    cell_weights[0] = 0.5
    e_values = np.logaddexp.reduce(logs, axis=1) - math.log(len(_RATES))
    found: FloatArray = e_values + np.log(cell_weights)
    return found


def rows_by_weight(cells: FloatArray) -> FloatArray:
    """Return the rows without and with a reward, (32, 2): of all weights, then by weight.

    >>> import numpy as np
    >>> rows_by_weight(np.ones((80, 4)))[[0, 1, 2, 31]].tolist()
    [[80.0, 80.0], [23.0, 23.0], [1.0, 1.0], [28.0, 28.0]]
    """
    counts = cells[:, [0, 2]]
    first, last = (exponent - FIRST_CELL for exponent in TESTED)
    tested = counts[first : last + 1].copy()
    tested[0] += counts[:first].sum(axis=0)
    tested[-1] += counts[last + 1 :].sum(axis=0)
    found: FloatArray = np.vstack([counts.sum(axis=0), tested])
    return found


def _bet_sum(cells: FloatArray, rho: float, bet: float, k: int) -> float:
    """Return a lower bound on S_k."""
    # The logarithm is concave in R, so a row with a reward between 0 and 1 counts at least as 1 - R
    # rows without and R rows with a reward; and in w, so it is at least the chord between the edges
    # of a cell.
    edges = 2.0 ** np.arange(FIRST_CELL, LAST_CELL + 2)
    edges[0] = 0.0
    held = np.minimum(edges, CAPS[k])
    total = 0.0
    for count, weight, factor in (
        (cells[:, 0], cells[:, 1], bet),
        (cells[:, 2], cells[:, 3], -bet * (1.0 - rho) / rho),
    ):
        values = np.log1p(factor * held)
        # where the mean weight of the cell lies between its edges
        mean = weight / np.maximum(count, np.finfo(np.float64).tiny)
        place = np.clip((mean - edges[:-1]) / np.diff(edges), 0.0, 1.0)
        total += float((count * (values[:-1] + place * np.diff(values))).sum())
    return total


def _checked(cells: FloatArray, rho: float) -> FloatArray:
    check_finite("rho", rho)
    if not 0.0 < rho < 1.0:
        raise UsageError(f"{argument('rho')} is {rho!r}; expected a number between 0 and 1")
    known = numbers("cells", cells)
    shape = (LAST_CELL - FIRST_CELL + 1, 4)
    if known.shape != shape or not (np.all(np.isfinite(known)) and np.all(known >= 0.0)):
        raise UsageError(
            f"{argument('cells')} of shape {known.shape} are not {shape} finite sums >= 0; pass "
            "those of piwo.reductions.rate_cells"
        )
    return known
