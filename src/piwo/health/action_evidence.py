"""Evidence, action by action, that logged propensities are too small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions import BETS
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import log1p_ratio

__all__ = ["ActionEvidence", "EvidenceState"]

_BETS = BETS[2:26:2]
"""8, 2, 1/2, ..., 2e-6: an action of K taken c times too often is best caught by about (c -
1)/K."""


@dataclass(frozen=True)
class EvidenceState(State):
    """Rows, and by action and bet the sum of log(1 + lam 1{A = a}/mu), (K, 12)."""

    rows: int
    sums: Floats

    def p_values(self) -> Floats:
        """Return, for each action, a p-value of "E 1{A = a}/mu <= 1", true where the propensities are right.

        One over the average wealth of twelve bets, valid at every n and at any time; one action
        each, not corrected for the number of actions.

        >>> import numpy as np
        >>> EvidenceState(0, np.zeros((2, 12))).p_values().tolist()
        [1.0, 1.0]
        """
        wealth = self.sums - self.rows * np.log1p(_BETS)
        peak = wealth.max(axis=1)
        log_e = peak + np.log(np.exp(wealth - peak[:, None]).mean(axis=1))
        p: Floats = np.exp(-np.maximum(log_e, 0.0))
        return p


@dataclass(frozen=True)
class ActionEvidence(Reduction[EvidenceState]):
    """Reduction: for each action, the bets that its mean of 1{A = a}/mu is above 1.

    The mean over all actions can be right while single ones are wrong by much: a log that states
    1/K for a logger that prefers one action.

    Args:
        actions: K.

    Source: docs/theory.md, section "Are the propensities right?".
    """

    actions: int

    def empty(self) -> EvidenceState:
        """Return the state of no rows."""
        return EvidenceState(0, np.zeros((self.actions, len(_BETS))))

    def update(self, state: EvidenceState, batch: Batch) -> EvidenceState:
        """Return the sums with a batch added."""
        ones, sums = np.ones(len(batch)), np.empty((self.actions, len(_BETS)))
        for j, bet in enumerate(_BETS):
            sums[:, j] = np.bincount(
                batch.action,
                log1p_ratio(np.array([bet]), ones, batch)[:, 0],
                minlength=self.actions,
            )
        return state.merge(EvidenceState(len(batch), sums))
