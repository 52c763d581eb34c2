"""LogClip: logarithmic smoothing of a clipped credit, and its form that is linear in the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.bet_score import CreditScore, LinearForm
from piwo.scores.ratio import over_propensity

__all__ = ["LogClip", "LogClipLinear"]


@dataclass(frozen=True)
class LogClip(CreditScore):
    """Logarithmic smoothing of the credit clipped at 1/lam: rho = log(1 + min(lam w R, 1)) / lam.

    Pessimistic, and never above `LS`, whose bounds it inherits. The credit is at most log(2) / lam,
    so a single row has little influence.

    Formula: V = (1/n) sum_t c(w_t R_t), c(y) = log(1 + min(lam y, 1)) / lam.
    Source: Ryu, Kwon, Koppe, Jun 2025 (arXiv 2502.10826); the inequality is that of docs/theory.md,
    section "Admissible scores".

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> LogClip(0.2).rho(batch, np.ones(2)).round(4).tolist()
    [1.6824, 3.4657]
    """

    name: ClassVar[str] = "log-clip"
    label: ClassVar[str] = "LogClip"
    instead: ClassVar[str] = "LogClipLinear"

    @staticmethod
    def credit(numerator: Floats, batch: Batch, lam: Floats) -> Floats:
        """Return log(1 + min(lam y, 1)) / lam, (n, S)."""
        # the weighted reward y = numerator / mu
        y = over_propensity(numerator, batch)[:, None]
        # c(y) = log(1 + min(lam y, 1)) / lam
        return np.asarray(np.log1p(np.minimum(lam * y, 1.0)) / lam)


@dataclass(frozen=True)
class LogClipLinear(LinearForm, of=LogClip):
    """`LogClip`, linear in the policy: rho = pi c(R / mu), for learning; see `LinearForm`.

    Args:
        lam: as for `LogClip`.

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> LogClipLinear(0.2).rho(batch, np.array([0.5, 1.0])).round(4).tolist()
    [0.8412, 3.4657]
    """
