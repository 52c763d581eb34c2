"""PAC-Bayes bounds over a finite class: violation rates for the posterior and for all.

On adversarial bandits, the class is every fixed action and the target policy; and 3000 policies
that toss coins for each row, all worth 1/2. The prior is uniform. "For all posteriors": the event
that contains the failure of any of them, a log-partition function (docs/pac_bayes.md, Theorem 1).
Theorems 2 and 3 against all comparators Q* together, whose supremum is one too. "No KL": what the
posterior learned would claim of itself if it paid nothing for having been learned; it may fail. The
worst rate over IX and linear LS, gamma in {1, 4}/sqrt(n), n in {200, 2000} (coins: 100).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.statistics.violations import SIZES, Class
from piwo import bounds
from piwo.logs import Batch
from piwo.scores import IX, LSLinear, Score
from piwo.simulate import Bandit, adversarial_bandits

__all__ = ["REPS", "Coins", "Logs", "Policies", "rates", "rows"]

REPS = 5000
COINS = 3000
FACTORS = (1.0, 4.0)
GRIDS = ((IX(0.1), bounds.gamma_grid_ix), (LSLinear(0.1), bounds.gamma_grid_ls))

Floats = npt.NDArray[np.float64]


class Logs(Protocol):
    """Many logs of n rows, and what is true of the policies."""

    @property
    def n(self) -> int:
        """The number of rows of each log."""
        ...

    @property
    def values(self) -> Floats:
        """The (|Pi|,) true values."""
        ...

    def coverage(self, gamma: float) -> Floats:
        """Return C_gamma of every policy."""
        ...

    def scores(self, score: Score) -> Floats:
        """Return the mean score of every policy in every log, (logs, |Pi|)."""
        ...


@dataclass(frozen=True)
class Policies:
    """Logs of a bandit, as counts of their different rows, (logs, C)."""

    made: Class
    n: int
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, bandit: Bandit, n: int, logs: int) -> Policies:
        """Return seeded logs."""
        return cls(Class(bandit), n, bandit.counts(n, logs, random_state=n))

    @property
    def values(self) -> Floats:
        """The true values."""
        return self.made.values

    def coverage(self, gamma: float) -> Floats:
        """Return C_gamma of every policy."""
        return self.made.coverage(gamma)

    def scores(self, score: Score) -> Floats:
        """Return mean scores."""
        return self.counts @ self.made.credits(score) / self.n


@dataclass(frozen=True)
class Coins:
    """Logger, rewards and policies toss fair coins: (logs, |Pi|) counts of rewarded agreement."""

    n: int
    agreed: npt.NDArray[np.int64]

    @classmethod
    def of(cls, n: int, logs: int) -> Coins:
        """Return seeded logs."""
        rng = np.random.default_rng(n)
        return cls(n, rng.binomial(rng.binomial(n, 0.5, (logs, 1)), 0.5, (logs, COINS)))

    @property
    def values(self) -> Floats:
        """The true values."""
        return np.full(self.agreed.shape[1], 0.5)

    def coverage(self, gamma: float) -> Floats:
        """Return C_gamma of every policy: half of its rows are rewarded."""
        return np.full(self.agreed.shape[1], 0.5 / (0.5 + gamma))

    def scores(self, score: Score) -> Floats:
        """Return mean scores."""
        one = np.ones(1)
        batch = Batch(0, np.zeros(1, np.int32), one, one / 2.0)
        return self.agreed * float(score.rho(batch, one)[0]) / self.n


def rates(made: Logs, delta: float) -> Mapping[str, float]:
    """Return how often each statement fails in the given logs.

    >>> sorted(rates(Coins.of(100, 10), 0.05))
    ['Theorem 2', 'Theorem 3', 'for all posteriors', 'grid', 'no KL']
    """
    n, share = made.n, bounds.log_inv_delta(delta)
    worst = dict.fromkeys(("for all posteriors", "no KL", "Theorem 2", "grid", "Theorem 3"), 0.0)

    def failed(name: str, where: npt.NDArray[np.bool_]) -> None:
        worst[name] = max(worst[name], float(where.mean()))

    for score, make in GRIDS:
        for factor in FACTORS:
            gamma = factor / math.sqrt(n)
            v, gains, _, value = _gibbs(made, score, gamma)
            failed(
                "for all posteriors",
                _mean_exp(2 * gamma * n * v - n * np.log1p(2 * gamma * made.values)) > share,
            )
            failed("no KL", np.expm1(2 * gamma * gains - share / n) / (2 * gamma) > value)
            failed("Theorem 2", _best_comparator(made, score, gamma, share) > value)
        grid = make(n, 0.0, delta)
        found = []
        for gamma in grid.gammas:
            *_, log_partition, value = _gibbs(made, score, gamma)
            found.append((np.expm1((log_partition - grid.penalty) / n) / (2 * gamma), value))
        lows, values = (np.array(x) for x in zip(*found, strict=True))
        chosen = np.take_along_axis(values, lows.argmax(axis=0)[None], axis=0)[0]
        failed("grid", lows.max(axis=0) > chosen)
        failed(
            "Theorem 3",
            max(_best_comparator(made, score, x, grid.penalty) for x in grid.gammas) > chosen,
        )
    return worst


def _gibbs(made: Logs, score: Score, gamma: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return policies' scores, (logs, |Pi|); Gibbs score, log-partition and value, (logs,)."""
    v = made.scores(score.at_gamma(gamma))
    tilted = 2 * gamma * made.n * v
    weights = np.exp(tilted - tilted.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return v, (weights * v).sum(axis=1), _mean_exp(tilted), weights @ made.values


def _best_comparator(made: Logs, score: Score, gamma: float, share: float) -> float:
    """Return sup over Q* of v(Q*) minus the regret bound: what the learned must be worth."""
    covered = made.coverage(gamma if score.name == "ix" else 2 * gamma)
    tilted = gamma * made.n * (made.values - 2 * gamma * covered)
    return float((_mean_exp(tilted[None])[0] - share) / (gamma * made.n))


def _mean_exp(exponents: Floats) -> Floats:
    """Return the logarithm of the mean of exp over the last axis."""
    top = exponents.max(axis=1)
    return np.asarray(np.log(np.exp(exponents - top[:, None]).mean(axis=1)) + top)


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return the worst rates, by bandit and delta."""
    made: list[Mapping[str, Any]] = []
    cases: dict[str, list[Logs]] = {
        bandit.name: [Policies.of(bandit, n, reps) for n in SIZES]
        for bandit in adversarial_bandits()
    }
    cases["coins"] = [Coins.of(100, max(2, reps // 10))]
    for name, logs in cases.items():
        for delta in (0.05, 0.2):
            found = [rates(one, delta) for one in logs]
            worst = {what: max(one[what] for one in found) for what in found[0]}
            made.append({"bandit": name, "policies": len(logs[0].values), "delta": delta, **worst})
    return made
