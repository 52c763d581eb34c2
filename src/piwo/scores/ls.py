"""LS: logarithmic smoothing, and its form that is linear in the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from piwo.logs.batch import Batch, Floats
from piwo.scores.bet_score import CreditScore, LinearForm
from piwo.scores.ratio import log1p_ratio

__all__ = ["LS", "LSLinear"]


@dataclass(frozen=True)
class LS(CreditScore):
    """Logarithmic smoothing: rho = log(1 + lam pi R / mu) / lam, lam > 0.

    The largest pessimistic score at a given lam: its lower bound is never below that of IX at gamma
    = lam / 2. Not linear in a stochastic policy, so it evaluates and `LSLinear` learns. Finite for
    every positive propensity.

    Formula: V = (1/n) sum_t log(1 + lam pi(A_t|X_t) R_t / mu(A_t|X_t)) / lam.
    Source: Sakhi, Aouali, Alquier, Chopin 2024 (arXiv 2405.14335), Eq. (14).

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(1, np.int32), np.array([1.0]), np.array([0.5]))
    >>> round(float(LS(0.5).rho(batch, np.ones(1))[0]), 6)
    1.386294
    """

    name: ClassVar[str] = "ls"
    label: ClassVar[str] = "LS"

    @staticmethod
    def credit(numerator: Floats, batch: Batch, lam: Floats) -> Floats:
        """Return log(1 + lam y) / lam, (n, S)."""
        # c(y) = log(1 + lam y) / lam, finite even if y = numerator / mu is beyond float64
        return log1p_ratio(lam, numerator, batch) / lam


@dataclass(frozen=True)
class LSLinear(LinearForm, of=LS):
    """Logarithmic smoothing, linear in the policy: rho = pi log(1 + lam R / mu) / lam.

    Answers what IX answers, with a smaller bias at the same penalty. PIWO-LS learns from these
    gains.

    Formula: V = (1/n) sum_t pi(A_t|X_t) log(1 + lam R_t / mu(A_t|X_t)) / lam.
    Source: Sakhi, Aouali, Alquier, Chopin 2024 (arXiv 2405.14335), Eq. (25).

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(1, np.int32), np.array([1.0]), np.array([0.5]))
    >>> round(float(LSLinear(0.5).rho(batch, np.array([0.5]))[0]), 6)
    0.693147
    """

    regret_known: ClassVar[bool] = True
