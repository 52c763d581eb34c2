"""Control variates: bet sums of truncated doubly robust credits, for several baselines."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.bets import BETS, bet_sums
from piwo.reductions.policy_reduction import credit_bets
from piwo.reductions.vector_sums import VectorSums
from piwo.scores.ratio import Weights

__all__ = ["BASELINES", "GAIN_BASELINES", "ControlVariates", "VariateState"]

BASELINES: tuple[tuple[float, float], ...] = tuple(
    product((0.25, 0.5, 0.75, 1.0), (1.0, 4.0, 16.0))
)
"""(c, k): the baseline b(x, a) = min(c, k / w(x, a)), so that w b <= k. c = 0 is plain w R."""
GAIN_BASELINES: tuple[int, ...] = tuple(i for i, (c, _) in enumerate(BASELINES) if c in (0.5, 1.0))
"""Positions of those with bets on the improvement over the logging policy."""


def _no_bets(quantities: int) -> Floats:
    return np.zeros((quantities, len(BETS)))


@dataclass(frozen=True)
class VariateState(State):
    """Bet sums of the credits for all baselines, each (C, 48).

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


@dataclass(frozen=True)
class ControlVariates(VectorSums[VariateState]):
    """Reduction: bet sums of truncated doubly robust credits, for the baselines `BASELINES`.

    Each action is truncated by its own weight, inside the sum too:

        sum_a pi(a|x) b(x, a) = sum_a min(c pi(a|x), k mu(a|x)),

    whose terms are 0 if mu or pi is. Tables of rows x actions are made for small blocks of rows.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log.
        bounded: rewards have an upper end, so that losses 1 - R exist.

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

    def empty(self) -> VariateState:
        """Return the state of no rows."""
        return VariateState()

    def block(self, batch: Batch) -> VariateState:
        """Return the sums of a few rows."""
        from piwo.reductions.kernels import truncated_masses

        assert batch.propensities is not None
        pi = np.ascontiguousarray(self.policy.full(batch), np.float64)
        mu = np.ascontiguousarray(batch.propensities, np.float64)
        masses, distance = np.zeros((len(BASELINES), len(batch))), np.zeros(len(batch))
        c, k = np.array(BASELINES).T.copy()
        # sum_a min(c pi_a, k mu_a) for every (c, k), and sum_a (mu_a - pi_a)_+
        truncated_masses(pi, mu, c, k, masses, distance)
        weights = self.weights(batch, pi[np.arange(len(batch)), batch.action])
        if batch.unit_starts is None and np.isfinite(weights.w).all():
            return self._rows(weights.w, batch.reward, masses, distance)
        return self._any_rows(weights, batch, masses, distance)

    def _rows(self, w: Floats, r: Floats, masses: Floats, distance: Floats) -> VariateState:
        """Return the sums of rows whose weights are finite."""
        from piwo.reductions.kernels import add_both_sides

        state = VariateState()
        earned, missed = w * r, 1.0 - r
        for i, (c, k) in enumerate(BASELINES):
            # Y = w R + rest, rest = sum_a pi_a b_a + k - w b. In this order of operations rounding
            # cannot make it negative.
            rest = masses[i] + (k - np.minimum(c * w, k))
            if not self.bounded:
                state.value[i] = bet_sums(earned + rest)
                continue
            add_both_sides(w, r, rest, BETS, state.value[i], state.loss[i])
            if i in GAIN_BASELINES:
                state.improvement[1 + GAIN_BASELINES.index(i)] = bet_sums(earned + rest + missed)
        if self.bounded:
            # Y = w R + 1 - R + (1 - w)_+ - sum_a (mu_a - pi_a)_+
            better = earned + missed + np.maximum(0.0, 1.0 - w) - distance
            state.improvement[0] = bet_sums(np.maximum(0.0, better))
        return state

    def _any_rows(
        self, weights: Weights, batch: Batch, masses: Floats, distance: Floats
    ) -> VariateState:
        """Return the sums of rows with weights beyond float64, or by unit."""
        state, r, missed = VariateState(), batch.reward, np.maximum(0.0, 1.0 - batch.reward)
        for i, (c, k) in enumerate(BASELINES):
            # As in `_rows`; w b = k if w is beyond float64.
            rest = masses[i] + (k - np.minimum(c * weights.w, k))
            state.value[i] = credit_bets(batch, weights, r, rest)
            if not self.bounded:
                continue
            state.loss[i] = credit_bets(batch, weights, missed, rest)
            if i in GAIN_BASELINES:
                gain = credit_bets(batch, weights, r, rest + missed)
                state.improvement[1 + GAIN_BASELINES.index(i)] = gain
        if self.bounded:
            # 1 - R + (1 - w)_+ - sum_a (mu_a - pi_a)_+; rounding must not make Y negative, and next
            # to a number beyond float64 what is below 0 is nothing
            earned = weights.times(r)
            least = np.where(np.isfinite(earned), -earned, 0.0)
            rest = np.maximum(missed + np.maximum(0.0, 1.0 - weights.w) - distance, least)
            state.improvement[0] = credit_bets(batch, weights, r, rest)
        return state
