"""Bet sums, the state of the mixture bound: S_j = sum_t log(1 + lam_j Y_t) for 48 fixed bets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from piwo.checks import numbers
from piwo.logs.batch import Floats

__all__ = [
    "BETS",
    "CAPPED_BETS",
    "CAPS",
    "FIRST_CELL",
    "LAST_CELL",
    "THETA",
    "bet_sums",
    "bet_sums_of_logs",
]

BETS: Floats = np.ldexp(32.0, -np.arange(48))
"""lam_j = 32 * 2^-j. All 48 are always summed, so states merge for any n, delta and horizon."""
BETS.flags.writeable = False

FIRST_CELL, LAST_CELL = -32, 47
"""Exponents of the cells of `piwo.reductions.rate_cells`: cell i holds weights in [2^j, 2^(j+1))
with j = FIRST_CELL + i; the first all smaller ones and 0 too, the last all larger ones."""

CAPS: Floats = np.ldexp(1.0, np.arange(-1, LAST_CELL))
"""c_k = 2^(k-1), k = 0, ..., 47: the numbers at which weights are truncated; edges of cells."""
CAPS.flags.writeable = False

THETA = 0.8
"""The largest part of its wealth that a bet on truncated weights can lose in one row."""

CAPPED_BETS: Floats = THETA / CAPS
"""lam_k = theta / c_k: bets on sum_a min(pi_a, c_k mu_a) - min(w, c_k) R, which is >= -c_k."""
CAPPED_BETS.flags.writeable = False


def bet_sums(y: npt.ArrayLike) -> Floats:
    """Return S_j = sum_t log(1 + lam_j y_t) for the 48 bets `BETS`.

    Formula: the logarithms of the fixed-bet betting martingales of `piwo.bounds.mixture`; additive
    over rows.

    Args:
        y: (n,) non-negative finite numbers; see `bet_sums_of_logs` for numbers beyond float64.

    Returns:
        (48,) float64, to 1e-13 relative.

    >>> bool(np.isclose(bet_sums([1.0, 1.0])[5], 2 * np.log(2.0), rtol=1e-13))
    True
    """
    from piwo.reductions.bet_kernels import add_bets

    sums = np.zeros(len(BETS))
    add_bets(np.ascontiguousarray(numbers("y", y)), BETS, sums)
    return sums


def bet_sums_of_logs(log_y: npt.ArrayLike) -> Floats:
    """Return S_j from log y, (n,), -inf if y is 0: for the few rows beyond float64.

    >>> bool(np.allclose(bet_sums_of_logs([0.0, -np.inf]), bet_sums([1.0, 0.0]), rtol=1e-13))
    True
    """
    logs = np.asarray(log_y, np.float64)
    # log(1 + lam_j y) = log(exp(0) + exp(log lam_j + log y))
    total: Floats = np.logaddexp(0.0, logs[:, None] + np.log(BETS)).sum(axis=0)
    return total
