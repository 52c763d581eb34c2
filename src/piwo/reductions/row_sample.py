"""A sample of a log's rows, to find out whether another log shares rows with it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.logs.hashing import scramble
from piwo.reductions.reduction import Reduction

__all__ = [
    "SAMPLED",
    "RowSample",
    "RowSampleState",
    "content_hashes",
    "context_hashes",
    "label_hashes",
    "rounded",
    "smallest",
]

SAMPLED = 2048
"""Number of hashes in a sample."""
Hashes = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowSampleState(State):
    """The smallest hashes of rows, each once, and the number of rows with each.

    A hash depends on the content of the row alone, so two logs sample the same of the rows that
    they share.

    >>> one = RowSampleState(3, np.array([5, 9], np.uint64), np.array([1, 2]))
    >>> one.merge(RowSampleState(1, np.array([9], np.uint64), np.array([1]))).counts.tolist()
    [1, 3]
    """

    rows: int = 0
    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    """(k,) ascending, at most `SAMPLED`."""
    counts: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    """(k,) rows with each."""

    def merge(self, other: RowSampleState) -> RowSampleState:
        """Return the sample of both parts together."""
        both = np.concatenate([self.hashes, other.hashes])
        return smallest(self.rows + other.rows, both, np.concatenate([self.counts, other.counts]))

    @property
    def repeated(self) -> float:
        """Estimated probability that a new row of the same kind has the hash of a row in the log.

        Formula: 1 minus the fraction of rows whose hash is unique.
        Source: Good (1953), "The population frequencies of species", Biometrika 40.

        >>> RowSampleState(4, np.array([5, 9], np.uint64), np.array([1, 3])).repeated
        0.75
        """
        return 1.0 - float((self.counts == 1).sum()) / max(float(self.counts.sum()), 1.0)

    def within(self, other: RowSampleState) -> tuple[int, int]:
        """Return how many rows of this sample are comparable with the other, and how many it has.

        >>> old = RowSampleState(4, np.array([5, 9], np.uint64), np.array([1, 3]))
        >>> RowSampleState(2, np.array([7, 9], np.uint64), np.array([1, 1])).within(old)
        (2, 1)
        """
        if not len(other.hashes) or not len(self.hashes):
            return 0, 0
        known = np.ones(len(self.hashes), np.bool_)
        # A full sample has no hashes above its largest one.
        if len(other.hashes) == SAMPLED:
            known = self.hashes <= other.hashes[-1]
        found = known & np.isin(self.hashes, other.hashes)
        return int(self.counts[known].sum()), int(self.counts[found].sum())


@dataclass(frozen=True)
class RowSample(Reduction[RowSampleState]):
    """Reduction: the rows with the smallest hashes of action, propensity and context.

    Rewards are not hashed: a policy that was learned from these rows knows them, whichever reward
    is read from them now.

    Args:
        labels_of: the action list, in the order of its codes.
        with_context: whether the context is hashed.
        with_propensity: whether the propensity is hashed; not if it is estimated, as estimates
            differ from one reading to the next.
        digits: significant digits of the context that are hashed, so that a copy in float32 or with
            fewer digits has the same hashes; None: all.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> piwo.reductions.reduce(log, RowSample(tuple(log.actions))).counts.tolist()
    [1, 1, 1]
    """

    labels_of: Sequence[Any]
    with_context: bool = False
    with_propensity: bool = True
    digits: int | None = None

    @property
    def context(self) -> bool:
        """Whether batches must carry the context."""
        return self.with_context

    def empty(self) -> RowSampleState:
        """Return the sample of no rows."""
        return RowSampleState()

    def update(self, state: RowSampleState, batch: Batch) -> RowSampleState:
        """Return the sample with a batch added."""
        # The hash of the label, not of its code: lists of other logs may be in another order.
        h = label_hashes(self.labels_of)[batch.action]
        if self.with_propensity:
            h = scramble(h ^ _bits(batch.propensity))
        if self.with_context and batch.context is not None:
            h = scramble(h ^ context_hashes(rounded(batch.context, self.digits)))
        return state.merge(smallest(len(batch), h, np.ones(len(h), np.int64)))


def context_hashes(context: Floats) -> Hashes:
    """Return a hash of each context, (n,).

    >>> one, same, other = context_hashes(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])).tolist()
    >>> one == same, one == other
    (True, False)
    """
    from piwo.reductions.kernels import hash_rows

    # A sum over columns, each with its own odd multiplier.
    odd = scramble(np.arange(context.shape[1], dtype=np.uint64)) | np.uint64(1)
    found = np.empty(len(context), np.uint64)
    hash_rows(_bits(context), odd, found)
    return found


def content_hashes(batch: Batch) -> Hashes:
    """Return a hash of action, reward and propensity of each row, (n,).

    >>> rows = Batch(0, np.array([0, 0, 1], np.int32), np.ones(3), np.full(3, 0.5))
    >>> len(set(content_hashes(rows).tolist()))
    2
    """
    h = scramble(batch.action.astype(np.uint64))
    for column in (batch.reward, batch.propensity):
        h = scramble(h ^ _bits(column))
    return h


def rounded(values: Floats, digits: int | None) -> Floats:
    """Return numbers with this many significant digits; all of them for None.

    >>> rounded(np.array([0.123456, -98765.0, 0.0]), 2).tolist()
    [0.12, -99000.0, 0.0]
    """
    if digits is None:
        return values
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log10(np.abs(values)))
    # 10^x of the position of the last digit that is kept
    unit = 10.0 ** (np.where(np.isfinite(exponent), exponent, 0.0) - (digits - 1))
    found: Floats = np.round(values / unit) * unit
    return found


def smallest(rows: int, hashes: Hashes, counts: Counts) -> RowSampleState:
    """Return the sample of rows from their hashes.

    Args:
        rows: how many there are.
        hashes: (n,) in any order, with repeats.
        counts: (n,) rows of each entry.

    >>> smallest(3, np.array([9, 5, 9], np.uint64), np.ones(3, np.int64)).counts.tolist()
    [1, 2]
    """
    kept, place = np.unique(hashes, return_inverse=True)
    summed = np.bincount(place, weights=counts, minlength=len(kept)).astype(np.int64)
    return RowSampleState(rows, kept[:SAMPLED].copy(), summed[:SAMPLED].copy())


def _bits(values: Floats) -> Hashes:
    # + 0.0: -0.0 and 0.0 are the same number
    return (np.ascontiguousarray(values) + 0.0).view(np.uint64)


def label_hashes(labels: Sequence[Any]) -> Hashes:
    """Return a hash of each label, (K,), the same in every process.

    >>> len(set(label_hashes(["a", "b", 1, 2]).tolist()))
    4
    """
    texts = (
        hashlib.sha256(str(label).encode("utf-8", "surrogatepass")).digest()[:8] for label in labels
    )
    return np.frombuffer(b"".join(texts), "<u8").astype(np.uint64)
