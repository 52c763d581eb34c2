"""Clip: propensities below gamma are replaced by gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Batch, Floats
from piwo.scores.score import Parameter, Score

__all__ = ["Clip"]


@dataclass(frozen=True)
class Clip(Score):
    """Clipped importance weighting: rho = pi R / max(mu, gamma).

    For comparison with what others do. It is not pessimistic: IX's bound does not hold for it
    (docs/theory.md gives a counterexample), so its intervals come from the unclipped rows. The
    result states how many rows were changed.

    Formula: V = (1/n) sum_t pi(A_t|X_t) R_t / max(mu(A_t|X_t), gamma).
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Eq. (CIW).

    Args:
        gamma: the smallest propensity that is used; a number, "auto" or several (see `IX`).

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.01, 0.5]))
    >>> Clip(0.05).rho(batch, np.ones(2)).tolist()
    [20.0, 2.0]
    """

    gamma: Parameter = "auto"
    name: ClassVar[str] = "clip"
    label: ClassVar[str] = "Clip"
    parameter: ClassVar[str | None] = "gamma"

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return R / max(mu, gamma), (n, S)."""
        gamma = parameters
        # Eq. (CIW): R / max(mu, gamma)
        return batch.reward[:, None] / np.maximum(batch.propensity[:, None], gamma)

    def changed(self, batch: Batch, pi: Floats) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of rows with a propensity below gamma that the policy may take."""
        mask: npt.NDArray[np.bool_] = (batch.propensity < self.number) & (pi > 0)
        return mask

    def note_on_changed(self, rows: int) -> str:
        """Return how many rows were clipped, in words."""
        plural = "s"
        if rows == 1:
            plural = ""
        return f"clipping at propensity {self.number:.4g} changed {rows:,} row{plural}"
