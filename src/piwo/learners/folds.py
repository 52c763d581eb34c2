"""Folds of a log: rows that a policy is learned from, and rows that it is judged on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from piwo.logs.hashing import uniform
from piwo.logs.log import Log
from piwo.logs.times import start_of_tail

__all__ = ["Fold", "Past", "folds_of", "sample_of"]

_SAMPLING = 1
"""Added to the seed of the folds, so that the sample does not depend on them."""


@dataclass(frozen=True)
class Fold:
    """Selector: some of the rows, by row number alone, or by the number of their key or unit.

    Args:
        count: F, the number of folds.
        number: the fold, 0..F-1; None: all of them.
        seed: of the folds, and of the sample.
        others: select the rows of all other folds.
        share: of the rows that are sampled first; others belong to no fold.

    >>> [int(Fold(3, k).keep(np.arange(9)).sum()) for k in range(3)]
    [3, 5, 1]
    """

    count: int
    number: int | None = None
    seed: int = 0
    others: bool = False
    share: float = 1.0

    def keep(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of the selected row numbers."""
        kept = uniform(self.seed + _SAMPLING, rows) < self.share
        if self.number is None:
            return kept
        mine = np.floor(uniform(self.seed, rows) * self.count) == self.number
        chosen: npt.NDArray[np.bool_] = kept & (mine != self.others)
        return chosen


@dataclass(frozen=True)
class Past:
    """Selector: the sampled rows before a row number, or a time, or those from it to a later one.

    Args:
        sample: selects the rows of the sample.
        cut: the first row number of the test rows.
        end: one past the last one; None: all later rows.
        test: select the test rows; False: those before the cut.

    >>> Past(Fold(1), 2, 4, test=True).keep(np.arange(6)).tolist()
    [False, False, True, True, False, False]
    """

    sample: Fold
    cut: int
    end: int | None = None
    test: bool = False

    def keep(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of the selected row numbers."""
        kept = self.sample.keep(rows)
        if not self.test:
            return kept & (rows < self.cut)
        kept &= rows >= self.cut
        if self.end is not None:
            kept &= rows < self.end
        return kept


def sample_of(log: Log, most: int, seed: int) -> tuple[Log, Fold]:
    """Return a log of about `most` rows, drawn at random, and its selector.

    Actions and levels of text columns stay those of the whole log. If the logger learned, rows are
    numbered in the order of time.

    >>> log = Log.from_arrays(
    ...     context=[[0.0]] * 90, action=["a", "b"] * 45, reward=[1] * 90, propensity=[0.5] * 90
    ... )
    >>> len(sample_of(log, 100, 0)[0])
    90
    """
    assert log.features is not None
    fixed = log.in_fixed_order(log.logger == "learning").encoded_by(log.features)
    chosen = Fold(1, seed=seed, share=min(1.0, most / max(len(log), 1)))
    return fixed.where(chosen), chosen


def folds_of(sample: Log, chosen: Fold, count: int) -> list[tuple[Log, Log]]:
    """Return for each fold of a sample the rows to learn from, and the others.

    If the logger learned, the actions of later rows reveal the rewards of earlier ones: the rows
    are cut in time into one more part, and each fold learns from all parts before that which it is
    tested on.

    Args:
        sample: see `sample_of`.
        chosen: its selector.
        count: F.

    >>> log = Log.from_arrays(
    ...     context=[[0.0]] * 90, action=["a", "b"] * 45, reward=[1] * 90, propensity=[0.5] * 90
    ... )
    >>> sample, chosen = sample_of(log, 100, 0)
    >>> [len(train) + len(test) for train, test in folds_of(sample, chosen, 3)]
    [90, 90, 90]
    """
    found = []
    if sample.logger == "learning":
        cuts = _cuts(sample, count)
        for cut, end in zip(cuts, [*cuts[1:], None], strict=True):
            train = replace(sample, selector=Past(chosen, cut))
            found.append((train, replace(sample, selector=Past(chosen, cut, end, test=True))))
        return found
    for k in range(count):
        mine = replace(chosen, count=count, number=k)
        train = replace(sample, selector=replace(mine, others=True))
        found.append((train, replace(sample, selector=mine)))
    return found


def _cuts(sample: Log, count: int) -> list[int]:
    """Return the first row number, or the first time, of each part but the first."""
    whole = replace(sample, selector=None)
    cuts = []
    for k in range(1, count + 1):
        later = 1.0 - k / (count + 1)
        if whole.columns.time is None:
            cuts.append(len(whole) - int(later * len(whole)))
        else:
            cuts.append(start_of_tail(whole.source, whole.unlabeled, later))
    return cuts
