"""PseudoLoss: importance weighting minus a multiple of the inverse propensity of every action (PIWO-PL)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.logs.row_labels import place
from piwo.scores.ratio import over_propensity, vectors_of
from piwo.scores.score import DenseGains, Parameter, Score

__all__ = ["PseudoLoss"]


@dataclass(frozen=True)
class PseudoLoss(Score):
    """Pseudo-loss gains: G[t, a] = 1{a = A_t} R_t / mu(A_t|X_t) - beta / mu(a|X_t).

    For comparison: the penalty needs every action to have positive propensity everywhere, and full
    propensity vectors in the log. `gains` is the sparse part; the dense part is 1 / mu(a|x), and
    -beta its weight.

    Source: Wang, Krishnamurthy, Slivkins 2023 (arXiv 2306.07923); Gabbianelli, Neu, Papini 2024,
    Section 3, with the 1/n that is missing there.

    Args:
        beta: the weight of the penalty, at least 0; the theory's choice is sqrt(log(|Pi|/delta) /
            n).

    >>> import numpy as np
    >>> batch = Batch(
    ...     0,
    ...     np.zeros(1, np.int32),
    ...     np.ones(1),
    ...     np.array([0.5]),
    ...     propensities=np.array([[0.5, 0.5]]),
    ... )
    >>> PseudoLoss(0.1).dense_gains(batch).table.tolist(), PseudoLoss(0.1).dense_weight
    ([[2.0, 2.0]], -0.1)
    """

    beta: Parameter = "auto"
    name: ClassVar[str] = "pl"
    label: ClassVar[str] = "PL"
    parameter: ClassVar[str | None] = "beta"
    penalized: ClassVar[bool] = True
    dense: ClassVar[bool] = True

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return the sparse part R / mu, (n, S), which does not depend on beta."""
        return np.repeat(over_propensity(batch.reward, batch)[:, None], len(parameters), axis=1)

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return the importance-weighted part pi R / mu, (n,); the penalty needs the whole policy."""
        return over_propensity(pi * batch.reward, batch)

    def dense_gains(self, batch: Batch) -> DenseGains:
        """Return 1 / mu(a | X_t), (n, K), in units in which propensities of 1e-400 are numbers like any other.

        Raises:
            UsageError: where the log has no full vectors, or one of them has an action of
                probability 0.
        """
        logs = _log_inverse_propensities(batch)
        scale = logs.max(axis=0, initial=0.0)
        return DenseGains(np.exp(logs - scale), scale)

    @property
    def dense_weight(self) -> float:
        """-beta."""
        return -self.number


def _log_inverse_propensities(batch: Batch) -> Floats:
    """Return -log mu(a | X_t) for every action, (n, K), from the logarithms where the log has them."""
    if batch.log_propensities is None:
        return np.asarray(-np.log(_positive_vectors(batch)))
    _refuse_zeros(batch, ~np.isfinite(batch.log_propensities))
    return np.negative(batch.log_propensities)


def _positive_vectors(batch: Batch) -> Floats:
    vectors = vectors_of(batch, "PIWO-PL")
    _refuse_zeros(batch, vectors <= 0)
    return vectors


def _refuse_zeros(batch: Batch, zero: npt.NDArray[np.bool_]) -> None:
    if zero.any():
        row, action = (int(x[0]) for x in np.nonzero(zero))
        where = place(int(batch.row_numbers[row]))
        raise UsageError(
            f"PIWO-PL needs positive propensity for every action, {where} gives action code "
            f"{action} probability 0; use IX, which needs no such thing"
        )
