"""Intervals for comparison: mean widths, and how often each end is wrong, on seven bandits.

The bandits go from easy to hopeless, n = 3000, delta = 0.05. Bounds that need the largest weight
that can occur are given the true one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import piwo
from benchmarks.statistics.intervals import CASES
from piwo.intervals import interval_named
from piwo.simulate import Bandit

__all__ = ["REPS", "rows"]

REPS = 100
N = 3000


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return mean width and errors of each side, by bandit and interval method."""
    made: list[Mapping[str, Any]] = []
    for case in CASES:
        bandit = case.bandit
        plain = [bandit.log(N, random_state=seed) for seed in range(reps)]
        vectors = [_with_vectors(log, bandit) for log in plain]
        for method in _methods(bandit):
            logs = vectors if interval_named(method).needs_every_action else plain
            ends = _ends(bandit, logs, method)
            if ends is not None:
                made.append(_row(bandit, method, ends))
    return made


def _methods(bandit: Bandit) -> tuple[str, ...]:
    """Return the methods to compare, those that need the largest weight with the true one."""
    largest = max(p / m for p, m in zip(bandit.pi, bandit.mu, strict=True))
    return (
        "mixture",
        "score",
        f"hoeffding:{largest}",
        f"empirical-bernstein:{largest}",
        "clopper-pearson",
        "gamma-exponential",
        "eslb",
        f"cressie-read:{max(1.0, largest)}",
        f"empirical-likelihood:{max(1.0, largest)}",
        "normal",
    )


def _row(
    bandit: Bandit, method: str, ends: np.ndarray[Any, np.dtype[np.float64]]
) -> Mapping[str, Any]:
    """Return one row of the table."""
    name = "score (ls)" if method == "score" else method.partition(":")[0]
    return {
        "case": bandit.name,
        "interval": name,
        "width": float((ends[:, 1] - ends[:, 0]).mean()),
        "lower misses": float((ends[:, 0] > bandit.value).mean()),
        "upper misses": float((ends[:, 1] < bandit.value).mean()),
    }


def _with_vectors(log: piwo.Log, bandit: Bandit) -> piwo.Log:
    """Return the same log with the probabilities of all actions."""
    (batch,) = log.each_batch()
    vectors = np.tile(bandit.mu, (len(log), 1))
    return piwo.Log.from_arrays(
        action=batch.action, reward=batch.reward, propensities=vectors, actions=bandit.actions
    )


def _ends(
    bandit: Bandit, logs: list[piwo.Log], method: str
) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return the ends within [0, 1], one row a log; None if the method does not apply."""
    estimator = "ls" if method == "score" else "iw"
    found = []
    for log in logs:
        try:
            one = piwo.evaluate(log, bandit.policy, estimator=estimator, interval=method)
        except piwo.UsageError:
            # clopper-pearson, if weights have several sizes
            return None
        if one.lower is None or one.upper is None:
            continue
        found.append((max(0.0, one.lower), min(1.0, one.upper)))
    return np.array(found)
