"""Splitting a log in two: one part to learn from, the other to certify what was learned."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_flag, check_seed, is_number, shown
from piwo.errors import DataError, UsageError, warn
from piwo.logs.hashing import uniform
from piwo.logs.log import Log, Reader, Split
from piwo.messages import argument
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment
from piwo.sources.spool import spooled

__all__ = ["HeldOut", "split"]

_SHOWN = 5
_SAMPLE = 1000
"""Keys that are looked at to see whether they differ from row to row."""
_MOST_ROWS_A_KEY = 1.01
"""An event that was delivered twice does no harm."""


@dataclass(frozen=True)
class HeldOut:
    """Selector: the rows of one side of a split, by row number, or that of the key, alone.

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


def split(
    log: Log, holdout: float = 0.5, seed: int = 0, min_rows: int = 1, tail: bool = False
) -> Split:
    """Return the log in two parts; see `Log.split`, which calls this."""
    if not (is_number(holdout) and 0 < holdout < 1):
        raise UsageError(
            f"{argument('holdout')} is {shown(holdout)}, expected a fraction of the rows, above 0 and below 1"
        )
    check_seed("seed", seed)
    check_count("min_rows", min_rows, 0)
    check_flag("tail", tail)
    if log.selector is not None:
        raise UsageError("this log is already part of a split; split the whole log instead")
    if tail:
        log.require_order("the last part of a log")
        log = replace(log, columns=replace(log.columns, key=None))
    elif log.columns.key is None:
        log.require_order(
            "a held-out split", f"name a column with another value in every row ({argument('key')})"
        )
    if not (log.source.steady or isinstance(log.source, Cluster)):
        log = replace(log, source=spooled(log.source, log.columns.used()))
    cut = None
    if tail:
        cut = len(log) - int(np.floor(holdout * len(log)))
    selector = HeldOut(float(holdout), seed, cut)
    tally = _tally(log, selector)
    _check_keys(log, tally)
    counts = tally.counts
    train_rows, test_rows = (int(x) for x in counts.sum(axis=1))
    if min(train_rows, test_rows) < max(1, min_rows):
        raise DataError(
            f"the split has {train_rows} rows to learn from and {test_rows} held out, expected at "
            f"least {max(1, min_rows)} on each side; give more rows or another {argument('holdout')}"
        )
    notes = _one_sided(log, counts)
    for note in notes:
        warn(note)
    # What is learned may know the rows to learn from and no others: their actions and levels, not
    # those of all rows.
    train = log.where(replace(selector, test=False))
    test = replace(log.where(selector), declared_actions=log.actions)
    if (
        log.estimated_by is not None
    ):  # nor propensities that were estimated from what was done in the others
        train, test = log.estimated_by.divided(train, test)
    return Split(train, test, train_rows, test_rows, notes)


@dataclass(frozen=True)
class _Tally:
    """Row counts by side and action; and the smallest keys, a random sample of them, with how many rows each has."""

    counts: npt.NDArray[np.int64]
    """(2, K + 1), by side (learned from, held out) and action; last column: no action."""
    keys: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def merge(self, other: _Tally) -> _Tally:
        """Return the tally of both parts together."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        rows = np.bincount(place, np.concatenate([self.rows, other.rows]), len(keys)).astype(
            np.int64
        )
        return _Tally(self.counts + other.counts, keys[:_SAMPLE], rows[:_SAMPLE])

    def to_bytes(self) -> bytes:
        """Return the tally as JSON."""
        return json.dumps([x.tolist() for x in (self.counts, self.keys, self.rows)]).encode()

    @classmethod
    def of(cls, data: bytes) -> _Tally:
        """Return the tally that `to_bytes` wrote."""
        return cls(*(np.array(x, np.int64) for x in json.loads(data)))


@dataclass(frozen=True)
class _Count:
    """Counts the rows of fragments, and merges what was counted."""

    reader: Reader
    selector: HeldOut

    def none(self) -> _Tally:
        """Return the tally of no rows."""
        nothing = np.empty(0, np.int64)
        return _Tally(np.zeros((2, self.reader.schema.count + 1), np.int64), nothing, nothing)

    def count(self, fragment: Fragment) -> _Tally:
        """Return the tally of a fragment."""
        schema, tally = self.reader.schema, self.none()
        assert schema.actions is not None
        for record, _, numbers in self.reader.numbered(fragment):
            codes, held = (
                schema.actions.codes(record[schema.columns.action], schema.columns.action),
                self.selector.held(numbers),
            )
            sides = [
                np.bincount(codes[x] % (schema.count + 1), minlength=schema.count + 1)
                for x in (~held, held)
            ]
            keys, rows = (
                np.unique(numbers, return_counts=True)
                if schema.columns.key is not None
                else (tally.keys[:0],) * 2
            )
            tally = tally.merge(_Tally(np.stack(sides), keys, rows))
        return tally

    def one(self, fragment: Fragment) -> bytes:
        """Return the tally of a fragment as bytes."""
        return self.count(fragment).to_bytes()

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """Return the tally of several parts as bytes."""
        return reduce(_Tally.merge, map(_Tally.of, parts), self.none()).to_bytes()


def _tally(log: Log, selector: HeldOut) -> _Tally:
    """Return what is known of the two sides: one pass over the actions, and the keys where there are some."""
    work = _Count(Reader(replace(log.unlabeled, actions=log.actions)), selector)
    columns = [log.columns.action, *([] if log.columns.key is None else [log.columns.key])]
    if isinstance(log.source, Cluster):
        return _Tally.of(log.source.fold(columns, work.one, work.merge))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return reduce(
            _Tally.merge, pool.map(work.count, log.source.fragments(columns)), work.none()
        )


def _check_keys(log: Log, tally: _Tally) -> None:
    """Refuse keys that many rows share: these lie on one side together, and rows are what a certificate counts."""
    each = tally.rows.sum() / max(1, len(tally.keys))
    if each > _MOST_ROWS_A_KEY:
        raise UsageError(
            f"key column {log.columns.key!r} has about {each:.3g} rows a value, which a split "
            "would not part; name a column with another value in every row, such as the number of "
            "an event"
        )


def _one_sided(log: Log, counts: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """Say which logged actions only one part has."""
    notes = []
    for side, meaning in ((0, "held-out rows only: nothing is learned about it there"),
                          (1, "rows to learn from only: nothing is certified about it")):  # fmt: skip
        lacking = np.flatnonzero((counts[side, :-1] == 0) & (counts[1 - side, :-1] > 0))
        if len(lacking):
            shown = ", ".join(
                f"{log.actions.labels[a]!r} ({counts[1 - side, a]})" for a in lacking[:_SHOWN]
            )
            more = ", ..." if len(lacking) > _SHOWN else ""
            what = "1 action has" if len(lacking) == 1 else f"{len(lacking)} actions have"
            notes.append(
                f"{what} {meaning} (rows in brackets: {shown}{more}); it was logged too rarely to "
                "be on both sides"
            )
    return tuple(notes)
