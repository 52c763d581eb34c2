"""Row numbers and their names in messages; the rows of each partition are numbered from 0."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["first_of", "place", "places"]

_STEP = 1 << 40
"""More rows than any partition has. Row i of partition p has the number (p + 1) 2^40 + i."""


def first_of(partition: int) -> int:
    """Return the row number of the first row of a partition.

    >>> place(first_of(3) + 7)
    'row 7 of partition 3'
    """
    return (partition + 1) * _STEP


def place(row: int) -> str:
    """Return the name of a row.

    >>> place(7)
    'row 7'
    """
    return f"row {row}" if row < _STEP else f"row {row % _STEP} of partition {row // _STEP - 1}"


def places(rows: Sequence[int], more: bool) -> str:
    """Return the names of the first of several rows.

    >>> places([3, 5], more=True)
    'row numbers from 0: 3, 5, ...'
    """
    ending = ", ..." if more else ""
    if any(row >= _STEP for row in rows):
        return "counted from 0: " + ", ".join(place(row) for row in rows) + ending
    return "row numbers from 0: " + ", ".join(map(str, rows)) + ending
