"""Credits of many policies under many scores, in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import row_blocks
from piwo.policies.policy import Policy
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import vectors_of
from piwo.scores.score import Score

__all__ = ["CreditState", "CreditSums"]

_DENSE_BYTES = 2**23


@dataclass(frozen=True)
class CreditState(State):
    """Rows, and the (S, N) sums of credits."""

    rows: float
    credit: Floats


@dataclass(frozen=True)
class CreditSums(Reduction[CreditState]):
    """Reduction: sum_t rho_s(pi_i; t) for S scores and N policies.

    For scores that credit actions that were not taken, rho = sum_a pi(a|x) G[t, a]; these gains are
    computed for small blocks of rows.

    Args:
        policies: N, over the log's action list.
        scores: S, with numeric hyper-parameters.
        losses: credit 1 - R in place of R.
    """

    policies: tuple[Policy, ...]
    scores: tuple[Score, ...]
    losses: bool = False

    @property
    def context(self) -> bool:
        """Whether any policy, or the reward model of any score, uses the context."""
        looking = any(policy.needs_context for policy in self.policies)
        return looking or any(score.needs_context for score in self.scores)

    @property
    def propensities(self) -> bool:
        """Whether any score needs full propensity vectors."""
        return bool(self._dense)

    @property
    def _dense(self) -> list[Score]:
        return [score for score in self.scores if score.dense_weight != 0.0]

    def empty(self) -> CreditState:
        """Return the state of no rows."""
        return CreditState(0.0, np.zeros((len(self.scores), len(self.policies))))

    def update(self, state: CreditState, batch: Batch) -> CreditState:
        """Return the sums with a batch added."""
        if self.losses:
            batch = batch.losses()
        linear = [s for s, score in enumerate(self.scores) if score.linear]
        others = [s for s, score in enumerate(self.scores) if not score.linear]
        gains = None
        if linear:
            # G, (n, S): sum_t rho_s(pi; t) = sum_t pi(A_t|X_t) G[t, s]
            columns = [batch.sampled(self.scores[s].gains(batch)) for s in linear]
            gains = np.stack(columns, axis=1)
        credit = np.empty_like(state.credit)
        for i, policy in enumerate(self.policies):
            pi = policy.logged(batch)
            if gains is not None:
                credit[linear, i] = _product(pi, gains)
            for s in others:
                credit[s, i] = float(batch.sampled(self.scores[s].rho(batch, pi)).sum())
        if self._dense:
            actions = vectors_of(batch, self._dense[0].label).shape[1]
            for block in row_blocks(len(batch), actions, size=_DENSE_BYTES):
                self._add_dense(credit, batch.take(block))
        rows = float(batch.sampled(np.ones(len(batch))).sum())
        return state.merge(CreditState(rows, credit))

    def _add_dense(self, credit: Floats, block: Batch) -> None:
        """Add the credits of the dense gains of a block."""
        tables = []
        for s, score in enumerate(self.scores):
            if score.dense_weight != 0.0:
                table = score.dense_weight * score.dense_gains(block).table
                tables.append((s, block.sampled(table)))
        for i, policy in enumerate(self.policies):
            pi = policy.full(block)
            for s, table in tables:
                credit[s, i] += _played(pi, table)


def _played(pi: Floats, gains: Floats) -> float:
    """Return sum pi G with 0 times infinity = 0: an action with probability 0 earns nothing."""
    with np.errstate(invalid="ignore"):
        total = float(np.vdot(pi, gains))
        if np.isnan(total):
            total = float(np.multiply(pi, gains, out=np.zeros_like(pi), where=pi > 0).sum())
        return total


def _product(pi: Floats, gains: Floats) -> Floats:
    """Return pi' G, (S,), with 0 times infinity = 0: see `_played`."""
    with np.errstate(invalid="ignore"):
        found = np.asarray(pi @ gains, np.float64)
        if np.isnan(found).any():
            found = np.where(pi[:, None] > 0, pi[:, None] * gains, 0.0).sum(axis=0)
    return found
