"""Sums for least squares of the reward on the context, by action, in chunks that double."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.large_contexts import check_squares
from piwo.reductions.reduction import Reduction

__all__ = ["FIRST_CHUNK", "ForwardSums", "RewardSums", "chunks_of", "designs"]

FIRST_CHUNK = 256
"""Rows of the first chunk and of the second; each later chunk has as many as all before it."""


def chunks_of(rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Return the chunk of each row number: 0 below 256, 1 below 512, 2 below 1024 and so on.

    >>> chunks_of(np.array([0, 255, 256, 511, 512, 4095])).tolist()
    [0, 0, 1, 1, 2, 4]
    """
    # floor(rows / 256) = m 2^e with 1/2 <= m < 1: e is the number of its binary digits
    return np.asarray(np.frexp(rows // FIRST_CHUNK)[1], np.int64)


def designs(batch: Batch, width: int) -> Floats:
    """Return z = (1, x) of every row, (n, width); z = 1 if width is 1."""
    ones = np.ones((len(batch), 1))
    if width == 1:
        return ones
    assert batch.context is not None
    check_squares(batch.context)
    return np.hstack([ones, batch.context])


@dataclass(frozen=True)
class RewardSums(State):
    """Sums over the rows of each action: z z', (K, p, p), and z R, (K, p), with z = (1, x).

    >>> one = RewardSums(np.ones((1, 1, 1)), np.zeros((1, 1)))
    >>> one.merge(one).gram.tolist()
    [[[2.0]]]
    """

    gram: Floats
    cross: Floats


@dataclass(frozen=True)
class ForwardSums(Reduction[tuple[RewardSums, ...]]):
    """Reduction: `RewardSums` of each chunk; merges give the sums of all earlier chunks.

    Args:
        actions: K.
        width: p, one more than the context columns; 1: no context is needed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400
    ... )
    >>> [state.cross[:, 0].tolist() for state in piwo.reductions.reduce(log, ForwardSums(2, 1))]
    [[128.0, 0.0], [72.0, 0.0]]
    """

    actions: int
    width: int

    @property
    def context(self) -> bool:
        """Whether the sums use the context."""
        return self.width > 1

    def empty(self) -> tuple[RewardSums, ...]:
        """Return no chunks."""
        return ()

    def update(self, state: tuple[RewardSums, ...], batch: Batch) -> tuple[RewardSums, ...]:
        """Return the sums with the rows of a batch added to their chunks."""
        chunk = chunks_of(batch.row_numbers)
        added = [self._none() for _ in range(int(chunk.max(initial=-1)) + 1)]
        for c in np.unique(chunk):
            added[c] = self._sums(batch.take(np.flatnonzero(chunk == c)))
        return self.merge(state, tuple(added))

    def _none(self) -> RewardSums:
        k, p = self.actions, self.width
        return RewardSums(np.zeros((k, p, p)), np.zeros((k, p)))

    def _sums(self, batch: Batch) -> RewardSums:
        sums = self._none()
        # Rows sorted by action; those of action a end at ends[a].
        order = np.argsort(batch.action, kind="stable")
        z, r = designs(batch, self.width)[order], batch.reward[order]
        ends = np.cumsum(np.bincount(batch.action, minlength=self.actions))
        for a in np.unique(batch.action):
            first = int(ends[a - 1]) if a else 0
            mine = slice(first, int(ends[a]))
            # sum z z' and sum z R over the rows of action a
            sums.gram[a] = z[mine].T @ z[mine]
            sums.cross[a] = z[mine].T @ r[mine]
        return sums

    def merge(
        self, one: tuple[RewardSums, ...], other: tuple[RewardSums, ...]
    ) -> tuple[RewardSums, ...]:
        """Return the sums of both parts together, chunk by chunk."""
        # The part with more rows has more chunks; those past the shared ones are kept as they are.
        shared = min(len(one), len(other))
        both = [a.merge(b) for a, b in zip(one[:shared], other[:shared], strict=True)]
        return (*both, *one[shared:], *other[shared:])
