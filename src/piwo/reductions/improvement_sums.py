"""Credits for the improvement of many policies over the logging policy, in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.logs.batch import Batch
from piwo.policies.policy import Policy
from piwo.reductions.credit_sums import CreditState
from piwo.reductions.reduction import Reduction
from piwo.scores.ls import LSLinear

__all__ = ["ImprovementSums"]


@dataclass(frozen=True)
class ImprovementSums(Reduction[CreditState]):
    """Reduction: sums of an admissible score of Y = w R + 1 - R, affine in the policy.

    For S bets lam and N policies, rewards in [0, 1]:

        rho = pi log(1 + lam R/(mu (1 + lam (1 - R))))/lam + log(1 + lam (1 - R))/lam
            <= log(1 + lam Y)/lam

    by concavity: the argument of the logarithm on the right is affine in pi, and rho is the chord
    of the right side from pi = 0 to pi = 1. E Y - 1 is at most the improvement.
    """

    policies: tuple[Policy, ...]
    bets: tuple[float, ...]

    @property
    def context(self) -> bool:
        """Whether any policy uses the context."""
        return any(policy.needs_context for policy in self.policies)

    def empty(self) -> CreditState:
        """Return the state of no rows."""
        return CreditState(0.0, np.zeros((len(self.bets), len(self.policies))))

    def update(self, state: CreditState, batch: Batch) -> CreditState:
        """Return the sums with a batch added."""
        gains, alone = np.empty((len(batch), len(self.bets))), np.empty(len(self.bets))
        missed = 1.0 - batch.reward
        for s, bet in enumerate(self.bets):
            # The first term is the linear LS gain of R' = R / (1 + lam (1 - R)), since
            # log(1 + lam R'/mu) = log(1 + lam (1 - R) + lam R/mu) - log(1 + lam (1 - R)).
            smaller = batch.with_reward(batch.reward / (1.0 + bet * missed))
            gains[:, s] = batch.sampled(LSLinear(bet).gains(smaller))
            # The second term does not depend on the policy: sum_t log(1 + lam (1 - R))/lam
            alone[s] = batch.sampled(np.log1p(bet * missed)).sum() / bet
        credit = np.empty((len(self.bets), len(self.policies)))
        for i, policy in enumerate(self.policies):
            credit[:, i] = policy.logged(batch) @ gains + alone
        rows = float(batch.sampled(np.ones(len(batch))).sum())
        return state.merge(CreditState(rows, credit))
