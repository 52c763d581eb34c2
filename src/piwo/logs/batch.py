"""One batch of a log: validated arrays, the only input of the statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.logs.eligible import Eligible

__all__ = ["Batch", "Floats", "unit_slices"]

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
    eligible: Eligible | None = None
    """The actions that could be taken in each row; None: all."""
    log_propensities: Floats | None = None
    """(n, K) log mu(a | X_t), if the behavior policy gives logarithms."""
    context: Floats | None = None
    """(n, d) encoded context."""
    weight: Floats | None = None
    """(n,) sampling weight s_t of a thinned log: one over the rate at which the row was kept."""
    policies: Mapping[str, Floats] = field(default_factory=dict)
    """Target-policy columns by name: (n,) pi(A_t | X_t)."""
    unit_starts: npt.NDArray[np.int64] | None = None
    """(u,) the first row of each unit, if rows are read by unit; `weight` is then one over the
    number of rows of a row's unit. Empty if rows of units were left out."""
    rows: npt.NDArray[np.int64] | None = None
    """(n,) row numbers in the log if rows were left out (a split); None: start, start + 1, ..."""
    keys: npt.NDArray[np.int64] | None = None
    """(n,) numbers of the values of the key column, or of units, if they were asked for."""
    times: npt.NDArray[np.int64] | None = None
    """(n,) numbers of the values of the time column, in its order, if they were asked for."""
    segments: npt.NDArray[np.int32] | None = None
    """(n,) the place of each row's segment in `Schema.segments`, if results are split by one."""
    blocks: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Kept by `piwo.reductions.blocks`: the blocks of the rows."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def row_numbers(self) -> npt.NDArray[np.int64]:
        """The (n,) row numbers in the log."""
        if self.rows is not None:
            return self.rows
        return np.arange(self.start, self.start + len(self))

    @property
    def count(self) -> int:
        """The number of independent observations: units if rows are read by unit, else rows."""
        if self.unit_starts is None:
            return len(self)
        return len(self.unit_starts)

    def of_units(self, numbers: npt.NDArray[np.int64]) -> Batch:
        """Return the rows as those of whole units.

        Args:
            numbers: (n,) the number of each row's unit; rows of a unit are neighbors.
        """
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] + 1))
        sizes = np.diff(np.append(starts, len(numbers)))
        weight = np.repeat(1.0 / sizes, sizes)
        return replace(self, unit_starts=starts, weight=weight, keys=numbers)

    def by_unit(self, values: Floats) -> Floats:
        """Return the mean of values, (n,) or (n, S), over the rows of each unit, (u,) or (u, S).

        Without units, the values themselves.

        >>> rows = Batch(0, np.zeros(3, np.int32), np.array([1.0, 0.0, 1.0]), np.ones(3))
        >>> rows.of_units(np.array([7, 7, 8])).by_unit(rows.reward).tolist()
        [0.5, 1.0]
        """
        if self.unit_starts is None:
            return values
        assert len(self.unit_starts) or not len(values), "rows of units were left out"
        sizes = np.diff(np.append(self.unit_starts, len(values)))
        # The sum of numbers up to 1.8e308 may be infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.add.reduceat(values, self.unit_starts, axis=0)
            means: Floats = (sums.T / sizes).T
        return means

    def observed(self, values: Floats) -> Floats:
        """Return values, (n,) or (n, S), as independent observations: means by unit, or s times.

        Their sum is that of `sampled`; squares differ.
        """
        if self.unit_starts is not None:
            return self.by_unit(values)
        return self.sampled(values)

    def sampled(self, values: Floats) -> Floats:
        """Return values, (n,) or (n, S), times the sampling weights of their rows.

        By unit, each row weighs one over the number of its unit's rows.
        """
        if self.weight is None:
            return values
        # Weights are by row; other axes of the values get axes of length 1.
        return values * self.weight.reshape(-1, *([1] * (values.ndim - 1)))

    @property
    def thinned(self) -> Floats | None:
        """(n,) the sampling weights s of a thinned log; None for other logs."""
        if self.unit_starts is not None:
            return None
        return self.weight

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
            if not isinstance(value, np.ndarray) or item.name in ("rows", "unit_starts"):
                continue
            # The action codes are empty if they were not asked for.
            if len(value) or not len(self):
                kept[item.name] = value[keep]
        if self.eligible is not None:
            kept["eligible"] = self.eligible.take(keep)
        policies: dict[str, Floats] = {}
        for name, column in self.policies.items():
            policies[name] = column[keep]
        kept["policies"] = policies
        if self.unit_starts is not None:
            kept["unit_starts"] = self._starts_within(keep)
        return replace(self, **kept)

    def _starts_within(self, keep: npt.NDArray[Any] | slice) -> npt.NDArray[np.int64]:
        """Return the first rows of the units of a slice; none unless it holds whole units."""
        assert self.unit_starts is not None
        if isinstance(keep, slice):
            first, last, _ = keep.indices(len(self))
            begin, end = np.searchsorted(self.unit_starts, [first, last])
            bounds = np.append(self.unit_starts, len(self))
            if first < last and bounds[begin] == first and bounds[end] == last:
                return self.unit_starts[begin:end] - first
        return self.unit_starts[:0]

    def slices(self, most: int) -> Iterator[slice]:
        """Yield slices of about so many rows; of whole units, if rows are read by unit."""
        if self.unit_starts is not None:
            yield from unit_slices(np.append(self.unit_starts[1:], len(self)), most)
            return
        for start in range(0, len(self), most):
            yield slice(start, min(start + most, len(self)))


def unit_slices(ends: npt.NDArray[np.int64], most: int) -> Iterator[slice]:
    """Yield slices of whole units with at most so many rows; a larger unit is a slice by itself.

    Args:
        ends: (u,) one past the last row of each unit.
        most: rows of a slice.

    >>> [(x.start, x.stop) for x in unit_slices(np.array([2, 3, 9, 10]), 4)]
    [(0, 3), (3, 9), (9, 10)]
    """
    at, last = 0, int(ends[-1])
    while at < last:
        # The last end within reach, or that of the unit that begins here.
        within = int(np.searchsorted(ends, at + most, side="right")) - 1
        here = int(np.searchsorted(ends, at, side="right"))
        end = int(ends[max(within, here)])
        yield slice(at, end)
        at = end
