"""Propensities wrong by a constant factor: how often is the bound violated, and detected?

The policy's action is logged with probability 1/2 and rewarded half of the time, or nine times of
ten. The log says 0.8, 0.95, 1 or 1.25 times the true propensity; in two lines the user allows for
true propensities of up to 1.25 or 1.06 times the logged ones. The error of a twentieth, in 10,000
rows, is in the window of what breaks intervals before the weights of one policy show it; `check`
tests more, and a declared factor helps.
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
CASES = (
    (2000, VALUE, 0.8, 1.0),
    (2000, VALUE, 1.0, 1.0),
    (2000, VALUE, 1.25, 1.0),
    (2000, VALUE, 0.8, 1.25),
    (10_000, 0.9, 0.95, 1.0),
    (10_000, 0.9, 0.95, 1.06),
)
"""(rows, value, logged / true propensity, factor allowed for)."""


def logged(error: float, seed: int, n: int = N, value: float = VALUE) -> piwo.Log:
    """Return one log.

    >>> len(logged(1.0, seed=0))
    2000
    """
    rng = np.random.default_rng(seed)
    action = np.where(rng.random(n) < 0.5, "a", "b")
    reward = (rng.random(n) < value) * 1.0
    return piwo.Log.from_arrays(
        action=action, reward=reward, propensity=np.full(n, 0.5 * error), actions=["a", "b"]
    )


def evaluated(
    error: float, allowed: float, seed: int, n: int = N, value: float = VALUE
) -> piwo.Evaluation:
    """Return the evaluation of "always a" on one log.

    >>> evaluated(1.0, 1.0, seed=0).rows
    2000
    """
    log = logged(error, seed, n, value)
    return piwo.evaluate(
        log, piwo.policies.Constant("a", log.actions), propensity_factor=allowed, interval="mixture"
    )


def warned(found: piwo.Evaluation) -> bool:
    """Whether the result says that the propensities are too small."""
    return any("do not match action frequencies" in note for note in found.notes)


def noticed(error: float, seed: int, n: int, value: float) -> bool:
    """Whether `check` finds the propensities too small."""
    found = piwo.check(logged(error, seed, n, value)).findings
    return any(one.kind == "propensities-too-small" for one in found)


def wrong(found: piwo.Evaluation, value: float) -> bool:
    """Whether an interval is shown that excludes the value."""
    if found.lower is None or found.upper is None:
        return False
    return not found.lower <= value <= found.upper


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return how often the bounds were violated, and how often the result warned, a case a line."""
    made: list[Mapping[str, Any]] = []
    for n, value, error, allowed in CASES:
        found = [evaluated(error, allowed, seed, n, value) for seed in range(reps)]
        checked = [noticed(error, seed, n, value) for seed in range(reps)]
        # None: at this delta the log contradicts its propensities, and no bound is given
        lower = np.array([np.nan if one.lower is None else one.lower for one in found])
        raw = np.array([np.nan if one.lower_raw is None else one.lower_raw for one in found])
        made.append(
            {
                "rows": n,
                "value": value,
                "logged / true": error,
                "allowed for": allowed,
                "lower bound above the value": float((raw > value).mean()),
                "shown": float((lower > value).mean()),
                "interval wrong and shown": float(np.mean([wrong(one, value) for one in found])),
                "warned": float(np.mean([warned(one) for one in found])),
                "mean lower bound": float(np.nanmean(raw)),
                "noticed by check": float(np.mean(checked)),
            }
        )
    return made
