"""Gram statistics: the sums for ridge regressions of gains on the context, for many scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Self

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State, largest
from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import row_blocks
from piwo.reductions.large_contexts import check_products
from piwo.reductions.reduction import Reduction
from piwo.scores.score import Score

__all__ = ["Gram", "GramState", "dense_columns", "sparse_columns"]

# Rows in a block, so few that its context and gains stay in cache.
_BLOCK = 8000
_DENSE_BYTES = 2**20


@dataclass(frozen=True)
class GramState(State):
    """Sums over rows, with x the context minus a shift and g the gain of the logged action.

    >>> Gram((), 3, np.zeros(2)).empty().xx.shape
    (2, 2)
    """

    rows: float
    x: Floats
    """(d,) sum x."""
    xx: Floats
    """(d, d) sum x x'."""
    g: Floats
    """(K, S) sum g by action and score; see `sparse_columns`."""
    gx: Floats
    """(K, d, S) sum g x by action and score."""
    dense: Floats
    """(D, K) sum of dense gains in units of exp(scale), by table and action; see
    `dense_columns`."""
    dense_x: Floats
    """(D, K, d) sum of dense gains times x, likewise."""
    scale: Floats = largest()  # noqa: RUF009 - makes a field
    """(D, K) the largest scale of the dense gains, so that inverse propensities of 1e400 can be
    summed."""

    def merge(self, other: Self) -> Self:
        """Return the state of both parts together."""
        scale = np.maximum(self.scale, other.scale)
        return State.merge(self._in_units_of(scale), other._in_units_of(scale))

    def _in_units_of(self, scale: Floats) -> Self:
        # S exp(old) = (S exp(old - new)) exp(new)
        factor = np.exp(self.scale - scale)
        return replace(
            self, dense=self.dense * factor, dense_x=self.dense_x * factor[:, :, None], scale=scale
        )


def sparse_columns(scores: Sequence[Score]) -> npt.NDArray[np.intp]:
    """Return each score's column of sparse gains, (S,); penalized neighbors of one kind share.

    >>> from piwo.scores import IX, PseudoLoss
    >>> sparse_columns([IX(0.1), PseudoLoss(0.1), PseudoLoss(0.2)]).tolist()
    [0, 1, 1]
    """
    new = np.ones(len(scores), np.bool_)
    for i, score in enumerate(scores):
        if i > 0 and score.penalized and type(score) is type(scores[i - 1]):
            new[i] = False
    return np.cumsum(new, dtype=np.intp) - 1


def dense_columns(scores: Sequence[Score]) -> npt.NDArray[np.intp]:
    """Return each score's table of dense gains, (S,), -1: none; shared as `sparse_columns` are.

    >>> from piwo.scores import IX, PseudoLoss
    >>> dense_columns([PseudoLoss(0.0), PseudoLoss(0.1), IX(0.1), PseudoLoss(0.2)]).tolist()
    [-1, 0, -1, 1]
    """
    column = sparse_columns(scores)
    used = np.array([s.dense_weight != 0.0 for s in scores], np.bool_)
    # Number the columns that are used: 0, 1, ...
    return np.where(used, np.searchsorted(np.unique(column[used]), column), -1)


@dataclass(frozen=True, eq=False)
class Gram(Reduction[GramState]):
    """Reduction: X'X and X'G for S scores in one pass, never forming an n x K table.

    A sparse gain changes one action's column, and rows with reward 0 enter X'X only. The dense
    gains D of scores that credit actions that were not taken enter through X'D, block by block,
    once for all betas of pseudo-loss scores.

    Args:
        scores: S linear scores.
        actions: K.
        shift: (d,) subtracted from the context before summing, about its mean, so that little is
            lost to cancellation.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[1.0], [3.0]], action=[0, 1], reward=[1, 1], propensity=[0.5, 0.5]
    ... )
    >>> piwo.reductions.reduce(log, Gram((piwo.IX(0.5),), 2, np.array([2.0]))).gx.tolist()
    [[[-1.0]], [[1.0]]]
    """

    scores: tuple[Score, ...]
    actions: int
    shift: Floats

    def __post_init__(self) -> None:
        d, tables = len(self.shift), len(self._dense) + self._sparse
        check_products(self.actions, d, d * tables)

    @property
    def _sparse(self) -> int:
        """The number of columns of sparse gains."""
        return int(sparse_columns(self.scores).max(initial=-1)) + 1

    @property
    def context(self) -> bool:
        """True: gains are regressed on the context."""
        return True

    @property
    def propensities(self) -> bool:
        """Whether any score needs full propensity vectors."""
        return bool(self._dense)

    @cached_property
    def _dense(self) -> list[Score]:
        """The first score of each table of dense gains."""
        first: dict[int, Score] = {}
        for column, score in zip(dense_columns(self.scores).tolist(), self.scores, strict=True):
            first.setdefault(column, score)
        return [first[c] for c in sorted(first) if c >= 0]

    @cached_property
    def _runs(self) -> list[tuple[type[Score], Floats]]:
        """Runs of neighboring scores of one kind, one score a column, with their parameters."""
        first: dict[int, Score] = {}
        for column, score in zip(sparse_columns(self.scores).tolist(), self.scores, strict=True):
            first.setdefault(column, score)
        runs = []
        for kind, run in groupby((first[k] for k in sorted(first)), key=type):
            runs.append((kind, np.array([score.value or 0.0 for score in run])))
        return runs

    def empty(self) -> GramState:
        """Return the state of no rows."""
        d, k, tables = len(self.shift), self.actions, len(self._dense)
        s = self._sparse
        return GramState(
            rows=0.0,
            x=np.zeros(d),
            xx=np.zeros((d, d)),
            g=np.zeros((k, s)),
            gx=np.zeros((k, d, s)),
            dense=np.zeros((tables, k)),
            dense_x=np.zeros((tables, k, d)),
            scale=np.zeros((tables, k)),
        )

    def update(self, state: GramState, batch: Batch) -> GramState:
        """Return the sums with a batch added."""
        assert batch.context is not None
        added = self.empty()
        # Sums may overflow; the solver checks that they are finite.
        with np.errstate(over="ignore", invalid="ignore"):
            for at in range(0, len(batch), _BLOCK):
                self._add(added, batch.take(slice(at, at + _BLOCK)))
            if self._dense:
                for block in row_blocks(len(batch), self.actions, size=_DENSE_BYTES):
                    self._add_dense(added, batch.take(block))
        rows = float(batch.sampled(np.ones(len(batch))).sum())
        return state.merge(replace(added, rows=rows))

    def _add(self, sums: GramState, block: Batch) -> None:
        """Add a block of rows, whose arrays stay in cache, to sums in place."""
        from piwo.reductions.kernels import add_gains

        assert block.context is not None
        x = block.context - self.shift
        # sum s x and sum s x x', s the sampling weights
        weighted = block.sampled(x)
        sums.x[:] += _column_sums(weighted)
        sums.xx[:] += weighted.T @ x
        # Gains of rows with reward 0 are 0.
        rewarded = np.flatnonzero(block.reward > 0)
        alone = replace(block, context=None, propensities=None, log_propensities=None, policies={})
        part = alone.take(rewarded)
        runs = [kind.gains_path(part, parameters) for kind, parameters in self._runs]
        gains = np.concatenate(runs, axis=1)
        # g[A_t] += g_t and gx[A_t] += x_t g_t', by row
        add_gains(x, rewarded, part.action, part.sampled(gains), sums.g, sums.gx)

    def _add_dense(self, sums: GramState, block: Batch) -> None:
        """Add the dense gains of a block, in the larger of their scale and that of the sums."""
        assert block.context is not None
        x = block.context - self.shift
        for c, score in enumerate(self._dense):
            gains = score.dense_gains(block)
            values = block.sampled(gains.values)
            # D = values exp(gains.scale): both sums are brought to the scale of the larger one.
            scale = np.maximum(sums.scale[c], gains.scale)
            old, new = np.exp(sums.scale[c] - scale), np.exp(gains.scale - scale)
            sums.dense[c] = sums.dense[c] * old + _column_sums(values) * new
            sums.dense_x[c] = sums.dense_x[c] * old[:, None] + (values.T @ x) * new[:, None]
            sums.scale[c] = scale


def _column_sums(values: Floats) -> Floats:
    """Return the sums of values (n, c) over rows, (c,): a product takes a fifth of `sum`'s time."""
    return np.ones(len(values)) @ values
