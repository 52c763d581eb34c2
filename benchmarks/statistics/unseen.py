"""Cressie-Read intervals with and without the row that was not seen: how often an end is wrong.

The policy takes what the log holds a few times in 1000, and hardly anything of what it earns, or
loses, is in the log. Without the row that was not seen, the interval takes what it saw for all that
there is. delta = 0.05; nominal: 0.025 for each end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from piwo import bounds

__all__ = ["REPS", "rows"]

REPS = 2000
N, DELTA = 1000, 0.05
CASES = (("rare, seldom rewarded", 0.004, 0.1), ("rare, nearly always rewarded", 0.004, 0.9))
EASY = (("half of the rows", 0.5, 0.3), ("one row in twenty", 0.05, 0.3))


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return how often each end is wrong, by bandit and interval."""
    made: list[Mapping[str, Any]] = []
    for name, mu, chance in (*CASES, *EASY):
        rng = np.random.default_rng(0)
        ends: dict[str, list[tuple[float, float]]] = {
            "without it": [],
            "published": [],
            "published, largest weight given": [],
        }
        for _ in range(reps):
            w, r = _drawn(rng, mu, chance)
            ends["without it"].append(_without(w, r))
            for label, largest in (
                ("published", math.inf),
                ("published, largest weight given", 1.0 / mu),
            ):
                found = bounds.cressie_read_interval(**_sums(w, r), delta=DELTA, largest=largest)
                assert found.lower is not None
                assert found.upper is not None
                ends[label].append((found.lower, found.upper))
        for label, pairs in ends.items():
            both = np.clip(np.array(pairs), 0.0, 1.0)
            made.append(
                {
                    "bandit": name,
                    "interval": label,
                    "width": float((both[:, 1] - both[:, 0]).mean()),
                    "lower misses": float((both[:, 0] > chance).mean()),
                    "upper misses": float((both[:, 1] < chance).mean()),
                }
            )
    return made


def _drawn(
    rng: np.random.Generator, mu: float, chance: float
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return weights and rewards of one log."""
    taken = rng.random(N) < mu
    return np.where(taken, 1.0 / mu, 0.0), (rng.random(N) < chance) * 1.0


def _sums(w: np.ndarray[Any, Any], r: np.ndarray[Any, Any]) -> dict[str, Any]:
    y = w * r
    return {
        "n": len(w),
        "w": float(w.sum()),
        "w2": float(w @ w),
        "wr": float(y.sum()),
        "w2r": float(w @ y),
        "w2r2": float(y @ y),
    }


def _without(w: np.ndarray[Any, Any], r: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return V - beta (W - 1) -+ sqrt(F s2 / n), a regression of w R on w over the rows alone."""
    y, n = w * r, len(w)
    beta = 0.0
    if w.var() > 0:
        beta = float(np.cov(w, y, bias=True)[0, 1] / w.var())
    center = y.mean() - beta * (w.mean() - 1.0)
    spread = max(0.0, float(y.var() - beta * beta * w.var()))
    margin = math.sqrt(stats.f.isf(DELTA, 1, n - 1) * spread / n)
    return float(center - margin), float(center + margin)
