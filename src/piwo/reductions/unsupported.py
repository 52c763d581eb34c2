"""The probability that a policy gives to actions that the logger could not take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.logs.batch import Batch
from piwo.reductions.action_mass import MassState
from piwo.reductions.vector_sums import VectorSums

__all__ = ["UnsupportedMass"]


@dataclass(frozen=True)
class UnsupportedMass(VectorSums[MassState]):
    """Reduction: sum_t sum_a pi(a | X_t) 1{mu(a | X_t) = 0}: what no log of this logger can show.

    If actions change from row to row, sums over a are over the eligible ones of the row.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"],
    ...     reward=[1, 0],
    ...     propensities=[[1.0, 0.0], [0.5, 0.5]],
    ...     actions=["a", "b"],
    ... )
    >>> policy = piwo.policies.Constant("b", log.actions)
    >>> piwo.reductions.reduce(log, UnsupportedMass(policy)).mean
    0.5
    """

    def empty(self) -> MassState:
        """Return the state of no rows."""
        return MassState()

    def block(self, batch: Batch) -> MassState:
        """Return the sums of a few rows."""
        rows = float(batch.sampled(np.ones(len(batch))).sum())
        if batch.eligible is not None:
            return MassState(rows, self._of_pairs(batch))
        assert batch.propensities is not None
        if batch.log_propensities is None and batch.propensities.min(initial=1.0) > 0.0:
            return MassState(rows, 0.0)
        impossible = np.asarray(batch.propensities == 0.0)
        if batch.log_propensities is not None:
            # a probability that underflows is not 0
            impossible = np.isneginf(batch.log_propensities)
        some = np.flatnonzero(np.any(impossible, axis=1))
        if not len(some):
            return MassState(rows, 0.0)
        # sum_a pi(a | X_t) 1{mu(a | X_t) = 0}
        mass = np.zeros(len(batch))
        mass[some] = np.where(impossible[some], self.policy.full(batch)[some], 0.0).sum(axis=1)
        return MassState(rows, float(batch.sampled(mass).sum()))

    def _of_pairs(self, batch: Batch) -> float:
        """Return the mass over the eligible actions of some rows."""
        some = batch.eligible
        assert some is not None
        assert some.propensities is not None
        impossible = np.flatnonzero(some.propensities == 0.0)
        if not len(impossible):
            return 0.0
        # sum_a pi(a | X_t) 1{mu(a | X_t) = 0}, a eligible in row t
        lost = self.policy.pairs(batch)[impossible]
        mass = np.zeros(len(batch))
        mass += np.bincount(some.rows[impossible], lost, minlength=len(batch))
        return float(batch.sampled(mass).sum())
