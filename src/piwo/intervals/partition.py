"""Which blocks the deadline bound may bet on, one after the other, for a log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from piwo.bounds import Horizon
from piwo.engines.engine import fold
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.logs.reader import Reader
from piwo.logs.split import HeldOut
from piwo.logs.times import SampleTimes
from piwo.reductions.blocks import BLOCKS, Partition

__all__ = ["first_number", "lacks_key", "partition_of", "planned_blocks", "planned_counts"]


def partition_of(log: Log, horizon: Horizon = None) -> Partition | None:
    """Return the blocks of a log's rows; None if no order of blocks can be promised.

    Rows of a logger that does not learn are independent: blocks spread over the file, or are by a
    hash of keys or units. If the logger learned, or if the log is to be looked at again as it
    grows, blocks are consecutive decisions.

    Args:
        log: the rows.
        horizon: see `piwo.bounds.Horizon`.

    >>> log = Log.from_arrays(action=["a"] * 3, reward=[1] * 3, propensity=[1.0] * 3)
    >>> partition_of(log).by, partition_of(log, horizon=1000).by, partition_of(log, "universal")
    ('hash', 'time', None)
    """
    columns = log.columns
    if columns.weight is not None or horizon == "universal":
        return None
    if log.logger == "learning" or horizon is not None:
        return _in_time(log, horizon)
    if lacks_key(log):
        # Rows have other numbers in another pass, so that results would differ.
        return None
    return Partition("hash")


def lacks_key(log: Log) -> bool:
    """Whether only a key is missing for blocks that spread over a log in a cluster.

    >>> lacks_key(Log.from_arrays(action=["a"], reward=[1], propensity=[1.0]))
    False
    """
    columns = log.columns
    named = columns.key is not None or columns.unit is not None
    return log.in_cluster and not named and log.logger != "learning"


def planned_blocks(horizon: int, first: int = 0) -> Partition:
    """Return blocks of about equal numbers of consecutive decisions, and one for rows beyond them.

    Args:
        horizon: number of rows that blocks are planned for.
        first: place in the plan of the row with number 0: the number of rows of earlier logs.

    >>> planned_blocks(3).cuts, planned_blocks(3, first=2).cuts
    ((1, 2, 3), (-1, 0, 1))
    """
    # The last block is for rows beyond the horizon, on which nothing is bet.
    cuts = (*_cuts(0, horizon), horizon)
    return Partition("time", tuple(cut - first for cut in cuts))


def planned_counts(horizon: int, rows: int) -> Floats:
    """Return how many of the first rows are in each of the planned blocks, (B,).

    Args:
        horizon: number of rows that blocks are planned for.
        rows: how many rows there are so far.

    >>> planned_counts(3, 2).tolist(), planned_counts(3, 7).tolist()
    ([1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 4.0])
    """
    ends = np.minimum((*planned_blocks(horizon).cuts, rows), rows)
    return np.diff(ends, prepend=0).astype(np.float64)


def first_number(log: Log) -> int:
    """Return the row number of a log's first row: 0, but for the rows that a split held out last.

    >>> log = Log.from_arrays(action=["a"] * 4, reward=[1] * 4, propensity=[1.0] * 4)
    >>> first_number(log), first_number(log.split(holdout=0.5, tail=True).test)
    (0, 2)
    """
    chosen = log.selector
    if isinstance(chosen, HeldOut) and chosen.cut is not None and chosen.test:
        return chosen.cut
    return 0


def _in_time(log: Log, horizon: Horizon) -> Partition | None:
    """Return blocks of consecutive decisions; None if their order is not known."""
    columns = log.columns
    if columns.unit is not None:
        return None
    if columns.time is not None:
        # How many rows come until the horizon is known, their times are not.
        return None if horizon is not None else _by_times(log)
    if log.in_cluster or not log.source.steady:
        return None
    if isinstance(horizon, int):
        return planned_blocks(horizon, -first_number(log))
    last = log.source.rows
    if last is None:
        last = len(replace(log, selector=None))
    if isinstance(log.selector, HeldOut) and log.selector.cut is not None and not log.selector.test:
        last = log.selector.cut
    first = first_number(log)
    return Partition("time", _cuts(first, last))


def _cuts(first: int, last: int) -> tuple[int, ...]:
    """Return where blocks of about equal length begin, but for the first."""
    starts = {first + (last - first) * b // BLOCKS for b in range(1, BLOCKS)}
    return tuple(sorted(starts - {first}))


def _by_times(log: Log) -> Partition:
    """Return blocks of about equal numbers of rows, from a random sample of the times."""
    assert log.columns.time is not None
    reader = Reader(log.unlabeled)
    times = fold(log.source, [log.columns.time], SampleTimes(reader)).times
    if log.selector is not None:
        times = times[log.selector.keep(times)]
    ordered = np.sort(times)
    places = len(ordered) * np.arange(1, BLOCKS) // BLOCKS
    return Partition("time", tuple(np.unique(ordered[places]).tolist()))
