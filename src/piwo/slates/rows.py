"""Rows of a slate log, validated: the only input of the sums over slates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible

__all__ = ["Codes", "SlateRows"]

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class SlateRows:
    """n slates of at most L slots; what is beyond the end of a slate is masked.

    >>> rows = SlateRows(
    ...     np.arange(1), np.array([1]), np.array([[2, -1]], np.int32), np.ones((1, 2))
    ... )
    >>> rows.mask.tolist()
    [[True, False]]
    """

    rows: npt.NDArray[np.int64]
    """(n,) row numbers in the log."""
    lengths: npt.NDArray[np.int64]
    """(n,) the number of slots of each slate, at least 1."""
    action: Codes
    """(n, L) codes of the shown actions; -1 beyond the end."""
    reward: Floats
    """(n, L) rewards of the slots over the largest, 0 beyond the end; or (n, 1) of the slate."""
    numbers: Mapping[str, Floats] | None = None
    """Column -> probabilities: (n, L) by slot, 1 beyond the end; (n,) of slates."""
    slates: Mapping[str, Codes] | None = None
    """Column -> (n, L) codes of other slates; -1 beyond the end."""
    user_behavior: Codes | None = None
    """(n,) places in `piwo.slates.USER_BEHAVIORS`."""
    context: Mapping[str, pa.Array] | None = None
    """The context columns as read."""
    units: npt.NDArray[np.int64] | None = None
    """(n,) numbers of units, if rows are read by unit; rows of a unit are neighbors."""
    weight: Floats | None = None
    """(n,) sampling weights."""
    eligible: Eligible | None = None
    """The actions that could be shown in each row, in any slot; None: all."""
    by_slot: bool = False
    """Whether `eligible` has a list for each slot: n L lists, those of a row one after the other,
    which are empty beyond the end of its slate."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def slots(self) -> int:
        """The number L of slots of the table."""
        return int(self.action.shape[1])

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """(n, L) whether a slate has this slot."""
        return np.arange(self.slots) < self.lengths[:, None]

    def could(self, slot: int) -> Eligible:
        """Return the actions that could be shown in a slot; there are lists of eligible actions."""
        assert self.eligible is not None
        return self._lists[slot] if self.by_slot else self.eligible

    @cached_property
    def _lists(self) -> list[Eligible]:
        """The lists of each slot."""
        assert self.eligible is not None
        return [self.eligible.take(slice(x, None, self.slots)) for x in range(self.slots)]

    @cached_property
    def observations(self) -> Batch:
        """The rows as independent observations: rows, units, or rows with sampling weights."""
        ones = np.ones(len(self))
        # of the rows, sums need the numbers, the units and the weights alone
        first = int(self.rows[0]) if len(self) else 0
        batch = Batch(first, np.empty(0, np.int32), ones, ones, rows=self.rows, weight=self.weight)
        if self.units is not None:
            batch = batch.of_units(self.units)
        return batch

    def take(self, keep: npt.NDArray[np.bool_]) -> SlateRows:
        """Return the rows of a mask."""
        kept: dict[str, Any] = {}
        for name in ("rows", "lengths", "action", "reward", "user_behavior", "units", "weight"):
            value = getattr(self, name)
            kept[name] = None if value is None else value[keep]
        for name in ("numbers", "slates"):
            columns = getattr(self, name) or {}
            kept[name] = {column: values[keep] for column, values in columns.items()}
        chosen = pa.array(keep)
        if self.eligible is not None:
            kept["eligible"] = self.eligible.take(
                np.repeat(keep, self.slots) if self.by_slot else keep
            )
        kept["context"] = {x: y.filter(chosen) for x, y in (self.context or {}).items()}
        return replace(self, **kept)
