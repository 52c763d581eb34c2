"""Control variates from a reward model: bet sums with predicted baselines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.bets import BETS
from piwo.reductions.blocks import BetSums, Partition, no_blocks
from piwo.reductions.control_variate import stacked
from piwo.reductions.policy_reduction import credit_bets
from piwo.reductions.vector_sums import Vectors, VectorSums, width_of

__all__ = ["CUTS", "ModelState", "ModelVariates", "Predictor", "uncut"]

CUTS: tuple[float, ...] = (1.0, 4.0, 16.0)
"""k: the baseline is truncated at k / w."""


@runtime_checkable
class Predictor(Protocol):
    """Predicted rewards of a row, from earlier rows or other data, never from the row itself."""

    @property
    def needs_context(self) -> bool:
        """Whether it uses the context."""
        ...

    def of(self, batch: Batch) -> Floats:
        """Return q(X, a) on the unit scale, a table as those of `Vectors`."""
        ...


def _no_bets() -> Floats:
    return np.zeros((len(CUTS), len(BETS)))


@dataclass(frozen=True)
class ModelState(State):
    """Bet sums of the credits at every k, each (3, 48).

    >>> ModelState().loss.shape
    (3, 48)
    """

    value: Floats = field(default_factory=_no_bets)
    """Y = w (R - b(X, A)) + sum_a pi(a|X) b(X, a) + k with b = min(q, k / w), a row for each of
    `CUTS`."""
    loss: Floats = field(default_factory=_no_bets)
    """The same for 1 - R and 1 - q."""
    improvement: Floats = field(default_factory=_no_bets)
    """Y = that of the value, plus 1 - R."""
    value_blocks: Floats = field(default_factory=lambda: no_blocks(len(CUTS)))
    """(3, B, 2 + J) the same by block, see `piwo.reductions.blocks.BetSums`."""
    loss_blocks: Floats = field(default_factory=lambda: no_blocks(len(CUTS)))
    improvement_blocks: Floats = field(default_factory=lambda: no_blocks(len(CUTS)))


@dataclass(frozen=True)
class ModelVariates(VectorSums[ModelState]):
    """Reduction: bet sums of truncated doubly robust credits, with the baselines of a model.

    As `ControlVariates`, with predicted rewards in place of constants: the sum is
    sum_a min(pi(a|x) q(x, a), k mu(a|x)). Predictions q below 0 count as 0, and so do predicted
    losses 1 - q.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log.
        model: q.
        bounded: rewards have an upper end, so that losses 1 - R exist.
        partition: into blocks; None: without.

    Source: docs/theory.md, section "Control variates".

    >>> import piwo
    >>> from piwo.estimators.forward_model import ForwardModel
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 0], propensities=[[0.5, 0.5]] * 2, actions=["a", "b"]
    ... )
    >>> half = ForwardModel(np.full((1, 2, 1), 0.5))
    >>> state = piwo.reductions.reduce(
    ...     log, ModelVariates(piwo.policies.Constant("a", log.actions), half)
    ... )
    >>> [round(float(y), 12) for y in np.exp(state.value[0, 5:6])]  # k = 1: (1 + 2.5)(1 + 1.5)
    [8.75]
    """

    model: Predictor
    bounded: bool = True
    partition: Partition | None = None

    @property
    def context(self) -> bool:
        """Whether the policy or the model uses the context."""
        return self.policy.needs_context or self.model.needs_context

    def width(self, batch: Batch) -> int:
        """Return K, or the length of the longest list of eligible actions."""
        return width_of(batch, len(self.policy.actions))

    def empty(self) -> ModelState:
        """Return the state of no rows."""
        nothing = BetSums()
        if self.partition is not None:
            nothing = BetSums(blocks=np.zeros((self.partition.count, *no_blocks().shape[1:])))
        forms = [nothing] * len(CUTS)
        return ModelState(*stacked(forms, forms, forms))

    def block(self, batch: Batch) -> ModelState:
        """Return the sums of a few rows."""
        vectors = Vectors(batch)
        pi, mu, q = vectors.of(self.policy), vectors.mu, self.model.of(batch)
        taken = np.arange(len(batch)), vectors.column
        weights = self.weights(batch, pi[taken])
        r, missed = batch.reward, 1.0 - batch.reward

        def bets(factor: Floats, rest: Floats) -> BetSums:
            return credit_bets(batch, weights, factor, rest, self.partition)

        value, loss, gain = [], [], []
        rewards, losses = np.maximum(0.0, q), np.maximum(0.0, 1.0 - q)
        for k in CUTS:
            # Y = w R + rest, rest = sum_a min(pi_a q_a, k mu_a) + k - w b
            masses = np.minimum(pi * rewards, k * mu).sum(axis=1)
            rest = masses + uncut(weights.w, rewards[taken], k)
            value.append(bets(r, rest))
            if self.bounded:
                # the same with 1 - R and 1 - q
                masses = np.minimum(pi * losses, k * mu).sum(axis=1)
                loss.append(bets(missed, masses + uncut(weights.w, losses[taken], k)))
                gain.append(bets(r, rest + missed))
        if self.bounded:
            return ModelState(*stacked(value, loss, gain))
        bets_of, blocks = np.stack([x.bets for x in value]), np.stack([x.blocks for x in value])
        return replace(self.empty(), value=bets_of, value_blocks=blocks)


def uncut(w: Floats, q: Floats, k: float) -> Floats:
    """Return k - w b >= 0 for the logged actions; k if q is 0, even if w exceeds float64.

    Args:
        w: (n,) weights.
        q: (n,) the baseline before truncation: b = min(q, k / w).
        k: as in `CUTS`.

    >>> uncut(np.array([0.5, 9.0, np.inf]), np.array([1.0, 1.0, 0.0]), 4.0).tolist()
    [3.5, 0.0, 4.0]
    """
    with np.errstate(invalid="ignore"):
        product = np.where(q > 0.0, w * q, 0.0)
    return np.asarray(k - np.minimum(product, k))
