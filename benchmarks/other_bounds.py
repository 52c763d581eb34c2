"""Bounds of others on a mean whose largest value is known, to compare widths with."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["bernstein", "betting"]

Floats = npt.NDArray[np.float64]


def betting(y: Floats, most: float, delta: float = 0.025) -> float:
    """Return the lower bound of the plug-in bettor of Waudby-Smith and Ramdas, y in [0, most].

    lambda_t = sqrt(2 log(1/delta) / (n V_{t-1})), at most 3/(4 m), for each mean m.
    """
    x, n = y / most, len(y)
    t = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    bets = np.sqrt(2 * math.log(1 / delta) / (n * np.append(0.25, variance[:-1])))
    low, high = 0.0, float(x.mean())
    for _ in range(25):
        m = (low + high) / 2
        # Ville: the largest wealth may be taken
        wealth = np.cumsum(np.log1p(np.minimum(bets, 0.75 / m) * (x - m))).max() if m else 0.0
        low, high = (m, high) if wealth >= math.log(1 / delta) else (low, m)
    return low * most


def bernstein(y: Floats, most: float, delta: float = 0.025) -> float:
    """Return the lower bound of Maurer and Pontil."""
    n, penalty = len(y), math.log(2 / delta)
    spread = math.sqrt(2 * float(y.var(ddof=1)) * penalty / n)
    return float(y.mean()) - spread - 7 * most * penalty / (3 * (n - 1))
