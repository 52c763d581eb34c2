"""Regret with an adaptive logger: expected coverage does not suffice, predictable one does.

The first row decides, with chance .1, that the good action is never tried again; otherwise it is
tried half of the time. It earns 1, the other action .01. PIWO-IX with gamma = sqrt(L/n) on n =
20,000 rows, two policies, delta = .05.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from piwo import bounds

__all__ = ["REPS", "rows"]

REPS = 20_000
ROWS, DELTA, NEVER, POOR = 20_000, 0.05, 0.1, 0.01


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return the claimed bounds and how often they fail."""
    rng = np.random.default_rng(0)
    gamma = bounds.gamma_auto(ROWS, math.log(2), DELTA)
    never = rng.random(reps) < NEVER
    tried = np.where(never, 0, rng.binomial(ROWS, 0.5, reps))
    wins = rng.binomial(ROWS - tried, POOR)
    good = tried / (0.5 + gamma)
    other = wins / (np.where(never, 1.0, 0.5) + gamma)
    regret = np.where(good >= other, 0.0, 1.0 - POOR)
    predictable = np.where(never, 1 / gamma, 1 / (0.5 + gamma))
    expected = (1 - NEVER) / (0.5 + gamma) + NEVER / gamma
    made: list[Mapping[str, Any]] = []
    for name, coverage in (("expected", np.full(reps, expected)), ("predictable", predictable)):
        bound = np.array(
            [bounds.regret_bound(ROWS, gamma, c, math.log(2), DELTA) for c in np.unique(coverage)]
        )
        limit = bound[np.searchsorted(np.unique(coverage), coverage)]
        made.append(
            {
                "coverage": name,
                "smallest bound": float(limit.min()),
                "largest bound": float(limit.max()),
                "delta": DELTA,
                "violated": float((regret > limit).mean()),
            }
        )
    return made
