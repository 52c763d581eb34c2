"""One batch of a log: validated arrays, the only input of the statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Batch", "Floats"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Batch:
    """n rows of a log, validated by `piwo.logs.validation`; its users do not check it again.

    Rewards are on the unit scale: (R - lo) / (hi - lo) for a declared range [lo, hi], R - lo where
    hi is infinite. Actions are codes 0..K-1. A field is None if the log has no such column.
    `propensity` may be 0 (underflow) only if `log_propensity` is given.

    >>> rows = Batch(10, np.array([0, 1], np.int32), np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    >>> rows.take(np.array([False, True])).row_numbers.tolist()
    [11]
    """

    start: int
    """Row number of the first row in the log."""
    action: npt.NDArray[np.int32]
    """(n,) action codes; empty if nothing asked for them (`Reduction.labels`)."""
    reward: Floats
    """(n,) rewards on the unit scale."""
    propensity: Floats
    """(n,) mu(A_t | X_t), the behavior policy's probability of the logged action."""
    log_propensity: Floats | None = None
    """(n,) log mu(A_t | X_t), for propensities that underflow."""
    propensities: Floats | None = None
    """(n, K) mu(a | X_t), the full vector."""
    log_propensities: Floats | None = None
    """(n, K) log mu(a | X_t), if the behavior policy gives logarithms."""
    context: Floats | None = None
    """(n, d) encoded context."""
    weight: Floats | None = None
    """(n,) sampling weight s_t of a thinned log: one over the rate at which the row was kept."""
    policies: Mapping[str, Floats] = field(default_factory=dict)
    """Target-policy columns by name: (n,) pi(A_t | X_t)."""
    rows: npt.NDArray[np.int64] | None = None
    """(n,) row numbers in the log if rows were left out (a split); None: start, start + 1, ..."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def row_numbers(self) -> npt.NDArray[np.int64]:
        """The (n,) row numbers in the log."""
        if self.rows is not None:
            return self.rows
        return np.arange(self.start, self.start + len(self))

    def sampled(self, values: Floats) -> Floats:
        """Return values, (n,) or (n, S), times the sampling weights of their rows."""
        if self.weight is None:
            return values
        # Weights are by row; other axes of the values get axes of length 1.
        return values * self.weight.reshape(-1, *([1] * (values.ndim - 1)))

    def losses(self) -> Batch:
        """Return the rows with 1 - R in place of R: lower bounds on losses bound R from above."""
        return replace(self, reward=1.0 - self.reward)

    def with_reward(self, reward: Floats) -> Batch:
        """Return the same rows with other rewards, (n,) on the unit scale."""
        return replace(self, reward=reward)

    def take(self, keep: npt.NDArray[Any] | slice) -> Batch:
        """Return the rows of a mask, an index array or a slice, with their row numbers."""
        kept: dict[str, Any] = {}
        if isinstance(keep, slice) and self.rows is None:
            kept["start"] = self.start + (keep.start or 0)
        else:
            kept["rows"] = self.row_numbers[keep]
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, np.ndarray) or item.name == "rows":
                continue
            # The action codes are empty if they were not asked for.
            if len(value) or not len(self):
                kept[item.name] = value[keep]
        policies: dict[str, Floats] = {}
        for name, column in self.policies.items():
            policies[name] = column[keep]
        kept["policies"] = policies
        return replace(self, **kept)
