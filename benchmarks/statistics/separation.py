"""Clipping against the scores that are safe: regret on a bandit of rare arms.

The logger plays one good arm half of the time, and each of about 1/(2 gamma) poorer arms with
probability gamma. At that very gamma the clipped estimate of a rare arm is unbiased and noisy, and
the best of many noisy estimates beats the good arm. Implicit exploration halves the rare arms'
credit. Its regret bound is (2 C + 1) sqrt(L/n); clipping breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo.logs import Batch
from piwo.scores import IX, Clip, GlobalClipLinear, LogClipLinear, LSLinear, Score

__all__ = ["REPS", "RareArms", "regrets", "rows"]

REPS = 1000
DELTA = 0.05
SCORES: tuple[Score, ...] = (Clip(), IX(), LSLinear(), GlobalClipLinear(), LogClipLinear())


@dataclass(frozen=True)
class RareArms:
    """A good arm and many rare, poorer ones, at the theory's gamma = sqrt(L/n).

    >>> bandit = RareArms.of(10**6)
    >>> len(bandit.mu), round(bandit.gamma, 5), round(bandit.bound, 4)
    (169, 0.00297, 0.009)
    """

    n: int
    gamma: float
    mu: np.ndarray[Any, np.dtype[np.float64]]
    """(K,) the logger's probabilities; the first arm is the good one."""
    value: np.ndarray[Any, np.dtype[np.float64]]
    """(K,) chance of the reward 1."""

    @classmethod
    def of(cls, n: int) -> RareArms:
        """Return the bandit for logs of n rows."""
        gamma = 1.0 / math.sqrt(n)
        for _ in range(50):  # gamma = sqrt(log(2 K / delta) / n), and K = 1 + floor(1 / (2 gamma))
            arms = 1 + math.floor(0.5 / gamma)
            gamma = math.sqrt(math.log(2 * arms / DELTA) / n)
        rare = arms - 1
        gap = math.sqrt(-math.log(gamma) / (gamma * n)) / 3
        mu = np.array([1.0 - rare * gamma, *[gamma] * rare])
        return cls(n, gamma, mu, np.array([0.5 + gap, *[0.5] * rare]))

    @property
    def bound(self) -> float:
        """The bound on the regret of IX against the good arm, (2 C_gamma + 1) sqrt(L/n)."""
        return float((2 * self.value[0] / (self.mu[0] + self.gamma) + 1) * self.gamma)


def regrets(
    bandit: RareArms, score: Score, reps: int, seed: int = 0
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the regret of the arm with the largest mean credit, in `reps` logs.

    >>> float(regrets(RareArms.of(10**6), IX(), reps=3).max())
    0.0
    """
    arms = len(bandit.mu)
    batch = Batch(0, np.arange(arms, dtype=np.int32), np.ones(arms), bandit.mu)
    credit = score.at_gamma(bandit.gamma).rho(batch, np.ones(arms))
    rng = np.random.default_rng(seed)
    won = bandit.mu * bandit.value
    wins = rng.multinomial(bandit.n, [*won, 1.0 - won.sum()], size=reps)[:, :arms]
    chosen = (wins * credit).argmax(axis=1)
    return np.asarray(bandit.value[0] - bandit.value[chosen])


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return mean regret and how often it exceeds IX's bound, by n and score."""
    made: list[Mapping[str, Any]] = []
    for n in (10**6, 10**7):
        bandit = RareArms.of(n)
        for score in SCORES:
            found = regrets(bandit, score, reps)
            made.append(
                {
                    "n": n,
                    "policies": len(bandit.mu),
                    "score": score.label,
                    "IX bound": bandit.bound,
                    "mean regret": float(found.mean()),
                    "above the bound": float((found > bandit.bound).mean()),
                }
            )
    return made
