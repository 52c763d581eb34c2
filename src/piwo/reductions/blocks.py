"""Blocks of rows, and bet sums by block: the state of the deadline bound.

A row's block depends on its number, key, unit or time alone, never on its action, reward,
propensity or context. So the sums merge however the rows are cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.bets import BETS, bet_sums, bet_sums_of_logs

__all__ = [
    "BLOCKS",
    "BLOCK_BETS",
    "BetSums",
    "Partition",
    "RowBlocks",
    "bet_sums_of",
    "no_blocks",
    "number_sums",
    "rows_by_block",
]

BLOCKS = 64
"""The number of blocks."""
_KEPT = slice(0, 32, 2)
BLOCK_BETS: Floats = BETS[_KEPT]
"""The bets whose sums are kept by block: 32, 8, 2, ..., 3e-8."""

# Any fixed number is valid for independent rows; blocks must not be those of a split. With this one
# small sorted files of zeros and ones hold, too: tests/bounds/test_deadline_level.py.
_SALT = np.uint64(0x35E0C09408CB9CDB)


def no_blocks(*forms: int) -> Floats:
    """Return the sums by block of no blocks at all."""
    return np.zeros((*forms, 0, 2 + len(BLOCK_BETS)))


@dataclass(frozen=True)
class RowBlocks:
    """The blocks of the rows, or units, of a batch."""

    places: npt.NDArray[np.uint8]
    """(u,) the block of each."""
    count: int
    """The number of blocks there are."""
    numbers: Floats | None = None
    """(u,) the row numbers, if these alone place the rows."""

    @cached_property
    def number_sums(self) -> Floats:
        """(2,) the sums of the row numbers and of their squares; zeros if others place the rows."""
        if self.numbers is None:
            return np.zeros(2)
        return np.array([self.numbers.sum(), self.numbers @ self.numbers])

    @cached_property
    def rows(self) -> Floats:
        """(B,) the number of rows, or units, in each block."""
        from piwo.reductions.kernels import count_blocks

        counts = np.zeros(256, np.int64)
        count_blocks(self.places, counts)
        return counts[: self.count].astype(np.float64)

    def rows_of(self, mask: npt.NDArray[np.bool_]) -> Floats:
        """Return the number of rows of a mask in each block, (B,)."""
        # False is 0, less 1 that is 255 in 8 bits: block 255, which is none
        others = mask.view(np.uint8) - np.uint8(1)
        return RowBlocks(self.places | others, self.count).rows

    def trend(self, y: npt.NDArray[Any]) -> float:
        """Return the sum of y times the row number; 0 if others place the rows.

        Args:
            y: (u,) numbers of at least 0, or a mask; infinity times row number 0 counts as 0.

        >>> RowBlocks(np.zeros(2, np.uint8), 1, np.array([3.0, 4.0])).trend(np.array([1.0, 2.0]))
        11.0
        """
        if self.numbers is None:
            return 0.0
        y = y.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(y @ self.numbers)
            if math.isnan(found):
                found = float(np.where(self.numbers == 0.0, 0.0, y) @ self.numbers)
        return found

    def among(self, chosen: npt.NDArray[Any]) -> RowBlocks:
        """Return the blocks of some rows, given by a mask or by their places."""
        numbers = None if self.numbers is None else self.numbers[chosen]
        return RowBlocks(self.places[chosen], self.count, numbers)


@dataclass(frozen=True)
class Partition:
    """Which block a row is in.

    Args:
        by: "hash": of its unit or its key; without them each 64 consecutive rows are in the 64
            blocks in an order of their own, so that all blocks have rows from all over the file.
            "time": consecutive times, or row numbers if the log has no column of times.
        cuts: (B - 1,) where all blocks but the first begin, for "time".

    >>> rows = Batch(0, np.zeros(9, np.int32), np.ones(9), np.ones(9))
    >>> Partition("time", (4, 6)).of(rows).places.tolist()
    [0, 0, 0, 0, 1, 1, 2, 2, 2]
    """

    by: Literal["hash", "time"] = "hash"
    cuts: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of blocks."""
        if self.by == "hash":
            return BLOCKS
        return len(self.cuts) + 1

    def of(self, batch: Batch) -> RowBlocks:
        """Return the blocks of the rows of a batch, or of its units."""
        if self not in batch.blocks:
            batch.blocks[self] = self._blocks(batch)
        found: RowBlocks = batch.blocks[self]
        return found

    def _blocks(self, batch: Batch) -> RowBlocks:
        # Imported when first needed: Numba takes over a second.
        from piwo.reductions.kernels import hashed_blocks, spread_blocks

        blocks, places = np.empty(batch.count, np.uint8), None
        if self.by == "time":
            numbers = batch.row_numbers if batch.times is None else batch.times
            blocks[:] = np.searchsorted(np.array(self.cuts), numbers, side="right")
        else:
            numbers = batch.row_numbers if batch.keys is None else batch.keys
            if batch.unit_starts is not None:
                numbers = numbers[batch.unit_starts]
            if batch.keys is None:
                spread_blocks(numbers, _SALT, blocks)
                if batch.unit_starts is None:
                    places = numbers.astype(np.float64)
            else:
                hashed_blocks(numbers, _SALT, BLOCKS, blocks)
        return RowBlocks(blocks, self.count, places)


@dataclass(frozen=True)
class BetSums(State):
    """Bet sums of one quantity Y >= 0 over all rows, and by block.

    >>> one = BetSums.of(np.array([1.0, 3.0]), RowBlocks(np.array([0, 1], np.uint8), 2))
    >>> one.blocks[:, :3].round(2).tolist()  # sum Y, sum Y^2, sum log(1 + 32 Y)
    [[1.0, 1.0, 3.5], [3.0, 9.0, 4.57]]
    """

    bets: Floats = field(default_factory=lambda: np.zeros(len(BETS)))
    """(48,) S_j."""
    blocks: Floats = field(default_factory=no_blocks)
    """(B, 2 + J) sum Y, sum Y^2, and S_j for `BLOCK_BETS`; no rows if blocks were not asked for."""
    trend: float = 0.0
    """sum of Y times the row number, if row numbers alone place rows in blocks."""

    @classmethod
    def of(cls, y: Floats, rows: RowBlocks | None) -> BetSums:
        """Return the sums of finite numbers.

        Args:
            y: (n,) numbers of at least 0.
            rows: their blocks; None: without.
        """
        if rows is None:
            return cls(bet_sums(y))
        return cls._by_block(*_add(y, rows), rows.trend(y))

    @classmethod
    def of_ones(cls, mask: npt.NDArray[np.bool_], rows: RowBlocks | None) -> BetSums:
        """Return the sums of the rows of a mask, each with Y = 1.

        Args:
            mask: (n,).
            rows: blocks of all rows; None: without.
        """
        if rows is None:
            return cls(float(mask.sum()) * np.log1p(BETS))
        counts = rows.rows_of(mask)
        sums = counts[:, None] * np.log1p(BETS)
        moments = np.column_stack([counts, counts])
        return cls._by_block(sums, moments, rows.trend(mask))

    @classmethod
    def of_logs(cls, log_y: Floats, rows: RowBlocks | None) -> BetSums:
        """Return the sums of the few rows beyond float64, from log y.

        Args:
            log_y: (m,) log Y; -inf for 0.
            rows: their blocks; None: without.
        """
        if rows is None:
            return cls(bet_sums_of_logs(log_y))
        sums, moments = np.zeros((rows.count, len(BETS))), np.zeros((rows.count, 2))
        for log_one, block in zip(log_y, rows.places, strict=True):
            sums[block] += bet_sums_of_logs(log_one[None])
            with np.errstate(over="ignore"):
                y = np.exp(log_one)
                moments[block] += y, y * y
        with np.errstate(over="ignore"):
            y = np.exp(log_y)
        return cls._by_block(sums, moments, rows.trend(y))

    @classmethod
    def _by_block(cls, sums: Floats, moments: Floats, trend: float) -> BetSums:
        """Return the sums from those of each block: (B, 48) S_j, and (B, 2) sum Y and sum Y^2."""
        return cls(sums.sum(axis=0), np.hstack([moments, sums[:, _KEPT]]), trend)


def _add(y: Floats, rows: RowBlocks) -> tuple[Floats, Floats]:
    from piwo.reductions.bet_kernels import add_block_bets

    sums, moments = np.zeros((rows.count, len(BETS))), np.zeros((rows.count, 2))
    add_block_bets(np.ascontiguousarray(y), rows.places, BETS, sums, moments)
    return sums, moments


def bet_sums_of(
    batch: Batch,
    y: Floats,
    logarithm: Callable[[npt.NDArray[np.intp]], Floats],
    partition: Partition | None = None,
) -> BetSums:
    """Return the sums over the rows of a batch; over units, of the means of y, if read by unit.

    Args:
        batch: the rows.
        y: (n,) non-negative numbers; infinity if they are beyond float64.
        logarithm: gives log y of some rows, for those that are.
        partition: into blocks; None: without.

    >>> rows = Batch(0, np.zeros(2, np.int32), np.ones(2), np.ones(2)).of_units(np.zeros(2, int))
    >>> found = bet_sums_of(rows, np.array([0.0, 2.0]), np.log)
    >>> bool(np.allclose(found.bets, bet_sums([1.0])))
    True
    """
    means, rows = batch.by_unit(y), None
    if partition is not None:
        rows = partition.of(batch)
    lost = np.flatnonzero(~np.isfinite(means))
    if not len(lost):
        return BetSums.of(means, rows)
    means = np.where(np.isfinite(means), means, 0.0)
    if batch.unit_starts is None:
        logs = logarithm(lost)
    else:
        logs = _log_means(batch, y, logarithm)[lost]
    few = None if rows is None else rows.among(lost)
    return BetSums.of(means, rows).merge(BetSums.of_logs(logs, few))


def _log_means(
    batch: Batch, y: Floats, logarithm: Callable[[npt.NDArray[np.intp]], Floats]
) -> Floats:
    """Return the logarithms of the means over units, (u,): those of the sums, less log n."""
    assert batch.unit_starts is not None
    with np.errstate(divide="ignore"):
        logs = np.log(y)
    beyond = np.flatnonzero(~np.isfinite(y))
    logs[beyond] = logarithm(beyond)
    sizes = np.diff(np.append(batch.unit_starts, len(y)))
    found: Floats = np.logaddexp.reduceat(logs, batch.unit_starts) - np.log(sizes)
    return found


def number_sums(partition: Partition | None, batch: Batch) -> Floats:
    """Return the sums of row numbers and of their squares, (2,); see `RowBlocks.number_sums`."""
    if partition is None:
        return np.zeros(2)
    return partition.of(batch).number_sums


def rows_by_block(partition: Partition | None, batch: Batch) -> Floats:
    """Return the number of rows, or units, of a batch in each block, (B,); (0,) without blocks."""
    if partition is None:
        return np.zeros(0)
    return partition.of(batch).rows
