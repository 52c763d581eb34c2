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
_EXPECTED = 20.0
"""If chance would make fewer contexts differ, rows that are the same are no evidence."""
_FEW = 0.2
"""Of what chance would make: P(Poisson(20) <= 4) = 2e-5."""
_EQUAL = 1e-6
"""Propensities that differ by less, relatively, are equal but for rounding."""


def _none() -> Floats:
    return np.empty(0)


@dataclass(frozen=True)
class RepeatState(State):
    """The smallest keys, the number of rows with each, and the range of a number over these.

    >>> half = np.full(2, 0.5)
    >>> one = RepeatState(np.array([7, 9], np.uint64), np.ones(2), half, np.ones(2), np.ones(2))
    >>> one.merge(one).counts.tolist()
    [2.0, 2.0]
    """

    keys: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    """(k,) ascending, at most `SAMPLED`."""
    counts: Floats = field(default_factory=_none)
    """(k,) rows with each."""
    taken: Floats = field(default_factory=_none)
    """(k,) the sum of their propensities."""
    least: Floats = field(default_factory=_none)
    """(k,) the smallest number of these rows."""
    most: Floats = field(default_factory=_none)
    """(k,) the largest one."""

    def merge(self, other: RepeatState) -> RepeatState:
        """Return the keys of both parts."""
        return _smallest(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.taken, other.taken]),
            np.concatenate([self.least, other.least]),
            np.concatenate([self.most, other.most]),
        )

    def repeated(self) -> tuple[int, int]:
        """Return how many of the keys have several rows, and how many of those several numbers.

        >>> RepeatState(
        ...     np.arange(2, dtype=np.uint64),
        ...     np.array([2.0, 3.0]),
        ...     np.array([0.5, 1.0]),
        ...     np.array([0.5, 0.1]),
        ...     np.array([0.5, 0.9]),
        ... ).repeated()
        (2, 1)
        """
        several = self.counts > 1
        differ = self.most > self.least * (1.0 + _EQUAL)
        return int(several.sum()), int((several & differ).sum())

    @property
    def twins(self) -> float:
        """Share of the rows that have the key of an earlier one."""
        if not len(self.counts):
            return 0.0
        return float((self.counts - 1.0).sum() / self.counts.sum())

    @property
    def copied(self) -> float | None:
        """Estimated share of the rows that are copies of another one; None if nothing shows it.

        Formula: two rows of one context that are not copies have different actions with probability
        1 - sum_a mu(a|x)^2 = E[1 - mu(A|x)], whatever the rewards. So at least

            sum of 1 - (mean propensity of a context's rows)

        of the contexts with several rows must show different rows on average. Rows are copies if
        that is at least 20, and at most a fifth of it did. A logger that seldom explores needs more
        rows for this than one that draws evenly.
        """
        several = self.counts > 1
        expected = float((1.0 - self.taken[several] / self.counts[several]).sum())
        if expected < _EXPECTED or self.repeated()[1] > _FEW * expected:
            return None
        return self.twins

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
            "contents": keys are rows: context, action, reward and propensity. Rows of a log without
            context are all of one context.
        first: the first column of the encoded context that counts.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[1.0], [1.0]], action=["a", "a"], reward=[1, 0], propensity=[0.5, 0.9]
    ... )
    >>> kinds = ("rows", "propensities", "contents")
    >>> [piwo.reductions.reduce(log, Repeats(of)).repeated() for of in kinds]
    [(1, 1), (1, 1), (0, 0)]
    """

    of: Literal["rows", "propensities", "contents"]
    first: int = 0

    @property
    def context(self) -> bool:
        """True: rows are compared within a context."""
        return True

    def empty(self) -> RepeatState:
        """Return the state of no rows."""
        return RepeatState()

    def update(self, state: RepeatState, batch: Batch) -> RepeatState:
        """Return the state with the rows of a batch added."""
        if self.of == "propensities" and batch.eligible is not None:
            # A propensity depends on what else could be taken.
            return state
        keys = np.zeros(len(batch), np.uint64)
        if batch.context is not None:
            keys = context_hashes(batch.context[:, self.first :])
        numbers = batch.propensity
        if self.of == "propensities":
            keys = scramble(keys ^ scramble(batch.action.astype(np.uint64)))
        elif self.of == "contents":
            keys = scramble(keys ^ content_hashes(batch))
        else:
            # 53 bits of a hash are a float64; 1 + is above 0.
            numbers = 1.0 + (content_hashes(batch) >> np.uint64(12)).astype(np.float64)
        taken = batch.propensity
        # Most keys of a large log are larger than all that are kept.
        if len(state.keys) == SAMPLED:
            near = np.flatnonzero(keys <= state.keys[-1])
            keys, numbers, taken = keys[near], numbers[near], taken[near]
        return state.merge(_smallest(keys, np.ones(len(keys)), taken, numbers, numbers))


def _smallest(
    keys: npt.NDArray[np.uint64], counts: Floats, taken: Floats, least: Floats, most: Floats
) -> RepeatState:
    """Return the smallest of these keys, each once."""
    if not len(keys):
        return RepeatState()
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    kept = slice(0, SAMPLED)
    return RepeatState(
        ordered[starts][kept],
        np.add.reduceat(counts[order], starts)[kept],
        np.add.reduceat(taken[order], starts)[kept],
        np.minimum.reduceat(least[order], starts)[kept],
        np.maximum.reduceat(most[order], starts)[kept],
    )
