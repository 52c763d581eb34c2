"""What the scores share whose hyper-parameter is the bet size itself.

Annotations are evaluated here: the constructors of scores in other modules inherit the field.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.curved_score import CurvedScore
from piwo.scores.ratio import log1p_ratio, over_propensity
from piwo.scores.score import DenseGains, Parameter, Score

__all__ = ["BetScore", "CreditScore", "DenseBetScore", "LinearCreditScore"]


@dataclass(frozen=True)
class BetScore(Score):
    """A score with one hyper-parameter, the bet size lam > 0: 2 gamma in terms of IX. Most are pessimistic.

    Args:
        lam: a number, "auto" or several (see `IX`).

    >>> from piwo.scores import LSLinear
    >>> LSLinear().at_gamma(0.1).bet
    0.2
    """

    lam: Parameter = "auto"
    pessimistic: ClassVar[bool] = True
    parameter: ClassVar[str | None] = "lam"
    per_gamma: ClassVar[float] = 2.0
    of_gamma: ClassVar[str] = "2 {}"
    auto_finite: ClassVar[str] = "the theory for a finite class"


@dataclass(frozen=True)
class CreditScore(CurvedScore, BetScore):
    """A score that is a function of a row's credit: rho = c(w R), 0 <= c(y) <= log(1 + lam y) / lam.

    >>> from piwo.scores import LogClip
    >>> LogClip(1.0).linear
    False
    """

    @staticmethod
    @abstractmethod
    def credit(y: Floats, lam: Floats) -> Floats:
        """Return c(y) at lam, elementwise."""

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return c(w R), (n,)."""
        return self.credit(over_propensity(pi * batch.reward, batch), np.asarray(self.number))


@dataclass(frozen=True)
class LinearCreditScore(BetScore):
    """The same, linear in the policy: for learning; equal to the score that it is of where pi is 0 or 1.

    Pessimistic, because pi log(1 + z) <= log(1 + pi z).

    Formula: V = (1/n) sum_t pi(A_t|X_t) c(R_t / mu(A_t|X_t)), c as for the score that it is of.

    >>> from piwo.scores import LogClipLinear
    >>> LogClipLinear(1.0).linear
    True
    """

    of: ClassVar[type[CreditScore]]
    """The score whose credit it has."""

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return c(R / mu), (n, S)."""
        return cls.of.credit(over_propensity(batch.reward, batch)[:, None], parameters)


@dataclass(frozen=True)
class DenseBetScore(BetScore):
    """A score of all actions, G[t, a] = log(1 + lam Y_t(a)) / lam, Y_t(a) = rest + 1{A_t = a} extra / mu_a >= 0.

    Admissible by the mean of Y, whatever it is that this mean bounds; needs full propensity
    vectors.

    >>> from piwo.scores import BaselineRelative
    >>> BaselineRelative(1.0).dense
    True
    """

    pessimistic: ClassVar[bool] = False
    dense: ClassVar[bool] = True

    @abstractmethod
    def parts(self, batch: Batch) -> tuple[Floats, Floats, Floats]:
        """Return Y where it has no propensity below it.

        Returns:
            Y_t(a) of actions not taken, (n, K); rest and extra of the logged ones, (n,).

        Raises:
            UsageError: where the log has no full vectors.
        """

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return 0, (n, S): all that a row is worth is in the dense gains."""
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
        lam, (others, rest, extra) = self.number, self.parts(batch)
        gains = np.log1p(lam * others) / lam
        # log(1 + lam (rest + extra/mu)) = log(1 + lam rest) + log(1 + lam extra/(1 + lam rest)/mu)
        smaller = extra / (1.0 + lam * rest)
        logged = np.log1p(lam * rest) + log1p_ratio(np.array([lam]), smaller, batch)[:, 0]
        gains[np.arange(len(batch)), batch.action] = logged / lam
        return DenseGains(gains, np.zeros(gains.shape[1]))
