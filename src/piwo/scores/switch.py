"""Switch: rows whose weight is above a threshold get no credit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over_propensity
from piwo.scores.score import GammaScale, Parameter, Score

__all__ = ["Switch"]


@dataclass(frozen=True)
class Switch(Score):
    """Importance weighting up to a threshold: rho = R w 1{w <= tau}, tau > 0.

    For comparison, and as the weights of the switch estimator. By itself it leaves out rows with
    large weights; with a reward model (`doubly_robust(weights=Switch(tau))`) the model is used for
    them. It has no finite-sample guarantee of its own: it is not pessimistic, so intervals come
    from the unclipped rows.

    Formula: V = (1/n) sum_t R_t w_t 1{w_t <= tau}.
    Source: Wang, Agarwal, Dudik 2017 (arXiv 1612.01205).

    Args:
        tau: the largest weight that is used; a number, "auto" or several (see `IX`). The tau that
            corresponds to a gamma of IX is 1 / gamma.

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> Switch(10.0).rho(batch, np.ones(2)).tolist()
    [2.0, 0.0]
    """

    tau: Parameter = "auto"
    name: ClassVar[str] = "switch"
    label: ClassVar[str] = "SWITCH"
    parameter: ClassVar[str | None] = "tau"
    linear: ClassVar[bool] = False
    gamma_scale: ClassVar[GammaScale] = GammaScale(
        "1 / {}", lambda gamma: 1.0 / gamma, lambda tau: 1.0 / tau
    )

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return R w 1{w <= tau}, (n,)."""
        w = over_propensity(pi, batch)
        # R w 1{w <= tau}
        return batch.reward * np.where(w <= self.number, w, 0.0)

    def changed(self, batch: Batch, pi: Floats) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of rows with a weight above tau."""
        return np.asarray(over_propensity(pi, batch) > self.number)
