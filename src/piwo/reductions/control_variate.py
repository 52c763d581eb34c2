"""Control variates: bet sums of truncated doubly robust credits, for several baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.bets import BETS, CAPPED_BETS, CAPS
from piwo.reductions.blocks import BetSums, Partition, no_blocks
from piwo.reductions.policy_reduction import credit_bets
from piwo.reductions.vector_sums import Vectors, VectorSums, width_of
from piwo.scores.ratio import Weights

__all__ = ["BASELINES", "GAIN_BASELINES", "ControlVariates", "VariateState", "stacked"]

BASELINES: tuple[tuple[float, float], ...] = tuple(
    product((0.25, 0.5, 0.75, 1.0), (1.0, 4.0, 16.0))
)
"""(c, k): the baseline b(x, a) = min(c, k / w(x, a)), so that w b <= k. c = 0 is plain w R."""
GAIN_BASELINES: tuple[int, ...] = tuple(i for i, (c, _) in enumerate(BASELINES) if c in (0.5, 1.0))
"""Positions of those with bets on the improvement over the logging policy."""
BLOCK_BASELINES: tuple[int, ...] = tuple(
    BASELINES.index(one) for one in ((0.5, 1.0), (1.0, 1.0), (0.5, 4.0), (1.0, 16.0))
)
"""Positions of those that are summed by block: bets on the best of these four are worth as much as
on the best of all."""


def _no_bets(quantities: int) -> Floats:
    return np.zeros((quantities, len(BETS)))


@dataclass(frozen=True)
class VariateState(State):
    """Bet sums of the credits, each (C, 48): for `BASELINES`, or `BLOCK_BASELINES` with blocks.

    >>> VariateState().value.shape, VariateState().improvement.shape
    ((12, 48), (7, 48))
    """

    value: Floats = field(default_factory=lambda: _no_bets(len(BASELINES)))
    """Y = w (R - b(X, A)) + sum_a pi(a|X) b(X, a) + k, a row for each of `BASELINES`."""
    loss: Floats = field(default_factory=lambda: _no_bets(len(BASELINES)))
    """The same with 1 - R in place of R."""
    improvement: Floats = field(default_factory=lambda: _no_bets(1 + len(GAIN_BASELINES)))
    """Row 0: Y = w R + 1 - R + (1 - w)_+ - sum_a (mu(a|X) - pi(a|X))_+. Other rows: Y = that of the
    value plus 1 - R, for `GAIN_BASELINES`."""
    value_blocks: Floats = field(default_factory=lambda: no_blocks(len(BASELINES)))
    """(C, B, 2 + J) by block, see `piwo.reductions.blocks.BetSums`."""
    loss_blocks: Floats = field(default_factory=lambda: no_blocks(len(BASELINES)))
    improvement_blocks: Floats = field(default_factory=lambda: no_blocks(1 + len(GAIN_BASELINES)))
    truncated: Floats = field(default_factory=lambda: np.zeros(len(CAPS)))
    """(48,) sums of log(1 + lam_k (sum_a min(pi(a|X), c_k mu(a|X)) - min(w, c_k) R)), with c_k of
    `CAPS` and lam_k of `CAPPED_BETS`; for rewards with an upper end. Of rows of a unit, each over
    their number."""


def stacked(
    value: Sequence[BetSums], loss: Sequence[BetSums], improvement: Sequence[BetSums]
) -> tuple[Floats, ...]:
    """Return the arrays of a state from the sums of each form: bets of all rows, then by block."""
    bets, blocks = [], []
    for kind in (value, loss, improvement):
        bets.append(np.stack([one.bets for one in kind]))
        blocks.append(np.stack([one.blocks for one in kind]))
    return (*bets, *blocks)


@dataclass(frozen=True)
class ControlVariates(VectorSums[VariateState]):
    """Reduction: bet sums of truncated doubly robust credits, for the baselines `BASELINES`.

    Each action is truncated by its own weight, inside the sum too:

        sum_a pi(a|x) b(x, a) = sum_a min(c pi(a|x), k mu(a|x)),

    whose terms are 0 if mu or pi is. If actions change from row to row, the sum is over those that
    are eligible. Tables of rows x (eligible) actions are made for small blocks of rows.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log,
            of the eligible actions if it has these.
        bounded: rewards have an upper end, so that losses 1 - R exist.
        partition: into blocks; None: without.

    Source: Waudby-Smith, Wu, Ramdas, Karampatziakis, Mineiro 2022 (arXiv 2210.10768) for the
    truncation; docs/theory.md, section "Control variates".

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 0], propensities=[[0.5, 0.5]] * 2, actions=["a", "b"]
    ... )
    >>> policy = piwo.policies.Constant("a", log.actions)
    >>> state = piwo.reductions.reduce(log, ControlVariates(policy))
    >>> round(float(np.exp(state.value[3, 5])), 12)  # c = .5, k = 1: (1 + 2.5)(1 + 1.5)
    8.75
    """

    bounded: bool = True
    partition: Partition | None = None

    @property
    def _baselines(self) -> tuple[int, ...]:
        """Positions of the baselines that are summed."""
        if self.partition is None:
            return tuple(range(len(BASELINES)))
        return BLOCK_BASELINES

    def empty(self) -> VariateState:
        """Return the state of no rows."""
        if self.partition is None:
            return VariateState()
        nothing = BetSums(blocks=np.zeros((self.partition.count, *no_blocks().shape[1:])))
        forms = [nothing] * len(self._baselines)
        gains = [nothing] * (1 + len(set(self._baselines).intersection(GAIN_BASELINES)))
        return VariateState(*stacked(forms, forms, gains))

    def width(self, batch: Batch) -> int:
        """Return K, or the length of the longest list of eligible actions."""
        return width_of(batch, len(self.policy.actions))

    def block(self, batch: Batch) -> VariateState:
        """Return the sums of a few rows."""
        from piwo.reductions.kernels import add_truncated_bets, truncated_masses

        vectors = Vectors(batch)
        pi, mu = vectors.of(self.policy), vectors.mu
        masses, distance = np.zeros((len(BASELINES), len(batch))), np.zeros(len(batch))
        c, k = np.array(BASELINES).T.copy()
        # sum_a min(c pi_a, k mu_a) for every (c, k), and sum_a (mu_a - pi_a)_+
        truncated_masses(pi, mu, c, k, masses, distance)
        weights = self.weights(batch, vectors.taken(pi))
        if batch.unit_starts is None and np.isfinite(weights.w).all():
            state = self._rows(weights.w, batch, masses, distance)
        else:
            state = self._any_rows(weights, batch, masses, distance)
        if self.bounded:
            sums, share = np.zeros(len(CAPS)), batch.sampled(np.ones(len(batch)))
            add_truncated_bets(pi, mu, weights.w, batch.reward, share, CAPS, CAPPED_BETS, sums)
            state = replace(state, truncated=sums)
        return state

    def _rows(self, w: Floats, batch: Batch, masses: Floats, distance: Floats) -> VariateState:
        """Return the sums of rows whose weights are finite."""
        rows, r = None, batch.reward
        if self.partition is not None:
            rows = self.partition.of(batch)
        earned, missed = w * r, 1.0 - r
        lost = w * missed
        played = w > 0.0
        won_rows = idle_rows = None
        if rows is not None:
            won_rows, idle_rows = rows.among(played), rows.among(~played)
        value, loss, gain = [], [], []
        if self.bounded:
            # Y = w R + 1 - R + (1 - w)_+ - sum_a (mu_a - pi_a)_+
            better = earned + missed + np.maximum(0.0, 1.0 - w) - distance
            gain.append(BetSums.of(np.maximum(0.0, better), rows))
        for i in self._baselines:
            c, k = BASELINES[i]
            # Y = w R + rest, rest = sum_a pi_a b_a + k - w b. In this order of operations rounding
            # cannot make it negative.
            rest = masses[i] + (k - np.minimum(c * w, k))
            # If w is 0, as in most rows for a policy that takes one of many actions, Y is the rest
            # for rewards and losses, and its logarithms are computed once.
            idle = BetSums.of(rest[~played], idle_rows)
            value.append(idle.merge(BetSums.of((earned + rest)[played], won_rows)))
            if not self.bounded:
                continue
            loss.append(idle.merge(BetSums.of((lost + rest)[played], won_rows)))
            if i in GAIN_BASELINES:
                gain.append(BetSums.of(earned + rest + missed, rows))
        return self._state(value, loss, gain)

    def _any_rows(
        self, weights: Weights, batch: Batch, masses: Floats, distance: Floats
    ) -> VariateState:
        """Return the sums of rows with weights beyond float64, or by unit."""
        r, missed = batch.reward, np.maximum(0.0, 1.0 - batch.reward)

        def bets(factor: Floats, rest: Floats) -> BetSums:
            return credit_bets(batch, weights, factor, rest, self.partition)

        value, loss, gain = [], [], []
        if self.bounded:
            # 1 - R + (1 - w)_+ - sum_a (mu_a - pi_a)_+; rounding must not make Y negative, and next
            # to a number beyond float64 what is below 0 is nothing
            earned = weights.times(r)
            least = np.where(np.isfinite(earned), -earned, 0.0)
            rest = np.maximum(missed + np.maximum(0.0, 1.0 - weights.w) - distance, least)
            gain.append(bets(r, rest))
        for i in self._baselines:
            c, k = BASELINES[i]
            # As in `_rows`; w b = k if w is beyond float64.
            rest = masses[i] + (k - np.minimum(c * weights.w, k))
            value.append(bets(r, rest))
            if not self.bounded:
                continue
            loss.append(bets(missed, rest))
            if i in GAIN_BASELINES:
                gain.append(bets(r, rest + missed))
        return self._state(value, loss, gain)

    def _state(
        self, value: list[BetSums], loss: list[BetSums], gain: list[BetSums]
    ) -> VariateState:
        """Return the state from the sums of each form; unbounded rewards have no losses."""
        if self.bounded:
            return VariateState(*stacked(value, loss, gain))
        empty = self.empty()
        bets, blocks = np.stack([x.bets for x in value]), np.stack([x.blocks for x in value])
        return replace(empty, value=bets, value_blocks=blocks)
