"""All that evaluating one policy needs: weight moments and the bet sums of its value, loss, improvement and weight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.policies.policy import Policy
from piwo.reductions.bets import BETS, bet_sums
from piwo.reductions.state import State, largest
from piwo.scores.iw import IW
from piwo.scores.ratio import Weights, importance_weights
from piwo.scores.score import Score

__all__ = ["BetState", "MomentState", "PolicyState", "PolicySums"]


def _no_bets() -> Floats:
    return np.zeros(len(BETS))


@dataclass(frozen=True)
class MomentState(State):
    """Sums of weights w = pi/mu, credits rho, and used weights u = rho at reward 1; s is the sampling weight (1 without)."""

    rows: int = 0
    total: float = 0.0
    """sum s; equals rows where the log was not thinned."""
    w: float = 0.0
    w2: float = 0.0
    wr: float = 0.0
    w2r: float = 0.0
    w2r2: float = 0.0
    u: float = 0.0
    u2: float = 0.0
    rho: float = 0.0
    rho2: float = 0.0
    changed: int = 0
    """Rows whose used weight differs from pi/mu."""
    max_weight: float = largest(default=0.0)

    loss_rho: float = 0.0
    """sum of the credits of the losses 1 - R, for pessimistic scores of rewards with an upper end."""

    def add(self, batch: Batch, weights: Weights, pi: Floats, score: Score, bounded: bool) -> MomentState:
        """Return the sums with a batch added."""
        w, wr = weights.w, weights.times(batch.reward)
        plain = isinstance(score, IW)
        u = w if plain else score.rho(batch.with_reward(np.ones(len(batch))), pi)
        rho = wr if plain else score.rho(batch, pi)
        sw, swr, su, srho = (w, wr, u, rho) if batch.weight is None else (batch.weight * x for x in (w, wr, u, rho))
        return self.merge(
            MomentState(
                rows=len(batch),
                total=float(len(batch) if batch.weight is None else batch.weight.sum()),
                w=float(sw.sum()),
                w2=float((sw * sw).sum()),
                wr=float(swr.sum()),
                w2r=float((sw * swr).sum()),
                w2r2=float((swr * swr).sum()),
                u=float(su.sum()),
                u2=float((su * su).sum()),
                rho=float(srho.sum()),
                rho2=float((srho * srho).sum()),
                changed=0 if plain else int((u != w).sum()),
                max_weight=float(w.max()) if len(w) else 0.0,
                loss_rho=float(score.rho(batch.losses(), pi).sum()) if score.pessimistic and bounded else 0.0,
            )
        )


@dataclass(frozen=True)
class BetState(State):
    """Bet sums of the four quantities that intervals and tests need, each (48,)."""

    value: Floats = field(default_factory=_no_bets)
    """Y = w R."""
    loss: Floats = field(default_factory=_no_bets)
    """Y = w (1 - R)."""
    improvement: Floats = field(default_factory=_no_bets)
    """Y = w R + 1 - R."""
    weight: Floats = field(default_factory=_no_bets)
    """Y = w."""

    def add(self, batch: Batch, weights: Weights, bounded: bool) -> BetState:
        """Return the sums with a batch added; losses exist only for rewards with an upper end."""
        reward, ones = batch.reward, np.ones(len(batch))
        value = weights.times(reward)
        log_value = weights.log_times(reward)
        added = BetState(value=bet_sums(value, log_value), weight=bet_sums(weights.w, weights.log_times(ones)))
        if bounded:
            loss = 1.0 - reward
            of_loss = bet_sums(weights.times(loss), weights.log_times(loss))
            # an overflowing w R is so large that 1 - R beside it is less than rounding
            added = replace(added, loss=of_loss, improvement=bet_sums(value + loss, log_value))
        return self.merge(added)


@dataclass(frozen=True)
class PolicyState(State):
    """What one pass learns about one policy."""

    moments: MomentState = MomentState()
    bets: BetState = field(default_factory=BetState)


@dataclass(frozen=True)
class PolicySums:
    """Reduction: everything that evaluating one policy with one score needs.

    Args:
        policy: over the log's action list.
        score: whose credits are summed.
        bounded: rewards have an upper end, so that losses 1 - R exist.
    """

    policy: Policy
    score: Score
    bounded: bool = True
    propensities: bool = False

    @property
    def context(self) -> bool:
        """Tell whether the policy looks at the context."""
        return self.policy.needs_context

    def empty(self) -> PolicyState:
        """Return the state of no rows."""
        return PolicyState()

    def update(self, state: PolicyState, batch: Batch) -> PolicyState:
        """Return the state with the rows of a batch added."""
        pi = self.policy.logged(batch)
        weights = importance_weights(batch, pi, lambda: self.policy.log_logged(batch))
        moments = state.moments.add(batch, weights, pi, self.score, self.bounded)
        return PolicyState(moments, state.bets.add(batch, weights, self.bounded))

    def merge(self, one: PolicyState, other: PolicyState) -> PolicyState:
        """Return the state of both parts together."""
        return one.merge(other)
