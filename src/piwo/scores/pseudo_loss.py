"""PseudoLoss (PIWO-PL): importance weighting minus a penalty on inverse propensities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import over_propensity, vectors_of
from piwo.scores.score import DenseGains, Parameter, Score
from piwo.sources.row_labels import place

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
        # R / mu
        gains = over_propensity(batch.reward, batch)[:, None]
        return np.repeat(gains, len(parameters), axis=1)

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return the importance-weighted part pi R / mu, (n,), without the penalty."""
        return over_propensity(pi * batch.reward, batch)

    def dense_gains(self, batch: Batch) -> DenseGains:
        """Return 1 / mu(a | X_t), (n, K), scaled so that propensities of 1e-400 do not overflow.

        Raises:
            UsageError: if the log has no full vectors, or one of them gives an action probability
                0.
        """
        logs = _log_propensities(batch)
        least = logs.min(axis=0, initial=0.0)
        if not np.isfinite(least).all():
            _refuse_zero(batch, ~np.isfinite(logs))
        # 1 / mu = exp(-log mu) = exp(-log mu - scale) exp(scale)
        scale = -least
        values = np.subtract(least, logs)
        return DenseGains(np.exp(values, out=values), scale)

    @property
    def dense_weight(self) -> float:
        """-beta."""
        return -self.number


def _log_propensities(batch: Batch) -> Floats:
    """Return log mu(a | X_t) for every action, (n, K), as the log has it or from the vectors."""
    if batch.log_propensities is not None:
        return batch.log_propensities
    # The logarithm of 0 is refused by its row.
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(vectors_of(batch, "PIWO-PL")))


def _refuse_zero(batch: Batch, zero: npt.NDArray[np.bool_]) -> None:
    rows, actions = np.nonzero(zero)
    where = place(int(batch.row_numbers[rows[0]]))
    raise UsageError(
        f"PIWO-PL needs a positive propensity for every action, {where} gives action code "
        f"{int(actions[0])} probability 0; use IX, which does not need that"
    )
