"""GlobalClip: clipping that pays for what it lets through, and the form that is linear in the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Floats
from piwo.scores.bet_score import CreditScore, LinearCreditScore

__all__ = ["GlobalClip", "GlobalClipLinear"]


@dataclass(frozen=True)
class GlobalClip(CreditScore):
    """Clipped importance weighting minus half its square: rho = z - lam z^2 / 2 with z = min(w R, 1/lam).

    What makes clipping safe: 0 <= rho <= log(1 + lam w R) / lam, so every bound of `LS` holds for
    it, and `LS` is never below it. The credit stops at 1 / (2 lam).

    Formula: V = (1/n) sum_t c(w_t R_t), c(y) = min(y, 1/lam) - lam min(y, 1/lam)^2 / 2.
    Source: Sakhi, Aouali, Alquier, Chopin 2024 (arXiv 2405.14335), Cor. 4.

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> GlobalClip(0.2).rho(batch, np.ones(2)).round(4).tolist()
    [1.6, 2.5]
    """

    name: ClassVar[str] = "global-clip"
    label: ClassVar[str] = "GlobalClip"
    instead: ClassVar[str] = "GlobalClipLinear"

    @staticmethod
    def credit(y: Floats, lam: Floats) -> Floats:
        """Return min(y, 1/lam) - lam min(y, 1/lam)^2 / 2."""
        z = np.minimum(y, 1.0 / lam)
        return np.asarray(z - lam * z * z / 2.0)


@dataclass(frozen=True)
class GlobalClipLinear(LinearCreditScore):
    """`GlobalClip`, linear in the policy: rho = pi c(R / mu), see `LinearCreditScore`. For learning.

    Args:
        lam: as for `GlobalClip`.

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> GlobalClipLinear(0.2).rho(batch, np.array([0.5, 1.0])).round(4).tolist()
    [0.8, 2.5]
    """

    name: ClassVar[str] = "global-clip-linear"
    label: ClassVar[str] = "GlobalClipLinear"
    of: ClassVar[type[CreditScore]] = GlobalClip
