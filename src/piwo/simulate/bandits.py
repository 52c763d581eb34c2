"""Small bandits with known values to test intervals; their names describe their difficulty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_kind, check_sequences, is_number, shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy, Tabular, aligned
from piwo.policies.sampling import RandomState, generator
from piwo.simulate.coverage import Coverage, coverage_of

__all__ = ["Bandit", "Cells", "adversarial_bandits"]


@dataclass(frozen=True)
class Cells:
    """The C distinct rows that a log can hold, and their probabilities.

    >>> Cells(np.array([0]), np.array([1.0]), np.array([0.0]), np.array([1.0])).action.tolist()
    [0]
    """

    action: npt.NDArray[np.int64]
    """(C,) action codes."""
    reward: Floats
    """(C,) rewards."""
    log_propensity: Floats
    """(C,) log mu of the action."""
    chance: Floats
    """(C,) probability that a row is this cell; sums to 1."""


@dataclass(frozen=True)
class Bandit:
    """K actions without context, rewards of 0 or `high`, a known logger and target policy.

    Rows take finitely many values, so a log of any size is a table of counts, and many logs can be
    simulated quickly.

    Args:
        name: describes the difficulty.
        log_mu: (K,) logarithms of the logger's probabilities; -inf: never logged.
        pi: (K,) the target policy.
        chance: (K,) chance of the reward `high`.
        high: the reward that is not 0, in (0, 1].

    Raises:
        UsageError: if the lengths differ, or mu or pi do not sum to 1.

    >>> coin = Bandit(
    ...     "a fair coin", log_mu=(math.log(0.5), math.log(0.5)), pi=(1.0, 0.0), chance=(0.25, 0.75)
    ... )
    >>> coin.value, coin.logging_value, len(coin.log(10, random_state=0))
    (0.25, 0.5, 10)
    """

    name: str
    log_mu: tuple[float, ...]
    pi: tuple[float, ...]
    chance: tuple[float, ...]
    high: float = 1.0

    def __post_init__(self) -> None:
        for name in ("log_mu", "pi", "chance"):
            check_kind(name, getattr(self, name), (tuple, list))
        check_sequences("action", pi=self.pi, chance=self.chance)
        if not all(is_number(x) and x <= 1e-9 for x in self.log_mu):
            raise UsageError(
                f"{argument('log_mu')} is {shown(self.log_mu)}, expected logarithms of "
                "probabilities: at most 0"
            )
        if not (is_number(self.high) and 0.0 < self.high <= 1.0):
            raise UsageError(
                f"{argument('high')} is {shown(self.high)}, expected a reward above 0 and at most 1"
            )
        if not len(self.log_mu) == len(self.pi) == len(self.chance):
            raise UsageError(
                "log_mu, pi and chance have different lengths, expected one number per action"
            )
        totals = {"the logger's": float(self.mu.sum()), "the policy's": math.fsum(self.pi)}
        for whose, total in totals.items():
            if abs(total - 1.0) > 1e-9:
                raise UsageError(f"{whose} probabilities sum to {total:.9g}, expected 1")

    @property
    def mu(self) -> Floats:
        """The logger's (K,) probabilities; 0 if they underflow."""
        return np.asarray(np.exp(np.asarray(self.log_mu)))

    @cached_property
    def actions(self) -> Actions:
        """The labels 0..K-1."""
        return Actions(range(len(self.pi)))

    @cached_property
    def policy(self) -> Tabular:
        """The target policy."""
        return Tabular(self.pi, self.actions)

    @property
    def value(self) -> float:
        """The true value of the target policy."""
        return math.fsum(self.high * p * r for p, r in zip(self.pi, self.chance, strict=True))

    @property
    def logging_value(self) -> float:
        """The true value of the logger."""
        return math.fsum(self.high * m * r for m, r in zip(self.mu, self.chance, strict=True))

    def coverage(self, policy: Policy | None = None, gamma: float = 0.0) -> float:
        """Return how well the logger covers a policy's rewards; inf without support.

        Args:
            policy: over these actions; None: the target policy.
            gamma: what is added to the propensities, at least 0.

        Returns:
            C_gamma = sum_a pi(a) r(a) / (mu(a) + gamma).

        >>> coin = Bandit(
        ...     "a fair coin",
        ...     log_mu=(math.log(0.5), math.log(0.5)),
        ...     pi=(1.0, 0.0),
        ...     chance=(0.25, 0.75),
        ... )
        >>> coin.coverage(), coin.coverage(gamma=0.5)
        (0.5, 0.25)
        """
        return self.coverages(policy, gamma).coverage

    def coverages(self, policy: Policy | None = None, gamma: float = 0.0) -> Coverage:
        """Return `coverage`, its reward-free form, and what the logger misses.

        Args:
            policy: over these actions; None: the target policy.
            gamma: what is added to the propensities, at least 0.

        >>> coin = Bandit(
        ...     "a coin", log_mu=(math.log(0.25), math.log(0.75)), pi=(1.0, 0.0), chance=(0.5, 0.5)
        ... )
        >>> round(coin.coverages(gamma=0.25).reward_free, 9)
        2.0
        """
        if policy is None:
            policy = self.policy
        pi = aligned(policy, self.actions).distribution(None, 1)
        rewards = self.high * np.asarray(self.chance)[None]
        return coverage_of(pi, self.mu[None], rewards, gamma)

    @cached_property
    def cells(self) -> Cells:
        """The rows that a log can hold: two for each action with positive propensity."""
        logged = np.flatnonzero(np.asarray(self.log_mu) > -np.inf)
        action, won = np.repeat(logged, 2), np.tile([1.0, 0.0], len(logged))
        win = np.asarray(self.chance)[action]
        # P(A = a, R = r) = mu(a) P(R = r | a)
        share = self.mu[action] * np.where(won > 0, win, 1.0 - win)
        return Cells(action, self.high * won, np.asarray(self.log_mu)[action], share / share.sum())

    def log(self, n: int, random_state: RandomState) -> Log:
        """Return a log of n rows.

        Args:
            n: rows.
            random_state: a seed, or a numpy Generator, which advances.
        """
        check_count("n", n, 1)
        rng = generator(random_state)
        counts = self.counts(n, 1, rng)[0]
        rows = np.repeat(np.arange(len(counts)), counts)
        return self.log_of(rng.permutation(rows))

    def counts(self, n: int, logs: int, random_state: RandomState) -> npt.NDArray[np.int64]:
        """Return how often each cell occurs in each of many logs of n rows, (logs, C)."""
        check_count("n", n, 0)
        check_count("logs", logs, 0, "how many logs to draw")
        return generator(random_state).multinomial(n, self.cells.chance, size=logs)

    def log_of(self, cells: npt.NDArray[np.integer[Any]]) -> Log:
        """Return the log whose rows are the given cells, (n,) positions in `cells`.

        Propensities are logged as logarithms if one of them underflows.
        """
        kinds = self.cells
        log_mu = kinds.log_propensity[cells]
        tiny = kinds.log_propensity.min() < math.log(np.finfo(np.float64).tiny)
        propensity, log_propensity = np.exp(log_mu), None
        if tiny:
            propensity, log_propensity = None, log_mu
        return Log.from_arrays(
            action=kinds.action[cells],
            reward=kinds.reward[cells],
            propensity=propensity,
            log_propensity=log_propensity,
            actions=self.actions,
        )


def adversarial_bandits() -> tuple[Bandit, ...]:
    """Return eight bandits that break intervals based on normality, overlap or large propensities.

    >>> [bandit.name for bandit in adversarial_bandits()][:3]
    ['rare action', 'underflowing propensity', 'clicks']
    """
    on_policy = (0.6, 0.3, 0.09, 0.01)
    return (
        _bandit("rare action", [1e-3, 0.999], [1, 0], [0.9, 0.1]),
        # exp(-800) underflows in float64
        Bandit(
            "underflowing propensity",
            log_mu=(-300 * math.log(10), -800.0, math.log(0.5), math.log(0.5)),
            pi=(0.2, 0.2, 0.5, 0.1),
            chance=(0.9, 0.9, 0.4, 0.5),
        ),
        _bandit("clicks", [0.1, 0.9], [1, 0], [0.01, 0.02]),
        _bandit("on-policy", on_policy, on_policy, [0.5, 0.2, 0.9, 0.99]),
        _bandit(
            "near the logger, small rewards",
            [0.7, 0.28, 0.02],
            [0.6, 0.3, 0.1],
            [0.5, 0.9, 0.6],
            high=0.05,
        ),
        _bandit("missing support", [0, 0.5, 0.5], [0.5, 0.5, 0], [0.95, 0.3, 0.6]),
        _bandit(
            "uniform on a peaked logger",
            [0.997, 1e-3, 1e-3, 1e-3],
            [0.25] * 4,
            [0.2, 0.9, 0.5, 0.1],
        ),
        _bandit(
            "thirty rare arms", [0.7, *[0.01] * 30], [0, *[1 / 30] * 30], [0.5, *[0.4, 0.6] * 15]
        ),
    )


def _bandit(name: str, mu: Any, pi: Any, chance: Any, high: float = 1.0) -> Bandit:
    with np.errstate(divide="ignore"):
        log_mu = np.log(np.asarray(mu, np.float64))
    return Bandit(name, _tuple(log_mu), _tuple(pi), _tuple(chance), high)


def _tuple(numbers: Any) -> tuple[float, ...]:
    return tuple(np.asarray(numbers, np.float64).tolist())
