"""Freezing: rows with a large weight get no credit, and its form that is linear in the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.bet_score import CreditScore, LinearForm
from piwo.scores.ratio import over_propensity

__all__ = ["Freezing", "FreezingLinear"]


@dataclass(frozen=True)
class Freezing(CreditScore):
    """Logarithmic smoothing of rows with lam w R <= 1, and no credit for others.

    Pessimistic, and never above `LogClip`. A few rows with large weights cannot decide, which helps
    in small logs; a policy that plays what was seldom logged gets no credit at all.

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
    def credit(numerator: Floats, batch: Batch, lam: Floats) -> Floats:
        """Return log(1 + lam y) / lam, and 0 if lam y > 1, (n, S)."""
        # the weighted reward y = numerator / mu
        bet = lam * over_propensity(numerator, batch)[:, None]
        # c(y) = log(1 + lam y 1{lam y <= 1}) / lam
        return np.asarray(np.log1p(np.where(bet <= 1.0, bet, 0.0)) / lam)


@dataclass(frozen=True)
class FreezingLinear(LinearForm, of=Freezing):
    """`Freezing`, linear in the policy: rho = pi c(R / mu), for learning; see `LinearForm`.

    Args:
        lam: as for `Freezing`.

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> FreezingLinear(0.2).rho(batch, np.array([0.5, 1.0])).round(4).tolist()
    [0.8412, 0.0]
    """
