"""Labels of actions as a user would type them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["is_range", "list_of"]


def list_of(labels: Sequence[Any]) -> str:
    """Return labels as --actions takes them.

    >>> list_of([0, 1, 2]), list_of(["a", "b"])
    ('0..2', 'a,b')
    """
    if is_range(labels):
        return f"{labels[0]}..{labels[-1]}"
    return ",".join(map(str, labels))


def is_range(labels: Sequence[Any]) -> bool:
    """Whether labels are successive whole numbers.

    >>> is_range([1, 2, 3]), is_range(["a"])
    (True, False)
    """
    first = labels[0]
    return isinstance(first, int) and list(labels) == list(range(first, first + len(labels)))
