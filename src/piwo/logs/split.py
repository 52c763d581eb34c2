"""Splitting a log in two: one part to learn from, the other to certify what was learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_flag, check_seed, is_number, shown
from piwo.engines.state import State
from piwo.engines.task import Task
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.hashing import key_numbers, uniform
from piwo.logs.reader import Reader
from piwo.messages import argument
from piwo.sources.source import Fragment

__all__ = [
    "CountSides",
    "HeldOut",
    "SampleKeys",
    "Split",
    "at_random",
    "check_split",
    "require_unique",
]

L = TypeVar("L")

_SHOWN = 5
_SAMPLE = 1000
"""Number of keys that are sampled to check that they differ from row to row."""
_MOST_ROWS_A_KEY = 1.01
"""A few events that were delivered twice do no harm."""


@dataclass(frozen=True)
class HeldOut:
    """Selector: the rows of one side of a split, by row number or key number alone.

    Args:
        fraction: fraction of the rows to hold out.
        seed: the seed of the split.
        cut: first row number of the held-out tail; None: rows are held out at random.
        test: select the held-out rows; False: the others.
    """

    fraction: float
    seed: int = 0
    cut: int | None = None
    test: bool = True

    def held(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the rows, (n,) row numbers, are held out."""
        if self.cut is not None:
            return rows >= self.cut
        return uniform(self.seed, rows) < self.fraction

    def keep(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of the selected row numbers."""
        # The held-out rows, unless this is the other side.
        return np.equal(self.held(rows), self.test)


def at_random(selector: object) -> bool:
    """Whether a selector chooses one side of a random split.

    >>> at_random(HeldOut(0.3)), at_random(HeldOut(0.3, cut=70)), at_random(None)
    (True, False, False)
    """
    return isinstance(selector, HeldOut) and selector.cut is None


@dataclass(frozen=True)
class Split(Generic[L]):
    """Two parts of one log; `notes` lists, for example, actions that only one part has.

    >>> from piwo import Log
    >>> log = Log.from_arrays(action=["a", "b"] * 50, reward=[0, 1] * 50, propensity=[0.5] * 100)
    >>> parts = log.split(holdout=0.3, seed=1)
    >>> parts.train_rows + parts.test_rows
    100
    """

    train: L
    test: L
    train_rows: int
    test_rows: int
    notes: tuple[str, ...] = ()


def check_split(holdout: Any, seed: Any, min_rows: Any, tail: Any) -> None:
    """Raise unless these are arguments of `Log.split`.

    Raises:
        UsageError: naming the first that is wrong.
    """
    if not (is_number(holdout) and 0 < holdout < 1):
        raise UsageError(
            f"{argument('holdout')} is {shown(holdout)}, expected a fraction of the "
            "rows, above 0 and below 1"
        )
    check_seed("seed", seed)
    check_count("min_rows", min_rows, 0)
    check_flag("tail", tail)


@dataclass(frozen=True)
class KeySample(State):
    """The smallest key numbers, and the number of rows of each.

    The numbers are hashes, so that these are a random sample of the keys.

    >>> KeySample().merge(KeySample(np.array([7]), np.array([2]))).rows.tolist()
    [2]
    """

    keys: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, numbers: npt.NDArray[np.int64]) -> KeySample:
        """Return the sample of some rows, given the number of each row's key."""
        return cls(*np.unique(numbers, return_counts=True))

    def merge(self, other: KeySample) -> KeySample:
        """Return the counts of both parts together."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        rows = np.bincount(place, np.concatenate([self.rows, other.rows]), len(keys))
        return KeySample(keys[:_SAMPLE], rows.astype(np.int64)[:_SAMPLE])


@dataclass(frozen=True)
class Sides(State):
    """Row counts by side and action, and the row counts of a random sample of keys."""

    counts: npt.NDArray[np.int64]
    """(2, K + 1), by side (learned from, held out) and action; last column: no action."""
    keys: KeySample = field(default_factory=KeySample)

    def require_sides(self, key: str | None, min_rows: int) -> tuple[int, int]:
        """Return the numbers of rows to learn from and held out.

        Raises:
            DataError: if a side has too few.
            UsageError: if many rows share a key: these would be on the same side, and a certificate
                counts rows.
        """
        require_unique(key, self.keys.rows)
        train, test = self.counts.sum(axis=1).tolist()
        least = max(1, min_rows)
        if min(train, test) < least:
            raise DataError(
                f"the split has {train:,} rows to learn from and {test:,} held out, "
                f"expected at least {least} on each side; give more rows or another "
                f"{argument('holdout')}"
            )
        return train, test

    def one_sided(self, actions: Actions) -> tuple[str, ...]:
        """Return a note on the actions that only one side has, for each side that lacks some.

        There is none for items with features: models of these learn about all of them.
        """
        if actions.items is not None:
            return ()
        train, test = self.counts[:, :-1]
        return (
            *_only(
                test,
                train,
                actions,
                "held-out rows only: nothing is learned about it there",
            ),
            *_only(
                train,
                test,
                actions,
                "rows to learn from only: nothing is certified about it",
            ),
        )


def require_unique(key: str | None, rows: npt.NDArray[np.int64]) -> None:
    """Raise if keys have several rows each: events that were delivered or joined several times.

    Args:
        key: the column.
        rows: (k,) the numbers of rows of some keys.

    Raises:
        UsageError: with the share of rows that repeat a key.
    """
    each = rows.sum() / max(1, len(rows))
    if each > _MOST_ROWS_A_KEY:
        share = 1.0 - 1.0 / each
        raise UsageError(
            f"key column {key!r} has about {each:.3g} rows a value, so that {share:.2g} of the "
            "rows repeat a key; events that were delivered or joined several times count several "
            "times: keep one row for each, or name a column with a unique value in each row "
            f"(rows that belong together are a {argument('unit')})"
        )


@dataclass(frozen=True)
class SampleKeys(Task[KeySample]):
    """Task: the row counts of a random sample of keys."""

    reader: Reader

    def empty(self) -> KeySample:
        """Return the sample of no rows."""
        return KeySample()

    def of_fragment(self, fragment: Fragment) -> KeySample:
        """Return the sample of a fragment."""
        found, key = self.empty(), self.reader.schema.columns.key
        assert key is not None
        for record, _ in self.reader.records(fragment):
            found = found.merge(KeySample.of(key_numbers(record[key], key)))
        return found


def _only(here: Any, there: Any, actions: Actions, meaning: str) -> tuple[str, ...]:
    """Return a note on the actions with rows here and none there; empty without such actions."""
    lacking = np.flatnonzero((there == 0) & (here > 0))
    if not len(lacking):
        return ()
    listed = ", ".join(f"{actions.labels[a]!r} ({here[a]})" for a in lacking[:_SHOWN])
    if len(lacking) > _SHOWN:
        listed += ", ..."
    what = f"{len(lacking)} actions have"
    if len(lacking) == 1:
        what = "1 action has"
    note = (
        f"{what} {meaning} (rows in brackets: {listed}); it was logged too rarely to "
        "be on both sides"
    )
    return (note,)


@dataclass(frozen=True)
class CountSides(Task[Sides]):
    """Task: the rows of both sides of a split by action, and a sample of the keys."""

    reader: Reader
    held_out: HeldOut

    def empty(self) -> Sides:
        """Return the counts of no rows."""
        return Sides(np.zeros((2, self.reader.schema.count + 1), np.int64))

    def of_fragment(self, fragment: Fragment) -> Sides:
        """Return the counts of a fragment."""
        schema, found = self.reader.schema, self.empty()
        assert schema.actions is not None
        column, size = schema.columns.action, schema.count + 1
        keys = KeySample()
        for record, _, numbers in self.reader.numbered(fragment):
            # Rows without a known action have code -1, counted in the last column.
            codes = schema.actions.codes(record[column], column) % size
            held = self.held_out.held(numbers)
            train = np.bincount(codes[~held], minlength=size)
            test = np.bincount(codes[held], minlength=size)
            if schema.columns.key is not None and schema.columns.unit is None:
                keys = KeySample.of(numbers)
            found = found.merge(Sides(np.stack([train, test]), keys))
        return found
