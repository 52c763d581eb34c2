"""How often the lemmas and regret theorems fail, on adversarial bandits.

The class is every fixed action and the bandit's target policy; a lemma fails where any policy of
the class breaks it, a regret bound where any comparator does. The worst rate over n in {200, 2000},
gamma in {1/4, 1, 4} sqrt(L/n) is shown. A log is a table of counts, and a score of all logs is a
product of counts with the credits of the few different rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.scores import IX, LSLinear, Score
from piwo.simulate import Bandit, adversarial_bandits

__all__ = ["REPS", "Class", "rates", "rows"]

REPS = 20_000
FACTORS = (0.25, 1.0, 4.0)
SIZES = (200, 2000)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Class:
    """The policies of one bandit: every fixed action, then the target."""

    bandit: Bandit

    @cached_property
    def members(self) -> list[Bandit]:
        """The bandit with each policy as its target."""
        size = len(self.bandit.pi)
        fixed = [
            replace(self.bandit, pi=tuple(float(a == k) for a in range(size))) for k in range(size)
        ]
        return [*fixed, self.bandit]

    @cached_property
    def values(self) -> Floats:
        """The true values."""
        return np.array([one.value for one in self.members])

    @property
    def log_size(self) -> float:
        """Log |Pi|."""
        return math.log(len(self.members))

    def coverage(self, gamma: float) -> Floats:
        """Return C_gamma of every policy."""
        return np.array([one.coverage(gamma=gamma) for one in self.members])

    def credits(self, score: Score) -> Floats:
        """Return what every policy is credited for one row of each kind, (C, |Pi|)."""
        kinds = self.bandit.cells
        batch = next(self.bandit.log_of(np.arange(len(kinds.chance))).each_batch())
        return np.stack(
            [score.rho(batch, np.asarray(one.pi)[kinds.action]) for one in self.members], axis=1
        )


def rates(
    bandit: Bandit, n: int, delta: float, factor: float, counts: npt.NDArray[np.int64]
) -> Mapping[str, float]:
    """Return how often each statement fails in the given logs, (logs, C) counts.

    >>> coin = adversarial_bandits()[0]
    >>> sorted(rates(coin, 200, 0.05, 1.0, coin.counts(200, 10, 0)))
    ['A1', "A1'", 'A3', 'Lemma L', 'Lemma U']
    """
    made = Class(bandit)
    gamma = factor * bounds.gamma_auto(n, made.log_size, delta)
    share = bounds.log_inv_delta(delta, log_class_size=made.log_size)
    ix, ls = (counts @ made.credits(score) / n for score in (IX(gamma), LSLinear(2 * gamma)))
    above = ix - made.values
    coverage = made.coverage(gamma)
    deep = np.array([bounds.ix_upper_deviation(c, n, gamma, share) for c in coverage])

    def fails(scores: Floats, bound: Any, covered: Floats) -> float:
        limits = np.array([bound(n, gamma, c, made.log_size, delta) for c in covered])
        regret = made.values - made.values[scores.argmax(axis=1)][:, None]
        return float((regret > limits).any(axis=1).mean())

    return {
        "Lemma U": float((above > share / (2 * gamma * n)).any(axis=1).mean()),
        "Lemma L": float((-above > deep).any(axis=1).mean()),
        "A1": fails(ix, bounds.regret_bound, coverage),
        "A1'": fails(ix, bounds.regret_bound_alone, coverage),
        "A3": fails(ls, bounds.regret_bound_ls, made.coverage(2 * gamma)),
    }


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return the worst rates, by bandit and delta."""
    made: list[Mapping[str, Any]] = []
    for bandit in adversarial_bandits():
        drawn = {n: bandit.counts(n, reps, random_state=n) for n in SIZES}
        for delta in (0.05, 0.2):
            found = [rates(bandit, n, delta, factor, drawn[n]) for n in SIZES for factor in FACTORS]
            worst = {name: max(one[name] for one in found) for name in found[0]}
            made.append(
                {
                    "bandit": bandit.name,
                    "policies": len(Class(bandit).members),
                    "delta": delta,
                    **worst,
                }
            )
    return made
