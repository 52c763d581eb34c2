"""Looking at every n: how often does the lower bound ever exceed the value?

Each bandit's log grows to n = 2000 rows and is looked at after every row. The bets are fixed for a
horizon of 2000 rows, or all 48, or, which is wrong, chosen anew at each look as for a single
analysis. "One look" is at n = 2000 alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.reductions import BETS
from piwo.simulate import Bandit, adversarial_bandits

__all__ = ["REPS", "crossings", "rows"]

REPS = 1000
ROWS, DELTA = 2000, 0.05
COIN = Bandit("a fair coin, always logged", log_mu=(0.0,), pi=(1.0,), chance=(0.5,))
SEEN = ("clicks", "on-policy", "missing support", "uniform on a peaked logger")

Mask = npt.NDArray[np.bool_]


def crossings(bandit: Bandit, logs: int, seed: int = 0) -> dict[str, Mask]:
    """Return for each way of betting whether the bound was above the value, (logs,).

    The bound exceeds v exactly where the average wealth at v is above 1/delta.

    >>> sorted(crossings(adversarial_bandits()[2], logs=1))
    ['anew at each look', 'horizon', 'one look', 'universal']
    """
    rng, cells = np.random.default_rng(seed), bandit.cells
    w = np.asarray(bandit.pi)[cells.action] / np.exp(
        cells.log_propensity
    )  # not a propensity: of a bandit's cells
    steps = np.log1p(np.outer(w * cells.reward, BETS)) - np.log1p(BETS * bandit.value)
    penalty = bounds.log_inv_delta(DELTA)
    sizes = np.array([bounds.grid_size(n, penalty) for n in range(1, ROWS + 1)])
    fixed = np.full(ROWS, sizes[-1])
    ways = {"horizon": fixed, "universal": np.full(ROWS, BETS.size), "anew at each look": sizes}
    found = {name: np.zeros(logs, np.bool_) for name in ("one look", *ways)}
    for i in range(logs):
        wealth = np.cumsum(steps[rng.choice(len(cells.chance), ROWS, p=cells.chance)], axis=0)
        for name, size in ways.items():
            used = np.where(np.arange(BETS.size) < size[:, None], wealth, -np.inf)
            peak = used.max(axis=1)
            level = peak + np.log(np.exp(used - peak[:, None]).sum(axis=1)) - np.log(size)
            found[name][i] = bool((level > penalty).any())
            if name == "horizon":
                found["one look"][i] = bool(level[-1] > penalty)
    return found


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return the rates by bandit."""
    made: list[Mapping[str, Any]] = []
    for bandit in (COIN, *(one for one in adversarial_bandits() if one.name in SEEN)):
        found = crossings(bandit, reps)
        made.append(
            {
                "bandit": bandit.name,
                "delta": DELTA,
                **{name: float(crossed.mean()) for name, crossed in found.items()},
                "standard error at delta": math.sqrt(DELTA * (1 - DELTA) / reps),
            }
        )
    return made
