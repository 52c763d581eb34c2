"""The order of decisions, if a column states it: where the last rows begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.engines.engine import fold
from piwo.engines.state import State, largest
from piwo.engines.task import Task
from piwo.errors import DataError
from piwo.logs.hashing import scramble
from piwo.logs.periods import is_day, positions
from piwo.logs.reader import Reader
from piwo.logs.validation import Schema
from piwo.sources.source import Fragment, Source

__all__ = ["FindTimeRange", "SampleTimes", "TimeRange", "TimeSample", "start_of_tail", "stretches"]

_SAMPLED = 2**14
"""Times that are kept, a random sample: a share of the rows is met to about a hundredth."""
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TimeSample(State):
    """The times of the rows with the smallest hashes of their numbers.

    >>> TimeSample(np.zeros(2, np.uint64), np.array([5, 7])).cut(0.5)
    7
    """

    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    times: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    def merge(self, other: TimeSample) -> TimeSample:
        """Return the sample of both parts."""
        return _smallest(
            np.concatenate([self.hashes, other.hashes]), np.concatenate([self.times, other.times])
        )

    def cut(self, holdout: float) -> int:
        """Return the time from which on about this share of the rows come.

        Raises:
            DataError: without rows.
        """
        if not len(self.times):
            raise DataError("the log has no rows, expected at least one logged decision")
        place = int(np.floor((1.0 - holdout) * len(self.times)))
        ordered = np.sort(self.times)
        return int(ordered[min(place, len(ordered) - 1)])


def _smallest(hashes: npt.NDArray[np.uint64], times: Numbers) -> TimeSample:
    order = np.argsort(hashes, kind="stable")[:_SAMPLED]
    return TimeSample(hashes[order], times[order])


@dataclass(frozen=True)
class SampleTimes(Task[TimeSample]):
    """Task: a sample of the times of all rows."""

    reader: Reader

    def empty(self) -> TimeSample:
        """Return the sample of no rows."""
        return TimeSample()

    def of_fragment(self, fragment: Fragment) -> TimeSample:
        """Return the sample of a fragment."""
        found = self.empty()
        for _, rows, times in self.reader.numbered(fragment):
            found = found.merge(_smallest(scramble(rows.astype(np.uint64)), times))
        return found


def start_of_tail(source: Source, schema: Schema, holdout: float) -> int:
    """Return the time from which on about this share of the rows come: one pass over the times.

    Args:
        source: of the log.
        schema: names the column of times.
        holdout: share of the rows.
    """
    assert schema.columns.time is not None
    sample = fold(source, [schema.columns.time], SampleTimes(Reader(schema)))
    return sample.cut(holdout)


@dataclass(frozen=True)
class TimeRange(State):
    """The first and the last time of some rows, as `piwo.logs.periods.positions` are.

    >>> TimeRange(-1.0, 2.0).merge(TimeRange(-0.5, 4.0))
    TimeRange(minus_first=-0.5, last=4.0, dates=False)
    """

    minus_first: float = largest(default=-np.inf)
    """Minus the first time."""
    last: float = largest(default=-np.inf)
    dates: bool = largest(default=False)
    """Whether times are days since 1970."""


@dataclass(frozen=True)
class FindTimeRange(Task[TimeRange]):
    """Task: the first and the last time of the selected rows.

    Args:
        reader: chooses the rows.
        column: of times.
    """

    reader: Reader
    column: str

    def empty(self) -> TimeRange:
        """Return the range of no rows."""
        return TimeRange()

    def of_fragment(self, fragment: Fragment) -> TimeRange:
        """Return the range of a fragment."""
        found = self.empty()
        for record, _ in self.reader.records(fragment):
            column = record[self.column]
            if len(column):
                times = positions(column)
                here = TimeRange(-float(times.min()), float(times.max()), is_day(column.type))
                found = found.merge(here)
        return found


def stretches(times: npt.NDArray[Any], count: int) -> Numbers:
    """Return the stretch of time that each row is in, (n,), 0..count-1, of about equal size.

    Rows of one time are in one stretch, that of the first of them.

    >>> stretches(np.array([3, 1, 1, 2]), 2).tolist()
    [1, 0, 0, 1]
    """
    rank = np.searchsorted(np.sort(times), times)
    found: Numbers = rank * count // max(len(times), 1)
    return found
