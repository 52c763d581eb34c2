"""Contexts whose squares leave float64: refused where sums of squares are made of them."""

from __future__ import annotations

import numpy as np

from piwo.errors import DataError
from piwo.logs.batch import Floats

__all__ = ["check_squares"]


def check_squares(context: Floats, most: float = 1e150) -> None:
    """Raise where a column of a context is too large for what will be computed from it.

    Args:
        context: (n, d).
        most: the largest number that can be used.

    Raises:
        DataError: naming the column.

    >>> check_squares(np.array([[1e149, -1.0]]))
    """
    lost = np.flatnonzero(np.abs(context).max(axis=0, initial=0.0) > most)
    if len(lost):
        what = (
            "its squares leave float64"
            if most <= 1e150
            else "its values are near the end of float64"
        )
        about = f"{most:.0e}".replace("+", "")
        raise DataError(
            f"column {lost[0]} of the context (counted from 0): {what}, "
            f"expected values below about {about}; divide the column by a constant"
        )
