"""PIWO-Grid against one gamma if the best action is rare: regret, its bounds, lower bounds.

200 policies over six contexts and eight actions. The best plays an action of value .9 that the
logger takes with probability eps; 199 others never do. With gamma = sqrt(L/n) that action is
smoothed away; the grid finds it as soon as the log can prove it. How much one gamma loses depends
on how the logger treats the other actions, too: it takes them equally often, or, peaked, the first
of them eight times in nine, so that most are rare.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds

__all__ = ["DELTA", "GRIDS", "PEAK", "POLICIES", "REPS", "Found", "RareBest", "rows"]

REPS = 2000
DELTA, POLICIES, CONTEXTS, ACTIONS = 0.05, 200, 6, 8
PEAK = 8 / 9
GRIDS = {"ix": bounds.gamma_grid_ix, "ls-linear": bounds.gamma_grid_ls}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """What PIWO-Grid found in one log: gamma -> policy and lower bound, and the chosen gamma."""

    path: Mapping[float, tuple[int, float]]
    chosen: float

    @property
    def policy(self) -> int:
        """The policy of the choice."""
        return self.path[self.chosen][0]

    @property
    def lower(self) -> float:
        """The lower bound on its value."""
        return self.path[self.chosen][1]


@dataclass(frozen=True)
class RareBest:
    """The bandit. A log of it is a table of counts: context, action, reward 0 or 1.

    >>> bandit = RareBest(0.02)
    >>> round(float(bandit.values.max()), 3), bandit.counts(1000, np.random.default_rng(0)).shape
    (0.9, (6, 8, 2))
    """

    eps: float
    peak: float = 1 / (ACTIONS - 1)
    """Share of the first of the other actions among all of them."""

    @cached_property
    def mu(self) -> Floats:
        """The (K,) logger's probabilities, the same in every context."""
        shares = np.array([self.peak, *[(1 - self.peak) / (ACTIONS - 2)] * (ACTIONS - 2)])
        return np.array([self.eps, *((1 - self.eps) * shares)])

    @cached_property
    def rate(self) -> Floats:
        """The (CONTEXTS, K) chances of the reward 1."""
        others = np.random.default_rng(7).uniform(0.2, 0.55, (CONTEXTS, ACTIONS - 1))
        return np.hstack([np.full((CONTEXTS, 1), 0.9), others])

    @cached_property
    def choices(self) -> npt.NDArray[np.int64]:
        """The (POLICIES, CONTEXTS) actions of the policies, in mixed order."""
        rng = np.random.default_rng(8)
        others = rng.integers(1, ACTIONS, (POLICIES - 1, CONTEXTS))
        return rng.permutation(np.vstack([np.zeros((1, CONTEXTS), np.int64), others]))

    @cached_property
    def values(self) -> Floats:
        """The (POLICIES,) true values."""
        return np.asarray(self.rate[np.arange(CONTEXTS), self.choices].mean(axis=1))

    def coverage(self, gamma: float) -> float:
        """Return C_gamma of the best policy."""
        return 0.9 / (self.eps + gamma)

    @property
    def variance(self) -> float:
        """The variance of w R under the best policy."""
        return 0.9 / self.eps - 0.81

    def counts(self, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return a log of n rows, (CONTEXTS, K, 2)."""
        won = self.rate * self.mu
        chance = np.stack([self.mu - won, won], axis=2) / CONTEXTS
        return rng.multinomial(n, chance.reshape(-1)).reshape(chance.shape)

    def mean_scores(self, counts: npt.NDArray[np.int64], score: str, gamma: float) -> Floats:
        """Return the mean score of every policy, (POLICIES,), by formulas written out again."""
        lam = 2 * gamma
        y = 1.0 / self.mu  # not a propensity: of a bandit that is counted by cells, not of a log
        gain = y / (1 + gamma * y) if score == "ix" else np.log1p(lam * y) / lam
        total = counts[:, :, 1] * gain
        return np.asarray(total[np.arange(CONTEXTS), self.choices].sum(axis=1) / counts.sum())

    def learn(self, counts: npt.NDArray[np.int64], score: str) -> Found:
        """Return what PIWO-Grid finds: the algorithm of docs/grid.md, step by step."""
        n = int(counts.sum())
        m = math.floor(math.log2(n)) + (1 if score == "ix" else 6)
        each = math.log(2 * POLICIES / DELTA)
        penalty = each + math.log(max(m, math.ceil(math.log2(32 * n / each)) + 1))
        path = {}
        for j in range(m):
            gamma = (1.0 if score == "ix" else 16.0) / 2**j
            if gamma >= penalty / n:
                v = self.mean_scores(counts, score, gamma)
                best = int(v.argmax())
                path[gamma] = best, math.expm1(2 * gamma * v[best] - penalty / n) / (2 * gamma)
        return Found(path, max(path, key=lambda gamma: (path[gamma][1], gamma)))


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return regrets, bounds and how often they fail, by gains, logger, eps and n."""
    made: list[Mapping[str, Any]] = []
    even = [
        (0.02, 10_000),
        (0.005, 10_000),
        (0.005, 100_000),
        (0.1, 10_000),
        (0.5, 10_000),
        (0.9, 10_000),
    ]
    loggers = [("even", RareBest.peak, even, 0), ("peaked", PEAK, even[:3], 1)]
    for logger, peak, cases, seed in loggers:
        rng = np.random.default_rng(seed)
        for (score, make), (eps, n) in itertools.product(GRIDS.items(), cases):
            bandit = RareBest(eps, peak)
            grid = make(n, math.log(POLICIES), DELTA)
            gamma = bounds.gamma_auto(n, math.log(POLICIES), DELTA)
            best, lower, regret, fixed = float(bandit.values.max()), [], [], []
            wrong = 0
            for _ in range(reps):
                counts = bandit.counts(n, rng)
                found = bandit.learn(counts, score)
                lower.append(found.lower)
                regret.append(best - bandit.values[found.policy])
                wrong += found.lower > bandit.values[found.policy]
                fixed.append(
                    best - bandit.values[int(bandit.mean_scores(counts, score, gamma).argmax())]
                )
            smooth = score == "ls-linear"
            second = (
                bounds.regret_bound_grid_variance(grid, bandit.variance, value=0.9)
                if smooth
                else 1.0
            )
            bound = min(bounds.regret_bound_grid(grid, bandit.coverage), second)
            made.append(
                {
                    "logger": logger,
                    "gains": score,
                    "eps": eps,
                    "n": n,
                    "regret of the grid": float(np.mean(regret)),
                    "of one gamma": float(np.mean(fixed)),
                    "bound by coverage": bounds.regret_bound_grid(grid, bandit.coverage),
                    "bound by variance": second if smooth else "",
                    "above a bound": float(np.mean(np.array(regret) > bound)),
                    "lower bound": float(np.mean(lower)),
                    "above the value": wrong / reps,
                }
            )
    return made
