"""Freezing: rows with a large weight count nothing, and the form that is linear in the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Floats
from piwo.scores.bet_score import CreditScore, LinearCreditScore

__all__ = ["Freezing", "FreezingLinear"]


@dataclass(frozen=True)
class Freezing(CreditScore):
    """Logarithmic smoothing of the rows with lam w R <= 1, nothing for others: rho = log(1 + lam w R) / lam, or 0.

    Pessimistic, and never above `LogClip`. Few, unlucky rows cannot carry a policy, which small
    logs may be glad of; a policy that plays what was seldom logged is worth nothing to it.

    Formula: V = (1/n) sum_t c(w_t R_t), c(y) = log(1 + lam y) / lam for lam y <= 1, else 0.
    Source: Ryu, Kwon, Koppe, Jun 2025 (arXiv 2502.10826); the inequality is that of docs/theory.md,
    section "Admissible scores".

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> Freezing(0.2).rho(batch, np.ones(2)).round(4).tolist()
    [1.6824, 0.0]
    """

    name: ClassVar[str] = "freezing"
    label: ClassVar[str] = "Freezing"
    instead: ClassVar[str] = "FreezingLinear"

    @staticmethod
    def credit(y: Floats, lam: Floats) -> Floats:
        """Return log(1 + lam y) / lam, 0 where lam y > 1."""
        bet = lam * y
        return np.asarray(np.log1p(np.where(bet <= 1.0, bet, 0.0)) / lam)


@dataclass(frozen=True)
class FreezingLinear(LinearCreditScore):
    """`Freezing`, linear in the policy: rho = pi c(R / mu), see `LinearCreditScore`. For learning.

    Args:
        lam: as for `Freezing`.

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> FreezingLinear(0.2).rho(batch, np.array([0.5, 1.0])).round(4).tolist()
    [0.8412, 0.0]
    """

    name: ClassVar[str] = "freezing-linear"
    label: ClassVar[str] = "FreezingLinear"
    of: ClassVar[type[CreditScore]] = Freezing
