"""States: small frozen records of sums that merge."""

from __future__ import annotations

from dataclasses import Field, field, fields, replace
from typing import Any, Self

import numpy as np

__all__ = ["State", "largest", "modular"]


def largest(**options: Any) -> Any:
    """Return a field that merges by the maximum; others merge by addition, see `State`."""
    return field(metadata={"merge": np.maximum}, **options)


def modular(**options: Any) -> Any:
    """Return a field of a whole number that merges by addition modulo 2^64."""
    return field(metadata={"merge": _add_modulo}, **options)


def _add_modulo(mine: int, theirs: int) -> int:
    return (mine + theirs) & (2**64 - 1)


class State:
    """Base of every state: subclasses are frozen dataclasses of numbers, arrays and other states.

    Merging is associative and commutative up to rounding (1e-12 relative), and the empty state is
    its identity.

    >>> from piwo.reductions import DigestState
    >>> DigestState(2, 5).merge(DigestState(1, 1))
    DigestState(rows=3, total=6)
    """

    def merge(self, other: Self) -> Self:
        """Return the state of both parts together."""
        merged = {}
        for part in fields(self):  # type: ignore[arg-type]
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            merged[part.name] = _merge(part, mine, theirs)
        return replace(self, **merged)  # type: ignore[type-var]


def _merge(item: Field[Any], mine: Any, theirs: Any) -> Any:
    if isinstance(mine, State):
        return mine.merge(theirs)
    combine = item.metadata.get("merge", np.add)
    result = combine(mine, theirs)
    if isinstance(mine, np.ndarray):
        return result
    # NumPy returns a scalar of its own type for Python numbers.
    return type(mine)(result)
