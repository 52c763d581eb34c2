"""What the scores share whose hyper-parameter is the bet size lam itself."""

# no `from __future__ import annotations`: scores in other modules inherit the field `lam`, and its
# type must be known there

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import log1p_ratio
from piwo.scores.score import DenseGains, GammaScale, Parameter, Score

__all__ = ["BetScore", "CreditScore", "DenseBetScore", "LinearForm"]


@dataclass(frozen=True)
class BetScore(Score):
    """A score whose one hyper-parameter is the bet size lam > 0, which is 2 gamma in terms of IX.

    Args:
        lam: a number, "auto" or several (see `IX`).

    >>> from piwo.scores import LSLinear
    >>> LSLinear().at_gamma(0.1).bet
    0.2
    """

    lam: Parameter = "auto"
    pessimistic: ClassVar[bool] = True
    parameter: ClassVar[str | None] = "lam"
    gamma_scale: ClassVar[GammaScale] = GammaScale(
        "2 {}", lambda gamma: 2.0 * gamma, lambda lam: lam / 2.0
    )


@dataclass(frozen=True)
class CreditScore(BetScore, ABC):
    """A function of a row's weighted reward: rho = c(w R), 0 <= c(y) <= log(1 + lam y) / lam.

    It is not linear in the policy, so it evaluates; `LinearForm` makes the score to learn with.

    >>> from piwo.scores import LogClip
    >>> LogClip(1.0).linear, LogClip.instead
    (False, 'LogClipLinear')
    """

    linear: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def credit(numerator: Floats, batch: Batch, lam: Floats) -> Floats:
        """Return c(y) of y = numerator / mu, (n,), at each lam, (S,): (n, S)."""

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return c(w R), (n,)."""
        # w R = pi R / mu
        return self.credit(pi * batch.reward, batch, np.array([self.number]))[:, 0]


@dataclass(frozen=True)
class LinearForm(BetScore):
    """The form of a `CreditScore` that is linear in the policy: rho = pi c(R / mu), for learning.

    Pessimistic because pi log(1 + z) <= log(1 + pi z) (Bernoulli's inequality). It equals the
    original for policies with probabilities 0 and 1.

    Formula: V = (1/n) sum_t pi(A_t|X_t) c(R_t / mu(A_t|X_t)), c that of the original.

    >>> from piwo.scores import LogClip
    >>> @dataclass(frozen=True)
    ... class Mine(LinearForm, of=LogClip):
    ...     pass
    >>> Mine.name, Mine.label, Mine(1.0).linear
    ('log-clip-linear', 'LogClipLinear', True)
    """

    of: ClassVar[type[CreditScore]]
    """The score that this one is the linear form of."""

    def __init_subclass__(cls, of: type[CreditScore]) -> None:
        super().__init_subclass__()
        cls.of = of
        cls.name = f"{of.name}-linear"
        cls.label = f"{of.label}Linear"

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return c(R / mu), (n, S)."""
        return cls.of.credit(batch.reward, batch, parameters)


@dataclass(frozen=True)
class DenseBetScore(BetScore, ABC):
    """A score with gains for all actions: G[t, a] = log(1 + lam Y_t(a)) / lam.

    Y_t(a) = rest + 1{A_t = a} extra / mu_a >= 0. The score is admissible for whatever the mean of Y
    bounds. It needs full propensity vectors.

    >>> from piwo.scores import BaselineRelative
    >>> BaselineRelative(1.0).dense
    True
    """

    pessimistic: ClassVar[bool] = False
    dense: ClassVar[bool] = True

    @abstractmethod
    def parts(self, batch: Batch) -> tuple[Floats, Floats, Floats]:
        """Return the parts of Y, before anything is divided by a propensity.

        Returns:
            Y_t(a) of actions not taken, (n, K); rest and extra of the logged ones, (n,).

        Raises:
            UsageError: if the log has no full vectors.
        """

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return 0, (n, S): the dense gains hold all credit of a row."""
        return np.zeros((len(batch), len(parameters)))

    @property
    def admissible(self) -> bool:
        """True."""
        return True

    @property
    def dense_weight(self) -> float:
        """1."""
        return 1.0

    def dense_gains(self, batch: Batch) -> DenseGains:
        """Return log(1 + lam Y_t(a)) / lam, (n, K), finite for every positive propensity."""
        lam = self.number
        others, rest, extra = self.parts(batch)
        # actions not taken: Y has no propensity below it
        gains = np.log1p(lam * others) / lam
        # the logged action, so that extra/mu may be beyond float64:
        # log(1 + lam (rest + extra/mu)) = log(1 + lam rest) + log(1 + lam extra/(1 + lam rest)/mu)
        smaller = extra / (1.0 + lam * rest)
        logged = np.log1p(lam * rest) + log1p_ratio(np.array([lam]), smaller, batch)[:, 0]
        gains[np.arange(len(batch)), batch.action] = logged / lam
        return DenseGains(gains, np.zeros(gains.shape[1]))
