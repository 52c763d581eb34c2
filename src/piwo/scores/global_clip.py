"""GlobalClip: clipping that stays pessimistic, and its form that is linear in the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.bet_score import CreditScore, LinearForm
from piwo.scores.ratio import over_propensity

__all__ = ["GlobalClip", "GlobalClipLinear"]


@dataclass(frozen=True)
class GlobalClip(CreditScore):
    """Clipped importance weighting minus half its square: rho = z - lam z^2/2, z = min(w R, 1/lam).

    The subtracted square makes clipping safe: 0 <= rho <= log(1 + lam w R) / lam, so every bound of
    `LS` holds for it, and `LS` is never below it. The credit is at most 1 / (2 lam).

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
    def credit(numerator: Floats, batch: Batch, lam: Floats) -> Floats:
        """Return min(y, 1/lam) - lam min(y, 1/lam)^2 / 2, (n, S)."""
        # the weighted reward y = numerator / mu
        y = over_propensity(numerator, batch)[:, None]
        # clipped reward: z = min(y, 1/lam)
        z = np.minimum(y, 1.0 / lam)
        # c(y) = z - lam z^2 / 2, at most 1 / (2 lam)
        return np.asarray(z - lam * z * z / 2.0)


@dataclass(frozen=True)
class GlobalClipLinear(LinearForm, of=GlobalClip):
    """`GlobalClip`, linear in the policy: rho = pi c(R / mu), for learning; see `LinearForm`.

    Args:
        lam: as for `GlobalClip`.

    >>> from piwo.logs import Batch
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> GlobalClipLinear(0.2).rho(batch, np.array([0.5, 1.0])).round(4).tolist()
    [0.8, 2.5]
    """
