"""The protocol of the paper's experiments: what is drawn, what is learned, and what is measured.

Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from threadpoolctl import threadpool_limits

import piwo
from experiments.averages import ALGORITHMS, SETS
from experiments.data import Data
from piwo.engines.cores import cores
from piwo.policies import LinearGreedy, LinearSoftmax
from piwo.scores import Score
from piwo.simulate import ClassificationBandit

__all__ = ["Experiment", "Logger", "Outcome", "Protocol", "gamma_star"]

T = TypeVar("T")
ETAS = np.logspace(-1, 3, 20)
PARAMETERS = np.logspace(-10, 0, 20)


@dataclass(frozen=True)
class Protocol:
    """What can be chosen; the paper fixes the rest."""

    seed: int = 0
    sets: tuple[str, ...] = SETS
    resample: bool = False
    """Draw a log of its own for every repetition; False: one draw a row serves all that contain the
    row."""
    folds: int = 10


@dataclass(frozen=True)
class Logger:
    """One behavior policy: softmax of eta times the regression (good), or of -eta (bad)."""

    set: str
    number: int

    @property
    def name(self) -> str:
        """How its files are called."""
        return f"{self.set}-{self.number:02d}"

    @property
    def eta(self) -> float:
        """The inverse temperature, without its sign."""
        return float(ETAS[self.number])


@dataclass(frozen=True)
class Outcome:
    """What one logger's policies are worth, and what it is worth itself."""

    results: pa.Table
    logger: pa.Table


def gamma_star(n: int, d: int, folds: int) -> float:
    """Return sqrt(d/n), where n is the number of rows that a repetition learns from."""
    learned = _played(n) * (folds - 1) / folds
    return float(np.sqrt(d / learned))


def _played(n: int) -> int:
    """Return how many rows are left beside the tenth that the regression has."""
    return n - n // 10


class Experiment:
    """Data turned into a bandit: a tenth of the rows fits the loggers, the others are folds.

    Args:
        data: contexts and classes.
        protocol: the settings.
    """

    def __init__(self, data: Data, protocol: Protocol) -> None:
        self.protocol = protocol
        rng = np.random.default_rng([protocol.seed, 0])
        rewards = ClassificationBandit.paper_rewards(len(data.labels), rng)
        bandit = ClassificationBandit(data.X, data.y, rewards=rewards, actions=data.labels)
        order = rng.permutation(len(bandit))
        tenth = len(bandit) - _played(len(bandit))
        self.regression = bandit.take(order[:tenth])
        self.bandit = bandit.take(order[tenth:])
        # the order is random already, so a fold is a run of rows
        self.fold = np.arange(len(self.bandit)) * protocol.folds // len(self.bandit)

    def __getstate__(self) -> dict[str, Any]:
        """Give a copy in another process what all loggers share, so that it is computed once."""
        for name in ("scores", "_regressed", "_references"):
            getattr(self, name)
        # `tests` are views of the rows, and a copy would hold these twice
        return {name: value for name, value in vars(self).items() if name != "tests"}

    @cached_property
    def tests(self) -> list[ClassificationBandit]:
        """The rows of each fold."""
        ends = np.cumsum(np.bincount(self.fold)).tolist()
        return [self.bandit.take(slice(*rows)) for rows in pairwise([0, *ends])]

    @property
    def gamma_star(self) -> float:
        """Sqrt(d/n)."""
        n = len(self.regression) + len(self.bandit)
        return gamma_star(n, self.bandit.context.shape[1], self.protocol.folds)

    @cached_property
    def scores(self) -> list[Score]:
        """The scores in the order of `ALGORITHMS`, twenty each; for LS the bet size is 2 gamma."""
        kinds: dict[str, Score] = {
            "PIWO-IX": piwo.IX(1.0),
            "PIWO-Clip": piwo.Clip(1.0),
            "PIWO-PL": piwo.PseudoLoss(1.0),
            "PIWO-LS": piwo.LSLinear(1.0),
        }
        return [kinds[name].at_gamma(h) for name in ALGORITHMS for h in PARAMETERS.tolist()]

    def loggers(self) -> list[Logger]:
        """Return the loggers, in the order in which they are run."""
        return [
            Logger(name, number)
            for name in SETS
            if name in self.protocol.sets
            for number in range(len(ETAS))
        ]

    def policy(self, logger: Logger) -> LinearSoftmax:
        """Return the behavior policy of a logger."""
        one, eta = self._regressed, logger.eta if logger.set == "good" else -logger.eta
        return LinearSoftmax(
            eta * one.coef, eta * one.intercept, self.regression.actions, features=one.features
        )

    @cached_property
    def _regressed(self) -> LinearSoftmax:
        return self.regression.softmax_logger(1.0)

    def run(self, logger: Logger) -> Outcome:
        """Learn and value all policies of one logger."""
        return Outcome(
            self._results(logger, self.rewards(logger)), self._behavior(logger, self.policy(logger))
        )

    def rewards(self, logger: Logger, draw: tuple[int, ...] = ()) -> npt.NDArray[np.float64]:
        """Return the true mean rewards of one logger's policies, (folds, scores), on their folds.

        Args:
            logger: who writes the log.
            draw: beside the seed, numbers that tell a log from others of the same logger.
        """
        learned = self.learned(logger, draw)
        return np.array([test.values(some) for test, some in zip(self.tests, learned, strict=True)])

    def learned(self, logger: Logger, draw: tuple[int, ...] = ()) -> list[list[LinearGreedy]]:
        """Return each fold's policies, learned on the other folds, one per score; see `rewards`."""
        oracle, behavior = piwo.oracles.Ridge(), self.policy(logger)
        seed = [self.protocol.seed, 1 + SETS.index(logger.set), logger.number, *draw]
        if not self.protocol.resample:
            return oracle.solve_folds(self.log(self.bandit, behavior, seed), self.scores, self.fold)
        found = []
        for k in range(self.protocol.folds):
            log = self.log(self.bandit.take(self.fold != k), behavior, [*seed, k])
            found.append(oracle.solve_path(log, self.scores))
        return found

    def log(
        self, bandit: ClassificationBandit, behavior: LinearSoftmax, seed: list[int]
    ) -> piwo.Log:
        """Return the log that a logger writes: one draw a row."""
        rng = np.random.default_rng(seed)
        return bandit.log(behavior, random_state=rng, full_propensities=True, log_propensities=True)

    def _results(self, logger: Logger, reward: npt.NDArray[np.float64]) -> pa.Table:
        """Return the tidy rows of (folds, scores) rewards; the best action earns 1 on average."""
        folds, count = reward.shape
        each = len(PARAMETERS)
        return pa.table(
            {
                "set": [logger.set] * reward.size,
                "eta": [logger.eta] * reward.size,
                "algorithm": np.tile(np.repeat(ALGORITHMS, each), folds),
                "h": np.tile(np.tile(PARAMETERS, len(ALGORITHMS)), folds),
                "fold": np.repeat(np.arange(folds), count),
                "reward": reward.ravel(),
                "regret": 1.0 - reward.ravel(),
            }
        )

    def _behavior(self, logger: Logger, behavior: LinearSoftmax) -> pa.Table:
        def known(test: ClassificationBandit) -> tuple[float, float]:
            least, total = np.inf, 0.0
            for rows, z in behavior.exponents(test.context):
                lowest = z.min(axis=0)
                weights = np.exp(z, out=z)
                sums = weights.sum(axis=0)
                # log mu(a|x) = z_a - log sum_b exp(z_b)
                least = min(least, float((lowest - np.log(sums)).min()))
                # sum_i sum_a mu(a|x_i) M[a, y_i]
                weights *= test.rewards.take(test.classes[rows], axis=1)
                total += float((weights.sum(axis=0) / sums).sum())
            return least, total / len(test)

        least, value = np.array(self._each_fold(known, self.tests)).T
        folds = range(self.protocol.folds)
        learned_from = [np.delete(least, k).min() for k in folds]
        best, full = self._references
        return pa.table(
            {
                "set": [logger.set] * len(folds),
                "eta": [logger.eta] * len(folds),
                "fold": list(folds),
                "behavior": value,
                "best_fixed": best,
                "full_information": full,
                "log10_min_propensity": np.array(learned_from) / np.log(10.0),
            }
        )

    @property
    def best_fixed(self) -> list[float]:
        """On every fold the value of the action that is best on the others."""
        return self._references[0]

    @cached_property
    def _references(self) -> tuple[list[float], list[float]]:
        """Per fold, the value of the best fixed action and of a ridge policy with full rewards."""

        def known(k: int) -> tuple[float, float]:
            test, others = self.tests[k], self.bandit.take(self.fold != k)
            constant = piwo.policies.Constant(others.best_fixed_action(), test.actions)
            greedy = others.softmax_logger(1.0)
            return test.value(constant), test.value(
                LinearGreedy(greedy.coef, greedy.intercept, test.actions)
            )

        best, full = zip(*self._each_fold(known, range(self.protocol.folds)), strict=True)
        return list(best), list(full)

    @staticmethod
    def _each_fold(
        work: Callable[[T], tuple[float, float]], folds: Iterable[T]
    ) -> list[tuple[float, float]]:
        """Return what a function says of each fold, in their order; on all cores."""
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(work, folds))
