"""Ranges of positions: the rows of a log by where their action was shown, if places are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.logs.segments import segment_labels

__all__ = ["PositionRanges"]

_POWERS = 63


@dataclass(frozen=True)
class PositionRanges:
    """Positions 0, 1, 2 to 3, 4 to 7, and so on, which batches say their rows are in.

    >>> ranges = PositionRanges("slot")
    >>> [ranges.labels[i] for i in ranges.codes(pa.array([0, 1, 7, None]))]
    ['0', '1', '4 to 7', None]
    """

    column: str

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The ranges as text; None: missing."""
        wide = (f"{2**i} to {2 ** (i + 1) - 1}" for i in range(1, _POWERS))
        return ("0", "1", *wide, None)

    def codes(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """Return the place of each row's range in `labels`, (n,).

        Args:
            values: of the column.

        Raises:
            DataError: for values that are not whole numbers from 0.
        """
        texts = segment_labels(values, self.column)
        try:
            numbers = pc.fill_null(texts.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            numbers = np.array([-1])
        if len(numbers) and numbers.min() < 0:
            raise DataError(
                f"column {self.column!r} has other values at one pass than at another, expected "
                "whole numbers from 0; read when nothing writes there"
            )
        # floor(log2(k)) + 1; float64 rounds numbers above 2^53 up to the next power
        codes = np.frexp(numbers.astype(np.float64))[1].astype(np.int32)
        missing = pc.is_null(texts).to_numpy(zero_copy_only=False)
        return np.where(missing, np.int32(_POWERS + 1), np.minimum(codes, _POWERS))
