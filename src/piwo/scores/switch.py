"""Switch: rows whose weight is above a threshold count nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.curved_score import CurvedScore
from piwo.scores.ratio import over_propensity
from piwo.scores.score import Parameter

__all__ = ["Switch"]


@dataclass(frozen=True)
class Switch(CurvedScore):
    """Importance weighting up to a threshold: rho = R w 1{w <= tau}, tau > 0.

    For comparison, and as the weights of the switch estimator: by itself it leaves out what it does
    not trust, with a reward model (`doubly_robust(weights=Switch(tau))`) the model speaks for those
    rows. No finite-sample guarantee by
    itself: it is not pessimistic, so intervals come from the unclipped rows.

    Formula: V = (1/n) sum_t R_t w_t 1{w_t <= tau}.
    Source: Wang, Agarwal, Dudik 2017 (arXiv 1612.01205).

    Args:
        tau: the largest weight that is believed; a number, "auto" or several (see `IX`). The tau
            that goes with a gamma of IX is 1 / gamma.

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.01]))
    >>> Switch(10.0).rho(batch, np.ones(2)).tolist()
    [2.0, 0.0]
    """

    tau: Parameter = "auto"
    name: ClassVar[str] = "switch"
    label: ClassVar[str] = "SWITCH"
    parameter: ClassVar[str | None] = "tau"
    of_gamma: ClassVar[str] = "1 / {}"

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return R w 1{w <= tau}, (n,)."""
        w = over_propensity(pi, batch)
        return batch.reward * np.where(w <= self.number, w, 0.0)

    def changed(self, batch: Batch, pi: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return the (n,) mask of rows with a weight above tau."""
        return np.asarray(over_propensity(pi, batch) > self.number)

    @property
    def gamma_equivalent(self) -> float:
        """1 / tau."""
        return 1.0 / self.number

    def at_gamma(self, gamma: float) -> Self:
        """Return the score with tau = 1 / gamma."""
        return self.at(1.0 / gamma)
