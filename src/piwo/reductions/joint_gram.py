"""Gram sums of products of context and item, over all eligible pairs or the logged ones alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
_TABLE_BYTES = 2**22
"""Products of items are kept for all items if they take no more: they stay in the cache, too."""


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
        of_pairs: returns the features of pairs that bring their own, (m, f); None: those of the
            table.

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
    of_pairs: Callable[[Eligible], Floats] | None = None

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
        width = sum(added.products.shape)
        step = max(1, _BLOCK_BYTES // (8 * width))
        # Sums may overflow; the solver checks that they are finite.
        with np.errstate(over="ignore", invalid="ignore"):
            for at in range(0, len(batch), step):
                self._add(added, batch.take(slice(at, at + step)))
        rows = float(batch.sampled(np.ones(len(batch))).sum())
        return state.merge(replace(added, rows=rows))

    def _add(self, sums: JointGramState, block: Batch) -> None:
        """Add a block of rows to sums in place."""
        assert block.context is not None
        u = _with_constant(block.context - self.shift)
        # s u u' of each row, s its sampling weight.
        first, second = np.triu_indices(u.shape[1])
        uu = block.sampled(u[:, first] * u[:, second])
        # The items of this block, its pairs, and the logged one of each row.
        items, eligible, action = self._items, block.eligible, block.action
        if self.of_pairs is not None and eligible is not None:
            items = _with_constant(self.of_pairs(eligible))
            action = eligible.places(action).astype(np.int32)
            eligible = eligible.apart()
        if self.scores is None:
            # The logged pair alone.
            eligible = Eligible(np.arange(len(block) + 1), action)
        if eligible is not None:
            sums.products[:] += uu.T @ self._item_products(eligible, items)
        else:
            # Every row has the same actions.
            sums.products[:] += uu.sum(axis=0)[:, None] * self._of_all_items
        # Gains of rows with reward 0 are 0.
        rewarded = np.flatnonzero(block.reward != 0)
        part = replace(block, context=None, eligible=None).take(rewarded)
        v = items[action[rewarded]]
        for s, gains in enumerate(self._gains(part)):
            sums.gains[s] += (u[rewarded] * part.sampled(gains)[:, None]).T @ v

    @cached_property
    def _items(self) -> Floats:
        """The vectors v = (1, z) of all items, (K, f + 1)."""
        return _with_constant(self.table)

    @cached_property
    def _products(self) -> Floats | None:
        """The upper half of v v' of all items, (K, F); None if it would not stay in the cache."""
        width = self._items.shape[1]
        if 8 * len(self._items) * width * (width + 1) // 2 > _TABLE_BYTES:
            return None
        first, second = np.triu_indices(width)
        return np.ascontiguousarray(self._items[:, first] * self._items[:, second])

    @cached_property
    def _of_all_items(self) -> Floats:
        """The sum of v v' over all items, (F,)."""
        return (self._items.T @ self._items)[np.triu_indices(self._items.shape[1])]

    def _item_products(self, eligible: Eligible, items: Floats) -> Floats:
        """Return the sums of v v' over the pairs of each row, (n, F)."""
        from piwo.reductions.kernels import add_item_products, add_table_rows

        width = items.shape[1]
        found = np.zeros((len(eligible), width * (width + 1) // 2))
        if items is not self._items or self._products is None:
            add_item_products(eligible.starts, eligible.codes, items, found)
        else:
            add_table_rows(eligible.starts, eligible.codes, self._products, found)
        return found

    def _gains(self, part: Batch) -> Sequence[Floats]:
        """Return the gains under each score, or the rewards."""
        if self.scores is None:
            return [part.reward]
        return [score.gains(part) for score in self.scores]


def _with_constant(matrix: Floats) -> Floats:
    """Return a matrix with a column of ones before its own."""
    wide = np.ones((len(matrix), matrix.shape[1] + 1))
    wide[:, 1:] = matrix
    return wide
