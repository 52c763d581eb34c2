"""Regret certificates of PIWO-Grid: against the best of its class, and a named policy.

The bandit of the grid benchmark: 200 policies, the best plays an action that the logger takes with
probability eps. The policy is chosen on the rows that certify it, and all 200 are paid for. Global:
the smallest loss over the class, by the exact oracle. One comparator: from the logged actions
alone, on the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.statistics.grid import DELTA, POLICIES, RareBest
from piwo import bounds
from piwo.reductions import BETS

__all__ = ["REPS", "certificates", "rows"]

REPS = 300


def certificates(bandit: RareBest, counts: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """Return regret, global certificate and certificate against the best policy, for one log.

    >>> regret, of_class, of_one = certificates(
    ...     RareBest(0.5), RareBest(0.5).counts(5000, np.random.default_rng(0))
    ... )
    >>> regret <= min(of_class, of_one)
    True
    """
    n, size = int(counts.sum()), math.log(POLICIES)
    learned, best = bandit.learn(counts, "ls-linear").policy, int(bandit.values.argmax())
    half = bounds.log_inv_delta(DELTA, statements=2, log_class_size=size)
    grid = bounds.gamma_grid_ls(n, size, DELTA)
    lost = counts[:, :, ::-1]  # rewards of 0 are losses of 1
    least = [float(bandit.mean_scores(lost, "ls-linear", gamma).min()) for gamma in grid.gammas]
    contexts = np.arange(len(bandit.choices[0]))

    def sums(policy: int, won: int) -> npt.NDArray[np.float64]:
        taken = bandit.choices[policy]
        gains = np.log1p(
            np.outer(1.0 / bandit.mu[taken], BETS)
        )  # not a propensity: of a bandit counted by cells
        return np.asarray(counts[contexts, taken, won] @ gains)

    value = bounds.lower(sums(learned, 1), n, half)
    of_class = min(1.0, bounds.best_value_upper(least, grid.bets, n, half)) - value
    # wins of what was learned and misses of the best: no row is both
    each = bounds.log_inv_delta(DELTA, log_class_size=size)
    of_one = 1.0 - bounds.lower(sums(learned, 1) + sums(best, 0), n, each)
    return float(bandit.values[best] - bandit.values[learned]), of_class, of_one


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return mean certificates and how often the regret is above them, by eps and n."""
    made: list[Mapping[str, Any]] = []
    for eps, n in ((0.1, 10_000), (0.1, 100_000), (0.5, 10_000)):
        bandit, rng = RareBest(eps), np.random.default_rng(0)
        found = np.array([certificates(bandit, bandit.counts(n, rng)) for _ in range(reps)])
        regret, of_class, of_one = found.T
        made.append(
            {
                "eps": eps,
                "n": n,
                "regret": float(regret.mean()),
                "global": float(of_class.mean()),
                "against the best": float(of_one.mean()),
                "above either": float((regret > np.minimum(of_class, of_one)).mean()),
            }
        )
    return made
