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

    For scores that credit actions not taken, rho = sum_a pi(a|x) G[t, a]; their gains are formed in
    small blocks.

    Args:
        policies: N, over the log's action list.
        scores: S, with numbers for hyper-parameters.
        losses: credit 1 - R in place of R.
    """

    policies: tuple[Policy, ...]
    scores: tuple[Score, ...]
    losses: bool = False

    @property
    def context(self) -> bool:
        """Whether any policy, or the reward model of any score, looks at the context."""
        return any(p.needs_context for p in self.policies) or any(
            s.needs_context for s in self.scores
        )

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
        batch = batch.losses() if self.losses else batch
        linear = [s for s, score in enumerate(self.scores) if score.linear]
        others = [s for s, score in enumerate(self.scores) if not score.linear]
        # (n, S): the credits of a policy are one product with it
        gains = (
            np.stack([batch.sampled(self.scores[s].gains(batch)) for s in linear], axis=1)
            if linear
            else None
        )
        credit = np.empty_like(state.credit)
        for i, policy in enumerate(self.policies):
            pi = policy.logged(batch)
            if gains is not None:
                credit[linear, i] = _product(pi, gains)
            for s in others:
                credit[s, i] = float(batch.sampled(self.scores[s].rho(batch, pi)).sum())
        for score in self._dense[:1]:
            for block in row_blocks(
                len(batch), vectors_of(batch, score.label).shape[1], size=_DENSE_BYTES
            ):
                self._add_dense(credit, batch.take(block))
        return state.merge(CreditState(float(batch.sampled(np.ones(len(batch))).sum()), credit))

    def _add_dense(self, credit: Floats, block: Batch) -> None:
        """Add what policies get for the dense gains of a block."""
        dense = [(s, score) for s, score in enumerate(self.scores) if score.dense_weight != 0.0]
        tables = [
            (s, block.sampled(score.dense_weight * score.dense_gains(block).table))
            for s, score in dense
        ]
        for i, policy in enumerate(self.policies):
            pi = policy.full(block)
            for s, table in tables:
                credit[s, i] += _played(pi, table)


def _played(pi: Floats, gains: Floats) -> float:
    """Return sum pi G, where an action that is not played earns nothing, were its gain infinite."""
    with np.errstate(invalid="ignore"):
        total = float(np.vdot(pi, gains))
        return (
            float(np.multiply(pi, gains, out=np.zeros_like(pi), where=pi > 0).sum())
            if np.isnan(total)
            else total
        )


def _product(pi: Floats, gains: Floats) -> Floats:
    """Return pi' G, (S,), where 0 times infinity is 0: a policy that does not play an action earns nothing by it."""
    with np.errstate(invalid="ignore"):
        found = np.asarray(pi @ gains, np.float64)
        if np.isnan(found).any():
            found = np.where(pi[:, None] > 0, pi[:, None] * gains, 0.0).sum(axis=0)
    return found
