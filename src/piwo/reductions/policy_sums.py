"""The sums for evaluating one policy: moments, and bet sums of value, loss and improvement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State, largest
from piwo.logs.batch import Batch, Floats
from piwo.reductions.bets import BETS
from piwo.reductions.blocks import (
    BetSums,
    Partition,
    RowBlocks,
    no_blocks,
    number_sums,
    rows_by_block,
)
from piwo.reductions.policy_reduction import PolicyReduction, credit_bets
from piwo.scores.iw import IW
from piwo.scores.ratio import Weights
from piwo.scores.score import Score

__all__ = ["BetState", "BlockState", "MomentState", "PolicyState", "PolicySums"]


QUANTITIES = ("value", "loss", "improvement", "weight")
"""w R, w (1 - R), w R + 1 - R and w."""


def _no_bets() -> Floats:
    return np.zeros(len(BETS))


@dataclass(frozen=True)
class MomentState(State):
    """Sums of weights w = pi/mu, credits rho and u = rho at reward 1; s: the sampling weight.

    By unit, each of these quantities is its mean over the rows of a unit, and sums are over units.

    >>> MomentState(rows=1, max_weight=2.0).merge(MomentState(rows=2, max_weight=5.0)).max_weight
    5.0
    """

    rows: int = 0
    """The number n of independent observations: rows, or units if the log is read by unit."""
    logged: int = 0
    """The number of rows."""
    total: float = 0.0
    """sum s; n if the log was not subsampled."""
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
    """Rows with u != pi/mu."""
    max_weight: float = largest(default=0.0)

    loss_rho: float = 0.0
    """sum of the credits of losses 1 - R, for pessimistic scores and rewards with an upper end."""
    reward: float = 0.0
    """sum s R: the total logged reward."""
    earned: float = 0.0
    """sum s w (R + origin), rewards in their own unit over the span; a row that earns 0 adds 0."""
    earned2: float = 0.0
    """sum of the squares of s w (R + origin)."""

    s2: float = 0.0
    """sum s^2 of a thinned log, else 0. Its means are ratios of sums, whose errors need these."""
    sw: float = 0.0
    """sum s^2 w of a thinned log."""
    swr: float = 0.0
    """sum s^2 w R of a thinned log."""
    srho: float = 0.0
    """sum s^2 rho of a thinned log."""


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
class BlockState(State):
    """The sums by block of the same four quantities, each (B, 2 + J); see `BetSums.blocks`.

    >>> BlockState().rows.shape
    (0,)
    """

    rows: Floats = field(default_factory=lambda: np.zeros(0))
    """(B,) rows, or units, of each block."""
    value: Floats = field(default_factory=no_blocks)
    loss: Floats = field(default_factory=no_blocks)
    improvement: Floats = field(default_factory=no_blocks)
    weight: Floats = field(default_factory=no_blocks)
    trends: Floats = field(default_factory=lambda: np.zeros(len(QUANTITIES)))
    """(4,) their sums of Y times the row number; see `BetSums.trend`."""
    numbers: Floats = field(default_factory=lambda: np.zeros(2))
    """(2,) the sums of the row numbers and of their squares; see `RowBlocks.number_sums`."""

    def trend(self, quantity: str) -> float:
        """Return the sum of one of the quantities times the row number."""
        return float(self.trends[QUANTITIES.index(quantity)])

    @classmethod
    def empty(cls, partition: Partition | None) -> BlockState:
        """Return the sums of no rows."""
        if partition is None:
            return cls()
        shape = (partition.count, *no_blocks().shape[1:])
        return cls(np.zeros(partition.count), *(np.zeros(shape) for _ in range(4)))


@dataclass(frozen=True)
class FourSums:
    """Sums of w R, w (1 - R), w R + 1 - R and w, all rows and by block; None: not summed."""

    value: BetSums
    weight: BetSums
    loss: BetSums | None = None
    improvement: BetSums | None = None

    def merge(self, other: FourSums) -> FourSums:
        """Return the sums of both parts."""
        made = FourSums(self.value.merge(other.value), self.weight.merge(other.weight))
        if self.loss is None or self.improvement is None:
            return made
        assert other.loss is not None
        assert other.improvement is not None
        return replace(
            made,
            loss=self.loss.merge(other.loss),
            improvement=self.improvement.merge(other.improvement),
        )

    def states(self, rows: Floats, numbers: Floats) -> tuple[BetState, BlockState]:
        """Return them as parts of a `PolicyState`.

        Args:
            rows: of each block.
            numbers: sums of row numbers, see `BlockState.numbers`.
        """
        loss, better = self.loss, self.improvement
        if loss is None or better is None:
            nothing = BetSums(blocks=np.zeros_like(self.value.blocks))
            loss = better = nothing
        four = (self.value, loss, better, self.weight)
        trends = np.array([x.trend for x in four])
        blocks = BlockState(rows, *(x.blocks for x in four))
        blocks = replace(blocks, trends=trends, numbers=numbers)
        return BetState(*(x.bets for x in four)), blocks


@dataclass(frozen=True)
class PolicyState(State):
    """The sums of one pass for one policy.

    >>> PolicyState().moments.rows
    0
    """

    moments: MomentState = MomentState()
    bets: BetState = field(default_factory=BetState)
    blocks: BlockState = field(default_factory=BlockState)


@dataclass(frozen=True)
class PolicySums(PolicyReduction[PolicyState]):
    """Reduction: the sums for evaluating one policy with one score.

    Args:
        policy: over the log's action list.
        score: whose credits are summed.
        bounded: rewards have an upper end, so that losses 1 - R exist.
        origin: lo / (hi - lo): what is added to R to make it a multiple of the reward's own unit.
        partition: into blocks; None: without.

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
    origin: float = 0.0
    partition: Partition | None = None

    def empty(self) -> PolicyState:
        """Return the state of no rows."""
        return PolicyState(blocks=BlockState.empty(self.partition))

    def update(self, state: PolicyState, batch: Batch) -> PolicyState:
        """Return the state with the rows of a batch added."""
        pi = self.policy.logged(batch)
        weights = self.weights(batch, pi)
        if batch.unit_starts is not None:
            moments, four = self._units(batch, weights)
            return state.merge(self._state(moments, four, batch, pi))
        # Without an upper end of rewards, w R may exceed float64 although w does not.
        scale = 1.0
        if not self.bounded:
            scale = max(1.0, float(batch.reward.max(initial=0.0)))
        if float(weights.w.max(initial=0.0)) * scale == np.inf:
            lost = np.flatnonzero(weights.w > np.finfo(np.float64).max / scale)
            moments, four = self._lost(batch, weights, lost)
        else:
            moments, four = self._rows(batch, weights.w)
        return state.merge(self._state(moments, four, batch, pi))

    def _state(self, moments: MomentState, four: FourSums, batch: Batch, pi: Floats) -> PolicyState:
        rows = rows_by_block(self.partition, batch)
        numbers = number_sums(self.partition, batch)
        return PolicyState(self._credits(moments, batch, pi), *four.states(rows, numbers))

    def _rows(self, batch: Batch, w: Floats) -> tuple[MomentState, FourSums]:
        """Return the sums of rows whose weights are finite."""
        from piwo.reductions.kernels import add_policy

        reward, rows = batch.reward, None
        if self.partition is not None:
            rows = self.partition.of(batch)
        value, loss, better = np.empty_like(w), np.empty_like(w), np.empty_like(w)
        # sums of w, w^2, w R, w^2 R, (w R)^2 and R
        sums = np.zeros(6)
        add_policy(w, reward, value, loss, better, sums)
        four = self._four(reward, w, value, loss, better, rows)
        total, gained, s, o = float(len(batch)), float(sums[5]), batch.thinned, self.origin
        s2, sw, swr = 0.0, 0.0, 0.0
        if s is not None:
            # A subsampled log: the moments are those of s w, and its bet sums are not used.
            sums = np.zeros(6)
            add_policy(s * w, reward, value, loss, better, sums)
            total, gained = float(s.sum()), float((s * reward).sum())
            s2 = float(s @ s)
            squares = s * s * w
            sw, swr = float(squares.sum()), float((squares * reward).sum())
        # w (R + o) and its square, whose terms may be beyond float64
        earned, earned2 = float(sums[2]), float(sums[4])
        if o != 0.0:
            earned += o * float(sums[0])
            earned2 += 2.0 * o * float(sums[3]) + o * o * float(sums[1])
        if not math.isfinite(earned2):
            earned2 = math.inf
        moments = MomentState(
            rows=len(batch),
            logged=len(batch),
            total=total,
            w=float(sums[0]),
            w2=float(sums[1]),
            wr=float(sums[2]),
            w2r=float(sums[3]),
            w2r2=float(sums[4]),
            reward=gained,
            max_weight=float(w.max(initial=0.0)),
            earned=earned,
            earned2=earned2,
            s2=s2,
            sw=sw,
            swr=swr,
        )
        return moments, four

    def _four(
        self,
        reward: Floats,
        w: Floats,
        value: Floats,
        loss: Floats,
        better: Floats,
        rows: RowBlocks | None,
    ) -> FourSums:
        """Return the bet sums of w R, w (1 - R), w R + 1 - R and w."""
        # S_j(w R), then S_j(w (1 - R)), S_j(w R + 1 - R) and S_j(w)
        earned = BetSums.of(value, rows)
        if not self.bounded:
            return FourSums(earned, BetSums.of(w, rows))
        lost = BetSums.of(loss, rows)
        missed = reward == 0.0
        misses = int(missed.sum())
        if misses + int((reward == 1.0).sum()) == len(reward):
            # All rewards are 0 or 1: a row has w R = w or w (1 - R) = w, and w R + 1 - R is w or 1,
            # so two passes of bets give all four sums.
            ones = BetSums.of_ones(missed, rows)
            return FourSums(earned, earned.merge(lost), lost, earned.merge(ones))
        return FourSums(earned, BetSums.of(w, rows), lost, BetSums.of(better, rows))

    def _lost(
        self, batch: Batch, weights: Weights, lost: npt.NDArray[np.intp]
    ) -> tuple[MomentState, FourSums]:
        """Return the sums if weights exceed float64: bets use logarithms, moments are infinite."""
        kept, few = np.delete(np.arange(len(batch)), lost), batch.take(lost)
        moments, four = self._rows(batch.take(kept), weights.w[kept])
        with np.errstate(divide="ignore"):
            log_w, log_r = weights.logarithm()[lost], np.log(few.reward)
        rows = None
        if self.partition is not None:
            rows = self.partition.of(few)

        def sums(logs: Floats) -> BetSums:
            return BetSums.of_logs(logs, rows)

        added = FourSums(sums(log_w + log_r), sums(log_w))
        if self.bounded:
            # log(w (1 - R)) and log(w R + 1 - R); without an upper end of rewards there is no loss
            with np.errstate(divide="ignore"):
                log_loss = np.log(1.0 - few.reward)
            better = sums(np.logaddexp(log_w + log_r, log_loss))
            added = replace(added, loss=sums(log_w + log_loss), improvement=better)
        s = few.sampled(np.ones(len(lost)))
        credit = 0.0
        if (few.reward > 0).any():
            credit = np.inf
        # a row that earns 0 adds 0, although its weight is beyond float64
        own = few.reward + self.origin
        with np.errstate(invalid="ignore"):
            earned = float(np.where(own != 0.0, own * np.inf, 0.0).sum())
        s2 = 0.0
        if few.thinned is not None:
            s2 = float(s @ s)
        infinite = MomentState(
            rows=len(lost),
            logged=len(lost),
            total=float(s.sum()),
            w=np.inf,
            w2=np.inf,
            wr=credit,
            w2r=credit,
            w2r2=credit,
            reward=float((s * few.reward).sum()),
            max_weight=np.inf,
            earned=earned,
            earned2=abs(earned),
            s2=s2,
            swr=credit,
        )
        return moments.merge(infinite), four.merge(added)

    def _units(self, batch: Batch, weights: Weights) -> tuple[MomentState, FourSums]:
        """Return the sums over units, of the means of w, w R, w (1 - R) and w R + 1 - R."""
        r, missed = batch.reward, np.maximum(0.0, 1.0 - batch.reward)
        earned = weights.times(r)
        w, wr, reward = batch.by_unit(weights.w), batch.by_unit(earned), batch.by_unit(r)
        own = r + self.origin
        with np.errstate(over="ignore", invalid="ignore"):
            # w (R + origin), and 0 where that is 0, whatever w
            in_unit = batch.by_unit(np.where(own != 0.0, weights.w * own, 0.0))
            moments = MomentState(
                rows=batch.count,
                logged=len(batch),
                total=float(batch.count),
                w=float(w.sum()),
                w2=float((w * w).sum()),
                wr=float(wr.sum()),
                w2r=float(np.where(wr > 0.0, w * wr, 0.0).sum()),
                w2r2=float((wr * wr).sum()),
                reward=float(reward.sum()),
                max_weight=float(weights.w.max(initial=0.0)),
                earned=float(in_unit.sum()),
                earned2=float((in_unit * in_unit).sum()),
            )

        nothing, ones = np.zeros(len(batch)), np.ones(len(batch))

        def bets(factor: Floats, rest: Floats) -> BetSums:
            return credit_bets(batch, weights, factor, rest, self.partition)

        four = FourSums(bets(r, nothing), bets(ones, nothing))
        if self.bounded:
            four = replace(four, loss=bets(missed, nothing), improvement=bets(r, missed))
        return moments, four

    def _credits(self, moments: MomentState, batch: Batch, pi: Floats) -> MomentState:
        """Return the moments with the sums of the score's credits; those of IW are in them."""
        if isinstance(self.score, IW):
            return replace(
                moments,
                u=moments.w,
                u2=moments.w2,
                rho=moments.wr,
                rho2=moments.w2r2,
                srho=moments.swr,
            )
        # sums of s u, (s u)^2, s rho, (s rho)^2, and of s rho for losses 1 - R
        u = batch.observed(self.score.rho(batch.with_reward(np.ones(len(batch))), pi))
        rho, loss, srho = batch.observed(self.score.rho(batch, pi)), 0.0, 0.0
        if batch.thinned is not None:
            srho = float((batch.thinned * rho).sum())
        if self.score.pessimistic and self.bounded:
            loss = float(batch.observed(self.score.rho(batch.losses(), pi)).sum())
        with np.errstate(over="ignore"):
            u2, rho2 = float((u * u).sum()), float((rho * rho).sum())
        changed = int(self.score.changed(batch, pi).sum())
        return replace(
            moments,
            u=float(u.sum()),
            u2=u2,
            rho=float(rho.sum()),
            rho2=rho2,
            srho=srho,
            changed=changed,
            loss_rho=loss,
        )
