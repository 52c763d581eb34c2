"""Propensities wrong by a constant factor: how often is the bound violated, and detected?

The policy's action is logged with probability 1/2 and rewarded half of the time. The log says 0.8,
1 or 1.25 times the true propensity; in the last line the user allows for true propensities of up to
1.25 times the logged ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import piwo

__all__ = ["REPS", "evaluated", "rows"]

REPS = 200
N = 2000
VALUE = 0.5
CASES = ((0.8, 1.0), (1.0, 1.0), (1.25, 1.0), (0.8, 1.25))
"""(logged / true propensity, factor allowed for)."""


def evaluated(error: float, allowed: float, seed: int, n: int = N) -> piwo.Evaluation:
    """Return the evaluation of "always a" on one log.

    >>> evaluated(1.0, 1.0, seed=0).rows
    2000
    """
    rng = np.random.default_rng(seed)
    action = np.where(rng.random(n) < 0.5, "a", "b")
    reward = (rng.random(n) < VALUE) * 1.0
    log = piwo.Log.from_arrays(
        action=action, reward=reward, propensity=np.full(n, 0.5 * error), actions=["a", "b"]
    )
    return piwo.evaluate(
        log, piwo.policies.Constant("a", log.actions), propensity_factor=allowed, interval="mixture"
    )


def warned(found: piwo.Evaluation) -> bool:
    """Whether the result says that the propensities are too small."""
    return any("do not match action frequencies" in note for note in found.notes)


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return how often the bounds were violated, and how often the result warned, a case a line."""
    made: list[Mapping[str, Any]] = []
    for error, allowed in CASES:
        found = [evaluated(error, allowed, seed) for seed in range(reps)]
        # None: at this delta the log contradicts its propensities, and no bound is given
        lower = np.array([np.nan if one.lower is None else one.lower for one in found])
        raw = np.array([np.nan if one.lower_raw is None else one.lower_raw for one in found])
        made.append(
            {
                "logged / true": error,
                "allowed for": allowed,
                "lower bound above the value": float((raw > VALUE).mean()),
                "shown": float((lower > VALUE).mean()),
                "warned": float(np.mean([warned(one) for one in found])),
                "mean lower bound": float(np.nanmean(raw)),
            }
        )
    return made
