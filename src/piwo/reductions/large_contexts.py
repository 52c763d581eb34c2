"""Refuses contexts whose squares exceed float64 or memory, before they are summed."""

from __future__ import annotations

import numpy as np

from piwo.errors import DataError
from piwo.logs.batch import Floats
from piwo.messages import argument
from piwo.policies.blocks import check_size

__all__ = ["check_products", "check_squares", "check_sums_of_squares"]


def check_products(actions: int, width: int, products: int) -> None:
    """Refuse sums of products of the context for every action that would not fit in memory.

    Args:
        actions: K.
        width: d, the columns of the encoded context.
        products: how many sums each action has.

    Raises:
        UsageError: if the sums take more than `piwo.policies.DENSE_LIMIT` bytes.

    >>> check_products(100_000, 200, 200 * 201 // 2)
    Traceback (most recent call last):
    piwo.errors.UsageError: a regression of each of 100,000 actions on 200 columns of context ...
    """
    check_size(
        f"a regression of each of {actions:,} actions on {width:,} columns of context",
        actions * products,
        f"name fewer columns ({argument('context', '[...]')}), or leave out the rows of actions "
        "that are seldom taken",
    )


def check_squares(context: Floats, most: float = 1e150) -> None:
    """Raise if a column of a context is too large to compute with.

    Args:
        context: (n, d).
        most: the largest number that is allowed.

    Raises:
        DataError: naming the column.

    >>> check_squares(np.array([[1e149, -1.0]]))
    """
    lost = np.flatnonzero(np.abs(context).max(axis=0, initial=0.0) > most)
    if len(lost):
        what = "its squares exceed float64"
        if most > 1e150:
            what = "its values are near the limit of float64"
        about = f"{most:.0e}".replace("+", "")
        raise DataError(
            f"column {lost[0]} of the context (counted from 0): {what}, "
            f"expected values below about {about}; divide the column by a constant"
        )


def check_sums_of_squares(xx: Floats) -> None:
    """Check that the sums of squares of the context, the diagonal of X'X, are finite.

    Raises:
        DataError: naming the column.

    >>> check_sums_of_squares(np.eye(2))
    """
    lost = np.flatnonzero(~np.isfinite(np.diag(xx)))
    if len(lost):
        raise DataError(
            f"column {lost[0]} of the context (counted from 0): its squares leave "
            "float64, expected values below about 1e150; divide the column by a "
            "constant"
        )
