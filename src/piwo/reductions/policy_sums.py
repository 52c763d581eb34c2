"""All that evaluating one policy needs: weight moments and the bet sums of its value, loss, improvement and weight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State, largest
from piwo.logs.batch import Batch, Floats
from piwo.reductions.bets import BETS, bet_sums, bet_sums_of_logs
from piwo.reductions.policy_reduction import PolicyReduction
from piwo.scores.iw import IW
from piwo.scores.ratio import Weights
from piwo.scores.score import Score

__all__ = ["BetState", "MomentState", "PolicyState", "PolicySums"]


def _no_bets() -> Floats:
    return np.zeros(len(BETS))


@dataclass(frozen=True)
class MomentState(State):
    """Sums of weights w = pi/mu, credits rho, and used weights u = rho at reward 1; s: the sampling weight, or 1.

    >>> MomentState(rows=1, max_weight=2.0).merge(MomentState(rows=2, max_weight=5.0)).max_weight
    5.0
    """

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
    """sum of the credits of the losses 1 - R, for pessimistic scores of rewards with an upper
    end."""
    reward: float = 0.0
    """sum s R: what the logging policy earned."""


@dataclass(frozen=True)
class BetState(State):
    """Bet sums of the four quantities that intervals and tests need, each (48,).

    >>> BetState().value.shape
    (48,)
    """

    value: Floats = field(default_factory=_no_bets)
    """Y = w R."""
    loss: Floats = field(default_factory=_no_bets)
    """Y = w (1 - R)."""
    improvement: Floats = field(default_factory=_no_bets)
    """Y = w R + 1 - R."""
    weight: Floats = field(default_factory=_no_bets)
    """Y = w."""


@dataclass(frozen=True)
class PolicyState(State):
    """What one pass learns about one policy.

    >>> PolicyState().moments.rows
    0
    """

    moments: MomentState = MomentState()
    bets: BetState = field(default_factory=BetState)


@dataclass(frozen=True)
class PolicySums(PolicyReduction[PolicyState]):
    """Reduction: everything that evaluating one policy with one score needs.

    Args:
        policy: over the log's action list.
        score: whose credits are summed.
        bounded: rewards have an upper end, so that losses 1 - R exist.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> piwo.reductions.reduce(
    ...     log, PolicySums(piwo.policies.Uniform(log.actions), piwo.IW())
    ... ).moments.wr
    3.0
    """

    score: Score
    bounded: bool = True

    def empty(self) -> PolicyState:
        """Return the state of no rows."""
        return PolicyState()

    def update(self, state: PolicyState, batch: Batch) -> PolicyState:
        """Return the state with the rows of a batch added."""
        pi = self.policy.logged(batch)
        weights = self.weights(batch, pi)
        # rewards without an upper end can take w R beyond float64 where w is not
        scale = 1.0 if self.bounded else max(1.0, float(batch.reward.max(initial=0.0)))
        lost = None
        if float(weights.w.max(initial=0.0)) * scale == np.inf:
            lost = np.flatnonzero(weights.w > np.finfo(np.float64).max / scale)
        moments, bets = (
            self._rows(batch, weights.w) if lost is None else self._lost(batch, weights, lost)
        )
        return state.merge(PolicyState(self._credits(moments, batch, pi), bets))

    def _rows(self, batch: Batch, w: Floats) -> tuple[MomentState, BetState]:
        """Return the sums of rows whose weights are finite."""
        from piwo.reductions.kernels import add_policy

        value, loss, better, sums = (
            np.empty_like(w),
            np.empty_like(w),
            np.empty_like(w),
            np.zeros(6),
        )
        add_policy(w, batch.reward, value, loss, better, sums)
        bets = self._bets(batch.reward, w, value, loss, better)
        total, reward, s = float(len(batch)), float(sums[5]), batch.weight
        if s is not None:  # nothing is bet on a thinned log, and its moments are weighted
            sums = np.zeros(6)
            add_policy(s * w, batch.reward, value, loss, better, sums)
            total, reward = float(s.sum()), float((s * batch.reward).sum())
        mean, w2, wr, w2r, w2r2, _ = (float(x) for x in sums)
        return MomentState(
            len(batch),
            total,
            mean,
            w2,
            wr,
            w2r,
            w2r2,
            reward=reward,
            max_weight=float(w.max(initial=0.0)),
        ), bets

    def _bets(
        self, reward: Floats, w: Floats, value: Floats, loss: Floats, better: Floats
    ) -> BetState:
        """Return the bet sums of w R, w (1 - R), w R + 1 - R and w."""
        earned = bet_sums(value)
        if not self.bounded:
            return BetState(value=earned, weight=bet_sums(w))
        lost = bet_sums(loss)
        misses = int((reward == 0.0).sum())
        if misses + int((reward == 1.0).sum()) == len(reward):
            # rewards of 0 and 1: a row bets its weight on one side only, and w R + 1 - R is w or 1
            return BetState(earned, lost, earned + misses * np.log1p(BETS), earned + lost)
        return BetState(earned, lost, bet_sums(better), bet_sums(w))

    def _lost(
        self, batch: Batch, weights: Weights, lost: npt.NDArray[np.intp]
    ) -> tuple[MomentState, BetState]:
        """Return the sums where some weights are beyond float64: logarithms bet, the moments are infinite."""
        kept, few = np.delete(np.arange(len(batch)), lost), batch.take(lost)
        moments, bets = self._rows(batch.take(kept), weights.w[kept])
        with np.errstate(divide="ignore"):
            log_w, log_r = weights.logarithm()[lost], np.log(few.reward)
            # rewards without an upper end have no losses
            log_loss = np.log(1.0 - few.reward) if self.bounded else None
        added = BetState(value=bet_sums_of_logs(log_w + log_r), weight=bet_sums_of_logs(log_w))
        if log_loss is not None:
            better = bet_sums_of_logs(np.logaddexp(log_w + log_r, log_loss))
            added = replace(added, loss=bet_sums_of_logs(log_w + log_loss), improvement=better)
        s = np.ones(len(lost)) if few.weight is None else few.weight
        credit = np.inf if (few.reward > 0).any() else 0.0
        infinite = MomentState(
            len(lost), float(s.sum()), np.inf, np.inf, credit, credit, credit,
            reward=float((s * few.reward).sum()), max_weight=np.inf,
        )  # fmt: skip
        return moments.merge(infinite), bets.merge(added)

    def _credits(self, moments: MomentState, batch: Batch, pi: Floats) -> MomentState:
        """Return the moments with the score's own sums; plain importance weighting has them already."""
        if isinstance(self.score, IW):
            return replace(moments, u=moments.w, u2=moments.w2, rho=moments.wr, rho2=moments.w2r2)
        s = 1.0 if batch.weight is None else batch.weight
        used = self.score.rho(batch.with_reward(np.ones(len(batch))), pi)
        u, rho, loss = s * used, s * self.score.rho(batch, pi), 0.0
        if self.score.pessimistic and self.bounded:
            loss = float((s * self.score.rho(batch.losses(), pi)).sum())
        with np.errstate(over="ignore"):
            u2, rho2 = float((u * u).sum()), float((rho * rho).sum())
        changed = int(self.score.changed(batch, pi).sum())
        return replace(
            moments,
            u=float(u.sum()),
            u2=u2,
            rho=float(rho.sum()),
            rho2=rho2,
            changed=changed,
            loss_rho=loss,
        )
