"""The sums over slates: moments by slot, and bet sums of value, loss, improvement and weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.engines.engine import fold
from piwo.engines.state import State, largest
from piwo.engines.task import Task
from piwo.errors import DataError
from piwo.logs.batch import Floats
from piwo.logs.findings import Finding, Refused
from piwo.logs.foreign import RowError
from piwo.reductions import MomentState, PolicyState
from piwo.reductions.blocks import (
    BetSums,
    Partition,
    bet_sums_of,
    number_sums,
    rows_by_block,
)
from piwo.reductions.policy_sums import BlockState, FourSums
from piwo.scores.slot_weights import SlotWeights
from piwo.slates.estimators import SlateEstimator
from piwo.slates.log import SlateLog
from piwo.slates.rows import SlateRows
from piwo.slates.validation import SlateReader
from piwo.sources.source import Fragment

__all__ = ["SlateState", "SlateSums", "reduce_slates"]


def _first_refusal(mine: tuple[Finding, ...], theirs: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return mine or theirs


@dataclass(frozen=True)
class SlateState(State):
    """The sums of one pass for one target and estimator; S is L, or 1 if a row has one weight.

    Values are on the unit scale: over the largest that a slate can have.
    """

    policy: PolicyState
    """Moments, and bet sums of Y + B, Z + B, Y + 1 - R + B and w + B; B: see `SlateSums`."""
    slots: Floats
    """(S,) rows that have the slot; sums over units are of means, and rows may have weights s."""
    having: Floats
    """(S,) rows that have the slot, whatever they count."""
    w: Floats
    """(S,) sums of w_l."""
    wr: Floats
    """(S,) sums of w_l r_l."""
    logged: Floats
    """(S,) sums of r_l."""
    taken: Floats
    """(K,) how often each action was shown, in any slot."""
    products: Floats
    """(3S + 1, 3S + 1) sums of products of the w_l, the w_l r_l, and the 1{row lacks slot l} of a
    row, and of 1."""
    y: float = 0.0
    """sum of Y."""
    y2: float = 0.0
    """sum of Y^2."""
    sy: float = 0.0
    """sum of s times s Y, s the sampling weights."""
    shown: float = 0.0
    """Slots of all rows together."""
    longest: float = largest(default=0.0)
    """Slots of the longest slate."""
    refused: tuple[Finding, ...] = field(default=(), metadata={"merge": _first_refusal})
    """Why the pass ended: rows break a rule."""

    @property
    def lengths_differ(self) -> bool:
        """Whether some slates have fewer slots than others."""
        return self.shown < self.longest * self.policy.moments.logged


@dataclass(frozen=True)
class _Credits:
    """The weights and rewards of n rows in S slots, and what they make."""

    weights: SlotWeights
    """(n, S)."""
    reward: Floats
    """(n, S); 0 beyond the end of a slate."""
    mask: npt.NDArray[np.bool_]
    """(n, S) whether a slate has the slot."""
    shares: Floats
    """(S,) position weights over their sum."""

    @property
    def beyond(self) -> Floats:
        """(n,) the shares of the slots that a slate lacks, in which nothing can be earned."""
        return np.maximum(0.0, 1.0 - self.mask @ self.shares)

    @property
    def logged(self) -> Floats:
        """(n,) R, the value of the logged slate."""
        total: Floats = self.reward @ self.shares
        return total

    def times(self, factor: Floats) -> Floats:
        """Return w_l f_l, (n, S), 0 if the factor is."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(factor != 0.0, self.weights.w * factor, 0.0)

    def log_sum(self, factor: Floats, rest: Floats) -> Callable[[npt.NDArray[np.intp]], Floats]:
        """Return a function that gives log(sum_l share_l w_l f_l + rest) of some rows."""

        def logarithm(rows: npt.NDArray[np.intp]) -> Floats:
            with np.errstate(divide="ignore"):
                logs = self.weights.logarithm(rows) + np.log(factor[rows] * self.shares)
                total = np.logaddexp.reduce(logs, axis=1)
                both: Floats = np.logaddexp(total, np.log(rest[rows]))
            return both

        return logarithm


@dataclass(frozen=True)
class SlateSums(Task[SlateState]):
    """Task: the sums of one estimator.

    Args:
        reader: of rows, with logger and target.
        estimator: makes the weights.
        alpha: (L,) position weights; (1,) if the reward is that of the slate.
        bounded: whether rewards have an upper end.
        shift: B: no weight is below -B.
        partition: into blocks; None: without.
        position: sums of this slot alone, of the rows that have it; None: of all slots.
    """

    reader: SlateReader
    estimator: SlateEstimator
    alpha: Floats
    bounded: bool
    shift: float = 0.0
    partition: Partition | None = None
    position: int | None = None

    @property
    def count(self) -> int:
        """The number S of weights of a row."""
        if self.position is not None or self.estimator.negative:
            return 1
        return len(self.alpha)

    def empty(self) -> SlateState:
        """Return the sums of no rows."""
        zeros = np.zeros(self.count)
        return SlateState(
            policy=PolicyState(blocks=BlockState.empty(self.partition)),
            slots=zeros,
            having=zeros,
            w=zeros,
            wr=zeros,
            logged=zeros,
            taken=np.zeros(len(self.reader.actions)),
            products=np.zeros((3 * self.count + 1, 3 * self.count + 1)),
        )

    def of_fragment(self, fragment: Fragment) -> SlateState:
        """Return the sums of a fragment."""
        state = self.empty()
        try:
            for rows in self.reader.read(fragment):
                state = state.merge(self.of_rows(rows))
        except Refused as refused:
            return replace(self.empty(), refused=refused.findings)
        return state

    def of_rows(self, rows: SlateRows) -> SlateState:
        """Return the sums of some rows."""
        if self.position is not None:
            rows = rows.take(rows.lengths > self.position)
        if not len(rows):
            return self.empty()
        return self._sums(rows)

    def settled(self, state: SlateState) -> bool:
        """Whether the pass has met rows that break a rule."""
        return bool(state.refused)

    def _credits(self, rows: SlateRows) -> _Credits:
        """Return the weights and rewards of the slots that are summed."""
        target = self.reader.target
        assert target is not None
        made = self.estimator.weigh(rows, self.reader.logger, target)
        shares = self.alpha / self.alpha.sum()
        ones = np.ones((len(rows), 1), np.bool_)
        if self.position is not None:
            one = slice(self.position, self.position + 1)
            weights = SlotWeights(made.w[:, one], lambda lost: made.logarithm(lost)[:, one])
            return _Credits(weights, rows.reward[:, one], ones, np.ones(1))
        if self.estimator.negative:
            # the reward of the whole slate
            reward = (rows.reward @ shares)[:, None]
            return _Credits(made, reward, ones, np.ones(1))
        if len(shares) == 1:
            return _Credits(made, rows.reward, np.ones(rows.reward.shape, np.bool_), shares)
        shape = rows.reward.shape

        def logarithm(lost: npt.NDArray[np.intp]) -> Floats:
            return np.broadcast_to(made.logarithm(lost), (len(lost), shape[1]))

        weights = SlotWeights(np.broadcast_to(made.w, shape), logarithm)
        return _Credits(weights, rows.reward, rows.mask, shares)

    def _sums(self, rows: SlateRows) -> SlateState:
        found = self._credits(rows)
        mask = found.mask.astype(np.float64)
        w, earned = found.times(mask), found.times(found.reward)
        if self.estimator.negative and not np.isfinite(w).all():
            row = int(rows.rows[int(np.argmin(np.isfinite(w).all(axis=1)))])
            raise RowError(
                "the weight is beyond float64, which no sum with negative weights can hold; "
                "correct the propensities",
                row,
            )
        with np.errstate(over="ignore", invalid="ignore"):
            # Y = sum_l share_l w_l r_l, and the mean weight
            credit, weight = earned @ found.shares, w @ found.shares + found.beyond
            observed = rows.observations.observed
            ones = np.ones((len(rows), 1))
            each = observed(np.concatenate([w, earned, 1.0 - mask, ones], axis=1))
            y, average = observed(credit), observed(weight)
            moments = MomentState(
                rows=rows.observations.count,
                logged=len(rows),
                total=float(each[:, -1].sum()),
                w=float(average.sum()),
                w2=float((average * average).sum()),
                reward=float(observed(found.logged).sum()),
                max_weight=float(w.max()),
            )
            policy = PolicyState(moments, *self._bets(rows, found, credit, weight))
            return SlateState(
                policy=policy,
                slots=observed(mask).sum(axis=0),
                having=mask.sum(axis=0),
                w=observed(w).sum(axis=0),
                wr=observed(earned).sum(axis=0),
                logged=observed(found.reward).sum(axis=0),
                taken=self._taken(rows),
                products=each.T @ each,
                y=float(y.sum()),
                y2=float((y * y).sum()),
                sy=float((each[:, -1] * y).sum()),
                shown=float(rows.lengths.sum()),
                longest=float(rows.lengths.max()),
            )

    def _taken(self, rows: SlateRows) -> Floats:
        """Return how often each action was shown, (K,)."""
        counts = np.bincount(rows.action[rows.mask], minlength=len(self.reader.actions))
        return counts.astype(np.float64)

    def _bets(
        self, rows: SlateRows, found: _Credits, credit: Floats, weight: Floats
    ) -> tuple[Any, Any]:
        """Return the bet sums, over all rows and by block."""
        batch = rows.observations

        def sums(y: Floats, factor: Floats, rest: Floats) -> BetSums:
            # Y + B >= 0, which rounding may take below 0; with weights beyond float64 it is inf
            assert (y + self.shift >= -1e-9 * (1.0 + self.shift)).all()
            shifted = np.maximum(y + self.shift, 0.0)
            return bet_sums_of(batch, shifted, found.log_sum(factor, rest), self.partition)

        nothing, mask = np.zeros(len(rows)), found.mask.astype(np.float64)
        four = FourSums(sums(credit, found.reward, nothing), sums(weight, mask, found.beyond))
        if self.bounded:
            missed = (1.0 - found.reward) * mask
            # Z = sum_l share_l w_l (1 - r_l), and slots that a slate lacks, as lost
            loss = found.times(missed) @ found.shares + found.beyond
            rest = np.maximum(0.0, 1.0 - found.logged)
            four = replace(
                four,
                loss=sums(loss, missed, found.beyond),
                improvement=sums(credit + rest, found.reward, rest),
            )
        return four.states(rows_by_block(self.partition, batch), number_sums(self.partition, batch))


@dataclass(frozen=True)
class _Together(Task[tuple[SlateState, ...]]):
    """Task: several sums over the same rows, in one pass.

    Args:
        parts: at least one, all with the same reader.
    """

    parts: tuple[SlateSums, ...]

    def empty(self) -> tuple[SlateState, ...]:
        """Return the sums of no rows."""
        return tuple(part.empty() for part in self.parts)

    def of_fragment(self, fragment: Fragment) -> tuple[SlateState, ...]:
        """Return the sums of a fragment."""
        states = self.empty()
        try:
            for rows in self.parts[0].reader.read(fragment):
                found = tuple(part.of_rows(rows) for part in self.parts)
                states = self.merge(states, found)
        except Refused as refused:
            return tuple(replace(one, refused=refused.findings) for one in self.empty())
        return states

    def merge(
        self, one: tuple[SlateState, ...], other: tuple[SlateState, ...]
    ) -> tuple[SlateState, ...]:
        """Return the sums of both parts."""
        return tuple(a.merge(b) for a, b in zip(one, other, strict=True))

    def settled(self, state: tuple[SlateState, ...]) -> bool:
        """Whether the pass has met rows that break a rule."""
        return bool(state[0].refused)


def reduce_slates(log: SlateLog, tasks: Sequence[SlateSums]) -> tuple[SlateState, ...]:
    """Return several sums over a slate log: one pass, all cores.

    Args:
        log: the rows.
        tasks: all with the same reader.

    Raises:
        DataError: for rows that break a rule, and for a log without rows.
    """
    found = fold(log.source_by_unit, tasks[0].reader.names, _Together(tuple(tasks)))
    if found[0].refused:
        raise Refused(found[0].refused)
    if found[0].policy.moments.rows == 0:
        raise DataError(f"no rows in {log.name}, expected at least one logged slate")
    if log.columns.unit is not None and found[0].policy.moments.rows < 2:
        raise DataError(
            f"all rows of {log.name} have one value of the unit column {log.columns.unit!r}, "
            "expected at least two units; name the column whose values do not depend on each other"
        )
    return found
