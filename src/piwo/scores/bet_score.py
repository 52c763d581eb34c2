"""What the pessimistic scores share whose hyper-parameter is the bet size itself.

Annotations are evaluated here: the constructors of scores in other modules inherit the field.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over_propensity
from piwo.scores.score import Parameter, Score, refuse_gains

__all__ = ["BetScore", "CreditScore", "LinearCreditScore"]


@dataclass(frozen=True)
class BetScore(Score):
    """A pessimistic score with one hyper-parameter, the bet size lam > 0: 2 gamma in terms of IX.

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

    @property
    def bet(self) -> float:
        """Return lam."""
        return self.number


@dataclass(frozen=True)
class CreditScore(BetScore):
    """A score that is a function of a row's credit: rho = c(w R), 0 <= c(y) <= log(1 + lam y) / lam.

    >>> from piwo.scores import LogClip
    >>> LogClip(1.0).linear
    False
    """

    linear: ClassVar[bool] = False
    instead: ClassVar[str]
    """Name of the score to learn with."""

    @staticmethod
    @abstractmethod
    def credit(y: Floats, lam: Floats) -> Floats:
        """Return c(y) at lam, elementwise."""

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> NoReturn:  # noqa: ARG003
        """Raise: c(w R) is not linear in pi."""
        refuse_gains(cls, cls.instead)

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return c(w R), (n,)."""
        return self.credit(over_propensity(pi * batch.reward, batch), np.asarray(self.number))


@dataclass(frozen=True)
class LinearCreditScore(BetScore):
    """The same, linear in the policy: rho = pi c(R / mu). Pessimistic, because pi log(1 + z) <= log(1 + pi z).

    >>> from piwo.scores import LogClipLinear
    >>> LogClipLinear(1.0).linear
    True
    """

    @staticmethod
    @abstractmethod
    def credit(y: Floats, lam: Floats) -> Floats:
        """Return c(y) at lam, elementwise."""

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return c(R / mu), (n, S)."""
        return cls.credit(over_propensity(batch.reward, batch)[:, None], parameters)
