"""Splitting a log in two: one part to learn from, the other to certify what was learned."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from piwo.errors import DataError, PiwoWarning, UsageError
from piwo.logs.hashing import uniform
from piwo.logs.log import Log, Split
from piwo.logs.sources import Fragment
from piwo.logs.spool import spooled

__all__ = ["HeldOut", "split"]

_SHOWN = 5


@dataclass(frozen=True)
class HeldOut:
    """Selector: the rows of one side of a split, by row number alone.

    Args:
        fraction: of the rows that are held out.
        seed: of the split.
        cut: first row number of the held-out tail; None: rows are held out at random.
        test: select the held-out rows; False: the others.
    """

    fraction: float
    seed: int = 0
    cut: int | None = None
    test: bool = True

    def held(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the rows, (n,) row numbers, are held out."""
        return uniform(self.seed, rows) < self.fraction if self.cut is None else rows >= self.cut

    def keep(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of the row numbers that stay."""
        held = self.held(rows)
        return held if self.test else ~held


def split(log: Log, holdout: float = 0.5, seed: int = 0, min_rows: int = 1, tail: bool = False) -> Split:
    """Return the log in two parts; see `Log.split`, which calls this."""
    if not 0 < holdout < 1:
        raise UsageError(f"holdout is {holdout!r}, expected a fraction of the rows, above 0 and below 1")
    if log.selector is not None:
        raise UsageError("this log is already part of a split; split the whole log instead")
    log.require_order("the last part of a log" if tail else "a held-out split")
    log = log if log.source.steady else replace(log, source=spooled(log.source, log.columns.used()))
    cut = None
    if tail:
        cut = len(log) - int(np.floor(holdout * len(log)))
    selector = HeldOut(float(holdout), seed, cut)
    counts = _count_actions(log, selector)
    train_rows, test_rows = (int(x) for x in counts.sum(axis=1))
    if min(train_rows, test_rows) < max(1, min_rows):
        raise DataError(
            f"the split has {train_rows} rows to learn from and {test_rows} held out, expected at least "
            f"{max(1, min_rows)} on each side; give more rows or another holdout="
        )
    notes = _one_sided(log, counts)
    for note in notes:
        warnings.warn(note, PiwoWarning, stacklevel=3)
    # What is learned may know the rows to learn from and no others: their actions and levels, not those of all rows.
    train = log.where(replace(selector, test=False))
    test = replace(log.where(selector), declared_actions=log.actions)
    return Split(train, test, train_rows, test_rows, notes)


def _count_actions(log: Log, selector: HeldOut) -> npt.NDArray[np.int64]:
    """Return (2, K + 1) row counts by side (learned from, held out) and action; last column: no action."""
    actions, column = log.actions, log.columns.action

    def count(fragment: Fragment) -> npt.NDArray[np.int64]:
        counts = np.zeros((2, len(actions) + 1), np.int64)
        row = fragment.start
        for record in fragment.records():
            codes = actions.codes(record[column], column)
            held = selector.held(np.arange(row, row + len(codes)))
            for side, mask in enumerate((~held, held)):
                counts[side] += np.bincount(codes[mask] % (len(actions) + 1), minlength=len(actions) + 1)
            row += len(codes)
        return counts

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        none = np.zeros((2, len(actions) + 1), np.int64)
        return sum(pool.map(count, log.source.fragments([column])), start=none)


def _one_sided(log: Log, counts: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """Say which logged actions only one part has."""
    notes = []
    for side, meaning in ((0, "held-out rows only: nothing is learned about it there"),
                          (1, "rows to learn from only: nothing is certified about it")):  # fmt: skip
        lacking = np.flatnonzero((counts[side, :-1] == 0) & (counts[1 - side, :-1] > 0))
        if len(lacking):
            shown = ", ".join(f"{log.actions.labels[a]!r} ({counts[1 - side, a]})" for a in lacking[:_SHOWN])
            more = ", ..." if len(lacking) > _SHOWN else ""
            what = "1 action has" if len(lacking) == 1 else f"{len(lacking)} actions have"
            notes.append(
                f"{what} {meaning} (rows in brackets: {shown}{more}); it was logged too rarely to be on both sides"
            )
    return tuple(notes)
