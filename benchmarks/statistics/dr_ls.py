"""Doubly robust LS against linear LS: regret and lower bound, with and without a guess.

Twenty contexts, five actions, three hundred policies: one is the best there is, the others are
drawn at random. The bound is the theorem's own, in-sample: log(|Pi| m / delta) for the m bet sizes
of the grid; the policy learned is the one with the highest bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.estimators import ForwardModel, forward_model
from piwo.logs import Batch, Log
from piwo.scores import DoublyRobustLS, LSLinear, RewardGuess, Score

__all__ = ["GUESSES", "REPS", "Small", "learned", "rows"]

REPS = 400
DELTA, ROWS = 0.05, 2000
BETS = tuple(2.0**-j for j in range(-1, 8))
FORWARD = "fitted forward, k = 8"
GUESSES = ("none", "noisy truth, k = 8", "constant .6, k = 8", FORWARD)

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Guess:
    """A table of guesses by context; the context of a row is its first column."""

    table: Array

    def of(self, batch: Batch) -> Array:
        """Return the guesses for the rows of a batch, (n, K)."""
        assert batch.context is not None
        return np.asarray(self.table[batch.context[:, 0].astype(int)])


@dataclass(frozen=True)
class Fitted:
    """A model fitted to the log itself, each row's predictions on earlier rows alone."""

    model: ForwardModel
    contexts: int

    @classmethod
    def to(cls, rows: Batch, contexts: int) -> Fitted:
        """Return the model of these rows, linear in which context it is."""
        assert rows.propensities is not None
        log = Log.from_arrays(
            action=rows.action,
            reward=rows.reward,
            propensities=rows.propensities,
            context=_which(rows, contexts),
            actions=range(rows.propensities.shape[1]),
        )
        return cls(forward_model(log), contexts)

    def of(self, batch: Batch) -> Array:
        """Return the predictions for the rows of a batch, (n, K)."""
        return self.model.of(replace(batch, context=_which(batch, self.contexts)))


def _which(rows: Batch, contexts: int) -> Array:
    """Return which context each row has, as (n, S) zeros and ones."""
    assert rows.context is not None
    made: Array = np.eye(contexts)[rows.context[:, 0].astype(int)]
    return made


@dataclass(frozen=True)
class Small:
    """A bandit of S contexts, K actions and N deterministic policies.

    >>> bandit = Small.of(0)
    >>> bandit.choice.shape, round(float(bandit.values.max()), 3) >= 0.6
    ((300, 20), True)
    """

    chance: Array
    """(S, K) chance of the reward 1."""
    mu: Array
    """(S, K) the logger's probabilities."""
    choice: np.ndarray[Any, np.dtype[np.int64]]
    """(N, S) the action of each policy in each context; the first is the best of each context."""

    @classmethod
    def of(cls, seed: int, contexts: int = 20, actions: int = 5, policies: int = 300) -> Small:
        """Return a bandit whose first policy is the best possible; the others are random."""
        rng = np.random.default_rng(seed)
        chance = rng.uniform(0.3, 0.9, (contexts, actions))
        mu = rng.dirichlet(np.ones(actions), contexts) * 0.9 + 0.1 / actions
        choice = rng.integers(0, actions, (policies, contexts))
        choice[0] = chance.argmax(axis=1)
        return cls(chance, mu, choice)

    @property
    def values(self) -> Array:
        """The (N,) true values."""
        return np.asarray(self.chance[np.arange(len(self.chance)), self.choice].mean(axis=1))

    def batch(self, n: int, rng: np.random.Generator) -> Batch:
        """Return n rows."""
        context = rng.integers(0, len(self.mu), n)
        mu = self.mu[context]
        action = np.minimum((rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1), mu.shape[1] - 1)
        reward = (rng.random(n) < self.chance[context, action]).astype(np.float64)
        return Batch(
            0,
            action.astype(np.int32),
            reward,
            mu[np.arange(n), action],
            propensities=mu,
            context=context[:, None].astype(np.float64),
        )

    def guess(
        self, name: str, rows: Batch, rng: np.random.Generator
    ) -> tuple[float | RewardGuess, float]:
        """Return q and k."""
        if name == FORWARD:
            return Fitted.to(rows, len(self.mu)), 8.0
        if name == "noisy truth, k = 8":
            return Guess(
                np.clip(self.chance + 0.1 * rng.normal(size=self.chance.shape), 0.0, 1.0)
            ), 8.0
        return 0.6, 8.0


def learned(bandit: Small, name: str, rng: np.random.Generator) -> tuple[float, float]:
    """Return the regret of the policy learned from one log, and the lower bound on its value.

    >>> regret, bound = learned(Small.of(0), "constant .6, k = 8", np.random.default_rng(1))
    >>> regret < 0.02, bound > 0.4
    (True, True)
    """
    rows, states = bandit.batch(ROWS, rng), np.arange(len(bandit.mu))
    assert rows.context is not None
    context = rows.context[:, 0].astype(int)
    penalty = bounds.log_inv_delta(
        DELTA, log_class_size=math.log(len(bandit.choice)), statements=len(BETS)
    )
    q, k = bandit.guess(name, rows, rng)
    best = (-math.inf, 0)
    for bet in BETS:
        score: Score = LSLinear(bet) if name == "none" else DoublyRobustLS(bet, q, k)
        sums = np.zeros(bandit.mu.shape)
        if score.dense_weight:
            np.add.at(sums, context, score.dense_gains(rows).table)
        np.add.at(sums, (context, rows.action), score.gains(rows))
        mean = sums[states, bandit.choice].sum(axis=1) / ROWS
        at = int(mean.argmax())
        best = max(
            best, (bounds.score_lower(float(mean[at]), ROWS, bet, penalty) - score.shift, at)
        )
    values = bandit.values
    return float(values.max() - values[best[1]]), best[0]


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return mean regret, mean bound and violation rate for each guess."""
    made: list[Mapping[str, Any]] = []
    for name in GUESSES:
        found = []
        for rep in range(reps):
            bandit = Small.of(rep)
            regret, bound = learned(bandit, name, np.random.default_rng([rep, 1]))
            found.append((regret, bound, bound > bandit.values.max() - regret))
        regrets, lowers, wrong = np.array(found, np.float64).T
        made.append(
            {
                "guess": name,
                "mean regret": float(regrets.mean()),
                "mean bound": float(lowers.mean()),
                "bound above value": float(wrong.mean()),
            }
        )
    return made
