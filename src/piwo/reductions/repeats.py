"""Rows that share a context: whether they are copies, and whether the logger changed its mind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.logs.hashing import scramble
from piwo.reductions.reduction import Reduction
from piwo.reductions.row_sample import content_hashes, context_hashes

__all__ = ["SAMPLED", "RepeatState", "Repeats"]

SAMPLED = 4096
"""Keys that are followed: those with the smallest hashes, a random sample."""
_FEWEST = 20
"""Fewer keys with several rows say nothing."""
_DETERMINED = 0.8
"""If the mean propensity is above this, rows of one context are alike without being copies."""
_EQUAL = 1e-6
"""Propensities that differ by less, relatively, are equal but for rounding."""


@dataclass(frozen=True)
class RepeatState(State):
    """The smallest keys, the number of rows with each, and the range of a number over these.

    >>> one = RepeatState(2, np.array([7, 9], np.uint64), np.ones(2), np.ones(2), np.ones(2))
    >>> one.merge(one).counts.tolist()
    [2.0, 2.0]
    """

    rows: int = 0
    keys: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    """(k,) ascending, at most `SAMPLED`."""
    counts: Floats = field(default_factory=lambda: np.empty(0))
    """(k,) rows with each."""
    least: Floats = field(default_factory=lambda: np.empty(0))
    """(k,) the smallest number of these rows."""
    most: Floats = field(default_factory=lambda: np.empty(0))
    """(k,) the largest one."""
    propensity: float = 0.0
    """The sum of the propensities of all rows."""

    def merge(self, other: RepeatState) -> RepeatState:
        """Return the keys of both parts."""
        keys = np.concatenate([self.keys, other.keys])
        return _smallest(
            self.rows + other.rows,
            keys,
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.least, other.least]),
            np.concatenate([self.most, other.most]),
            self.propensity + other.propensity,
        )

    def repeated(self) -> tuple[int, int]:
        """Return how many of the keys have several rows, and how many of those several numbers.

        >>> RepeatState(
        ...     5,
        ...     np.arange(2, dtype=np.uint64),
        ...     np.array([2.0, 3.0]),
        ...     np.array([0.5, 0.1]),
        ...     np.array([0.5, 0.9]),
        ... ).repeated()
        (2, 1)
        """
        several = self.counts > 1
        differ = self.most > self.least * (1.0 + _EQUAL)
        return int(several.sum()), int((several & differ).sum())

    @property
    def copied(self) -> float | None:
        """Estimated share of the rows that are copies of another one; None if nothing shows it.

        Rows of one context that are all the same, in nine of ten contexts with several rows: chance
        would give some of them another action or another reward. A logger that seldom explores
        makes such rows by itself, so that nothing is said of it.
        """
        if self.propensity > _DETERMINED * self.rows:
            return None
        several, differ = self.repeated()
        if several < _FEWEST or differ > 0.1 * several:
            return None
        return float((self.counts - 1.0).sum() / self.counts.sum())

    @property
    def changed(self) -> tuple[int, int] | None:
        """How many (context, action) had several propensities, of how many that had several rows.

        None unless at least two, and a hundredth of them, had.
        """
        several, differ = self.repeated()
        if differ < 2 or differ < 0.01 * several:
            return None
        return differ, several


@dataclass(frozen=True)
class Repeats(Reduction[RepeatState]):
    """Reduction: keys of rows, and whether rows with one key are the same.

    Args:
        of: "rows": keys are contexts, numbers tell action, reward and propensity apart.
            "propensities": keys are pairs of a context and an action, numbers are propensities.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[1.0], [1.0]], action=["a", "a"], reward=[1, 0], propensity=[0.5, 0.9]
    ... )
    >>> [piwo.reductions.reduce(log, Repeats(of)).repeated() for of in ("rows", "propensities")]
    [(1, 1), (1, 1)]
    """

    of: Literal["rows", "propensities"]

    @property
    def context(self) -> bool:
        """True: rows are compared within a context."""
        return True

    def empty(self) -> RepeatState:
        """Return the state of no rows."""
        return RepeatState()

    def update(self, state: RepeatState, batch: Batch) -> RepeatState:
        """Return the state with the rows of a batch added."""
        assert batch.context is not None
        keys = context_hashes(batch.context)
        if self.of == "propensities":
            keys = scramble(keys ^ scramble(batch.action.astype(np.uint64)))
            numbers = batch.propensity
        else:
            # 53 bits of a hash are a float64; 1 + is above 0.
            numbers = 1.0 + (content_hashes(batch) >> np.uint64(12)).astype(np.float64)
        # Most keys of a large log are larger than all that are kept.
        if len(state.keys) == SAMPLED:
            near = np.flatnonzero(keys <= state.keys[-1])
            keys, numbers = keys[near], numbers[near]
        taken = float(batch.propensity.sum())
        one = _smallest(len(batch), keys, np.ones(len(keys)), numbers, numbers, taken)
        return state.merge(one)


def _smallest(
    rows: int,
    keys: npt.NDArray[np.uint64],
    counts: Floats,
    least: Floats,
    most: Floats,
    propensity: float,
) -> RepeatState:
    """Return the smallest of these keys, each once."""
    if not len(keys):
        return RepeatState(rows, propensity=propensity)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    kept = slice(0, SAMPLED)
    return RepeatState(
        rows,
        ordered[starts][kept],
        np.add.reduceat(counts[order], starts)[kept],
        np.minimum.reduceat(least[order], starts)[kept],
        np.maximum.reduceat(most[order], starts)[kept],
        propensity,
    )
