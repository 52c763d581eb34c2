"""Labels of actions as a user would type them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["can_be_listed", "is_range", "list_of"]


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


def can_be_listed(labels: Sequence[Any]) -> bool:
    """Whether --actions reads `list_of(labels)` as these labels.

    >>> can_be_listed(["a", "b"]), can_be_listed(["tea, black", "coffee"]), can_be_listed(["@home"])
    (True, False, False)
    """
    texts = [str(label) for label in labels]
    if any("," in text or text != text.strip() for text in texts):
        return False
    return not texts[0].startswith("@") and not (len(texts) == 1 and ".." in texts[0])
