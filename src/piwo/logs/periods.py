"""Periods: the rows of a log by the time of the decision, for results over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.logs.actions import is_text
from piwo.logs.position_ranges import PositionRanges
from piwo.logs.segments import Segments

__all__ = ["Periods", "Splitting", "is_day", "positions"]

_SECONDS = 86_400
MOST_PERIODS = 31


@dataclass(frozen=True)
class Periods:
    """Even periods of time, which batches say their rows are in, as of `Segments`.

    >>> Periods("day", 0.0, 1.0, 3, dates=True).labels
    ('1970-01-01', '1970-01-02', '1970-01-03')
    """

    column: str
    start: float
    """The first time: a day since 1970, or a number of the column."""
    width: float
    """How many days, or numbers, a period has."""
    count: int
    dates: bool
    """Whether times are days."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Where each period begins."""
        return tuple(self._label(self.start + i * self.width) for i in range(self.count))

    @property
    def each(self) -> str:
        """How long a period is, in words."""
        if not self.dates:
            return f"{self.width:.4g} of {self.column!r}"
        if self.width == 1.0:
            return "day"
        return f"{self.width:.0f} days"

    def codes(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """Return the number of each row's period, (n,); times outside are in the nearest one."""
        places = np.floor((positions(values) - self.start) / self.width)
        return np.clip(places, 0, self.count - 1).astype(np.int32)

    def _label(self, at: float) -> str:
        if self.dates:
            return (date(1970, 1, 1) + timedelta(days=math.floor(at))).isoformat()
        return f"{at:.6g}"

    @classmethod
    def within(cls, column: str, first: float, last: float, dates: bool) -> Periods | None:
        """Return periods between two times; None if there is only one.

        Args:
            column: of the times.
            first: the first of them.
            last: the last of them.
            dates: whether they are days since 1970.

        >>> Periods.within("day", 5.0, 70.5, dates=True).width
        3.0
        """
        if not 0.0 < last - first < math.inf:
            return None
        if not dates:
            return cls(column, first, (last - first) / 20.0, 20, dates=False)
        first, days = math.floor(first), math.floor(last) - math.floor(first) + 1
        if days < 2:
            return None
        width = math.ceil(days / MOST_PERIODS)
        return cls(column, float(first), float(width), math.ceil(days / width), dates=True)


Splitting: TypeAlias = Segments | Periods | PositionRanges
"""What numbers the parts of a log that batches say their rows are in."""


def positions(values: pa.Array) -> npt.NDArray[np.float64]:
    """Return times as days since 1970, numbers as they are, (n,).

    >>> positions(pa.array([date(1970, 1, 3)])).tolist(), positions(pa.array([7])).tolist()
    ([2.0], [7.0])
    """
    if is_day(values.type):
        seconds = values.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
        return np.asarray(seconds.to_numpy(zero_copy_only=False), np.float64) / _SECONDS
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def is_day(kind: pa.DataType) -> bool:
    """Whether times of a type have a date.

    >>> is_day(pa.date32()), is_day(pa.int64())
    (True, False)
    """
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or is_text(kind))
