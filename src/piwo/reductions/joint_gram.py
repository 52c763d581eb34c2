"""Gram sums of products of context and item, over all eligible pairs or the logged ones alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.reductions.reduction import Reduction
from piwo.scores.score import Score

__all__ = ["JointGram", "JointGramState", "symmetric"]

_BLOCK_BYTES = 2**21
"""Products of so many bytes are made at a time, to stay in the cache."""


@dataclass(frozen=True)
class JointGramState(State):
    """Sums over rows and their pairs, with u = (1, x - shift) and v_a = (1, z_a).

    Of products that are symmetric, such as u u', the upper half is kept: D = (d + 1)(d + 2) / 2
    entries, and F of v v'; see `symmetric`.

    >>> JointGram((), np.zeros(1), np.zeros((3, 2))).empty().products.shape
    (3, 6)
    """

    rows: float
    products: Floats
    """(D, F) sum over the pairs of u u' times v_a v_a'."""
    gains: Floats
    """(S, d + 1, f + 1) sum of g u v_A' by score."""


def symmetric(width: int) -> npt.NDArray[np.intp]:
    """Return where the entries of a symmetric matrix are in its upper half, (width, width).

    >>> symmetric(2).tolist()
    [[0, 1], [1, 2]]
    """
    places = np.empty((width, width), np.intp)
    upper = np.triu_indices(width)
    places[upper] = np.arange(len(upper[0]))
    places.T[upper] = places[upper]
    return places


@dataclass(frozen=True, eq=False)
class JointGram(Reduction[JointGramState]):
    """Reduction: normal equations of regressions on the products phi(x, a) of (1, x) and (1, z_a).

    As phi phi' is the product of u u' and v v', the sum over a row's eligible actions is u u' times
    the sum of v v'. So a row costs D F + |eligible| F multiplications, about (d f)^2 / 4, instead
    of |eligible| (d f)^2 / 2, and neither pairs nor products of context and item are held.

    Args:
        scores: S scores with sparse gains. None: the reward itself is regressed on the logged
            pairs alone.
        shift: (d,) subtracted from the context before summing, about its mean.
        table: (K, f) features of the items, about centered.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[1.0], [3.0]], action=[0, 1], reward=[1, 1], propensity=[0.5, 0.5]
    ... )
    >>> gram = JointGram(None, np.array([0.0]), np.array([[1.0], [2.0]]))
    >>> piwo.reductions.reduce(log, gram).gains.tolist()
    [[[2.0, 3.0], [4.0, 7.0]]]
    """

    scores: tuple[Score, ...] | None
    shift: Floats
    table: Floats

    @property
    def context(self) -> bool:
        """True: context and items make the features."""
        return True

    def empty(self) -> JointGramState:
        """Return the state of no rows."""
        d, f = len(self.shift) + 1, self.table.shape[1] + 1
        count = 1
        if self.scores is not None:
            count = len(self.scores)
        return JointGramState(
            rows=0.0,
            products=np.zeros((d * (d + 1) // 2, f * (f + 1) // 2)),
            gains=np.zeros((count, d, f)),
        )

    def update(self, state: JointGramState, batch: Batch) -> JointGramState:
        """Return the sums with a batch added."""
        added = self.empty()
        items = _with_constant(self.table)
        width = sum(added.products.shape)
        step = max(1, _BLOCK_BYTES // (8 * width))
        # Sums may overflow; the solver checks that they are finite.
        with np.errstate(over="ignore", invalid="ignore"):
            for at in range(0, len(batch), step):
                self._add(added, batch.take(slice(at, at + step)), items)
        rows = float(batch.sampled(np.ones(len(batch))).sum())
        return state.merge(replace(added, rows=rows))

    def _add(self, sums: JointGramState, block: Batch, items: Floats) -> None:
        """Add a block of rows to sums in place."""
        assert block.context is not None
        u = _with_constant(block.context - self.shift)
        # s u u' of each row, s its sampling weight.
        first, second = np.triu_indices(u.shape[1])
        uu = block.sampled(u[:, first] * u[:, second])
        if self.scores is None or block.eligible is not None:
            sums.products[:] += uu.T @ self._item_products(block, items)
        else:
            # Every row has the same actions.
            everything = Eligible(np.array([0, len(items)]), np.arange(len(items), dtype=np.int32))
            sums.products[:] += uu.sum(axis=0)[:, None] * _products(everything, items)
        # Gains of rows with reward 0 are 0.
        rewarded = np.flatnonzero(block.reward != 0)
        part = replace(block, context=None, eligible=None).take(rewarded)
        v = items[part.action]
        for s, gains in enumerate(self._gains(part)):
            sums.gains[s] += (u[rewarded] * part.sampled(gains)[:, None]).T @ v

    def _item_products(self, block: Batch, items: Floats) -> Floats:
        """Return the sums of v v' over the pairs of each row, (n, F)."""
        eligible = block.eligible
        if self.scores is None:
            # The logged pair alone.
            eligible = Eligible(np.arange(len(block) + 1), block.action)
        assert eligible is not None
        return _products(eligible, items)

    def _gains(self, part: Batch) -> Sequence[Floats]:
        """Return the gains under each score, or the rewards."""
        if self.scores is None:
            return [part.reward]
        return [score.gains(part) for score in self.scores]


def _products(eligible: Eligible, items: Floats) -> Floats:
    """Return sum v_a v_a' over the actions of each row, (n, F) upper halves."""
    from piwo.reductions.kernels import add_item_products

    width = items.shape[1]
    found = np.zeros((len(eligible), width * (width + 1) // 2))
    add_item_products(eligible.starts, eligible.codes, items, found)
    return found


def _with_constant(matrix: Floats) -> Floats:
    """Return a matrix with a column of ones before its own."""
    wide = np.ones((len(matrix), matrix.shape[1] + 1))
    wide[:, 1:] = matrix
    return wide
