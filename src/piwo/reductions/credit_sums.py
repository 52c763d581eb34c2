"""Credits of many policies under many scores, in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.policies.policy import Policy
from piwo.reductions.reduction import Reduction
from piwo.reductions.state import State
from piwo.scores.score import Score

__all__ = ["CreditState", "CreditSums"]


@dataclass(frozen=True)
class CreditState(State):
    """Rows, and the (S, N) sums of credits."""

    rows: float
    credit: Floats


@dataclass(frozen=True)
class CreditSums(Reduction[CreditState]):
    """Reduction: sum_t rho_s(pi_i; t) for S scores and N policies."""

    policies: tuple[Policy, ...]
    scores: tuple[Score, ...]

    @property
    def context(self) -> bool:
        """Tell whether any policy looks at the context."""
        return any(policy.needs_context for policy in self.policies)

    def empty(self) -> CreditState:
        """Return the state of no rows."""
        return CreditState(0.0, np.zeros((len(self.scores), len(self.policies))))

    def update(self, state: CreditState, batch: Batch) -> CreditState:
        """Return the sums with a batch added."""
        linear = [s for s, score in enumerate(self.scores) if score.linear]
        others = [s for s, score in enumerate(self.scores) if not score.linear]
        # (n, S): the credits of a policy are one product with it
        gains = np.stack([batch.sampled(self.scores[s].gains(batch)) for s in linear], axis=1) if linear else None
        credit = np.empty_like(state.credit)
        for i, policy in enumerate(self.policies):
            pi = policy.logged(batch)
            if gains is not None:
                credit[linear, i] = _product(pi, gains)
            for s in others:
                credit[s, i] = float(batch.sampled(self.scores[s].rho(batch, pi)).sum())
        return state.merge(CreditState(float(batch.sampled(np.ones(len(batch))).sum()), credit))


def _product(pi: Floats, gains: Floats) -> Floats:
    """Return pi' G, (S,), where 0 times infinity is 0: a policy that does not play an action earns nothing by it."""
    with np.errstate(invalid="ignore"):
        found = np.asarray(pi @ gains, np.float64)
        if np.isnan(found).any():
            found = np.where(pi[:, None] > 0, pi[:, None] * gains, 0.0).sum(axis=0)
    return found
