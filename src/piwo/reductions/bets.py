"""Bet sums: the additive state behind the mixture bound, S_j = sum_t log(1 + lam_j Y_t) for 48 fixed bets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Floats

__all__ = ["BETS", "bet_sums"]

BETS: Floats = 32.0 * 2.0 ** -np.arange(48)
"""lam_j = 32 * 2^-j. All 48 are always summed, so that states merge whatever n, delta and horizon turn out to be."""
BETS.flags.writeable = False


def bet_sums(y: npt.ArrayLike, log_y: Callable[[npt.NDArray[np.intp]], Floats] | None = None) -> Floats:
    """Return S_j = sum_t log(1 + lam_j y_t) for the 48 bets `BETS`.

    Formula: the logarithms of the fixed-bet betting martingales of `piwo.bounds.mixture`; additive over rows.

    Args:
        y: (n,) non-negative numbers; inf stands for a number beyond float64.
        log_y: gives the logarithms of y at row positions where y is inf.

    Returns:
        (48,) float64.

    >>> round(float(bet_sums([1.0, 1.0])[5]), 12) == round(2 * float(np.log(2.0)), 12)
    True
    """
    from piwo.reductions.kernels import add_bets

    values = np.ascontiguousarray(y, np.float64)
    sums = np.zeros(len(BETS))
    if len(values) and not np.isfinite(values.max()):
        lost = np.flatnonzero(~np.isfinite(values))
        if log_y is None:
            return np.full(len(BETS), np.inf)
        sums += (log_y(lost)[:, None] + np.log(BETS)).sum(axis=0)
        values = np.delete(values, lost)
    add_bets(values, BETS, sums)
    return sums
