"""Slate policies on the eligible actions of each row: what is left of lists and distributions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Floats
from piwo.logs.foreign import RowError
from piwo.slates.rows import Codes, SlateRows

__all__ = ["eligible_items", "eligible_mass", "first_eligible", "require_slots"]

_NONE = np.int32(-1)


def eligible_items(listed: npt.NDArray[np.bool_], rows: SlateRows) -> npt.NDArray[np.int64]:
    """Return m, how many of some items are eligible in each row, (n,).

    Args:
        listed: (K,) whether an action is one of the items.
        rows: with eligible actions; without, every item is.

    >>> from piwo.logs.eligible import Eligible
    >>> some = Eligible(np.array([0, 2]), np.array([2, 0], np.int32))
    >>> row = SlateRows(np.arange(1), np.ones(1, int), np.zeros((1, 1), np.int32), np.ones((1, 1)))
    >>> from dataclasses import replace
    >>> eligible_items(np.array([True, True, False]), replace(row, eligible=some)).tolist()
    [1]
    """
    if rows.eligible is None:
        return np.full(len(rows), int(listed.sum()))
    inside = listed[rows.eligible.codes].astype(np.int64)
    return np.asarray(np.add.reduceat(inside, rows.eligible.starts[:-1]), np.int64)


def eligible_mass(table: Floats, rows: SlateRows) -> Floats:
    """Return what distributions give to the eligible actions, (n, L); 1 beyond the end of a slate.

    Args:
        table: (L, K) the distribution of each slot.
        rows: with eligible actions.

    Raises:
        RowError: for the first row in which a slot has nothing left.
    """
    eligible = rows.eligible
    assert eligible is not None
    found = np.ones((len(rows), rows.slots))
    for slot in range(rows.slots):
        chances = table[slot][eligible.codes]
        found[:, slot] = np.add.reduceat(chances, eligible.starts[:-1])
    empty = (found <= 0.0) & rows.mask
    if empty.any():
        place, slot = np.argwhere(empty)[0]
        raise RowError(
            f"the policy gives each eligible action probability 0 in slot {slot + 1}; give every "
            "action some probability",
            int(rows.rows[place]),
        )
    return np.where(rows.mask, found, 1.0)


def first_eligible(order: Codes, rows: SlateRows) -> Codes:
    """Return the first L eligible labels of an order of preference, (n, L); -1: none is left.

    Args:
        order: (S,) codes; -1: not a label of the log.
        rows: with eligible actions.

    Raises:
        RowError: for the first row with more slots than labels that are eligible.
    """
    eligible = rows.eligible
    assert eligible is not None
    found = np.full((len(rows), rows.slots), _NONE)
    filled = np.zeros(len(rows), np.int64)
    for code in order[order >= 0]:
        chosen = eligible.places(np.full(len(rows), code)) >= 0
        chosen &= filled < rows.lengths
        found[chosen, filled[chosen]] = code
        filled += chosen
    require_slots(filled, rows, "eligible labels")
    return found


def require_slots(most: int | npt.NDArray[np.int64], rows: SlateRows, what: str) -> None:
    """Raise if a slate has more slots than a policy can fill.

    Args:
        most: how many, or (n,) of each row.
        rows: the slates.
        what: it has so many of, in words.

    Raises:
        RowError: for the first such row.
    """
    wrong = rows.lengths > most
    if not wrong.any():
        return
    place = int(np.argmax(wrong))
    count = int(np.broadcast_to(most, len(rows))[place])
    raise RowError(
        f"shows {int(rows.lengths[place])} actions, and the slate policy has {count} {what}; give "
        "a policy of as many slots as the longest slate",
        int(rows.rows[place]),
    )
