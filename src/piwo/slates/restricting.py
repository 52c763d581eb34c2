"""Slate policies on the eligible actions of each row: what is left of lists and distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Floats
from piwo.logs.foreign import RowError
from piwo.slates.rows import Codes, SlateRows

__all__ = [
    "LeftBySlot",
    "eligible_items",
    "eligible_mass",
    "first_by_slot",
    "first_eligible",
    "left_by_slot",
    "require_filled",
    "require_slots",
]

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
    found = np.ones((len(rows), rows.slots))
    for slot in range(rows.slots):
        could = rows.could(slot)
        chances = table[slot][could.codes]
        found[:, slot] = np.bincount(could.rows, chances, minlength=len(rows))
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


def first_by_slot(order: Codes, rows: SlateRows) -> Codes:
    """Return the first label of an order that a slot can show and no slot above it, (n, L).

    Args:
        order: (S,) codes; -1: not a label of the log.
        rows: with eligible actions by slot.

    Raises:
        RowError: for the first row in which a slot has none left.
    """
    found = np.full((len(rows), rows.slots), _NONE)
    for slot in range(rows.slots):
        could = rows.could(slot)
        for code in order[order >= 0]:
            chosen = (could.places(np.full(len(rows), code)) >= 0) & (found[:, slot] < 0)
            chosen &= ~(found[:, :slot] == code).any(axis=1)
            found[chosen, slot] = code
    require_filled(found, rows, "label")
    return found


def require_filled(codes: Codes, rows: SlateRows, what: str) -> None:
    """Raise if a slot of a slate shows nothing.

    Args:
        codes: (n, L) what is shown; -1: nothing.
        rows: the slates.
        what: there is none left, in a word.

    Raises:
        RowError: for the first such row.
    """
    wrong = (codes < 0) & rows.mask
    if wrong.any():
        place, slot = np.argwhere(wrong)[0]
        raise RowError(
            f"the policy has no eligible {what} left for slot {slot + 1}; give it one of its own",
            int(rows.rows[place]),
        )


@dataclass(frozen=True)
class LeftBySlot:
    """What uniform rankings of lists of slots choose from.

    >>> LeftBySlot(np.ones((1, 2), int), np.ones((1, 2), int), True).apart
    True
    """

    left: npt.NDArray[np.int64]
    """(n, L) how many items each slot has that are not shown above it; 1 beyond the end."""
    sizes: npt.NDArray[np.int64]
    """(n, L) how many items each slot has; 1 beyond the end."""
    apart: bool
    """Whether any two slots of a row have the same items, or none in common."""


def left_by_slot(listed: npt.NDArray[np.bool_], rows: SlateRows) -> LeftBySlot:
    """Return how many items each slot has that are not shown above it.

    Args:
        listed: (K,) whether an action is one of the items.
        rows: with eligible actions by slot.

    Raises:
        RowError: for the first row in which those above may leave a slot without an item.
    """
    n = len(rows)
    left = np.ones((n, rows.slots), np.int64)
    sizes = np.ones((n, rows.slots), np.int64)
    lists: list[npt.NDArray[np.int64]] = []
    apart = True
    for slot in range(rows.slots):
        could = rows.could(slot)
        inside = listed[could.codes]
        row, code = could.rows[inside], could.codes[inside].astype(np.int64)
        keys = row * len(listed) + code
        size = np.bincount(row, minlength=n)
        # how many slots above share an item with this one, each of which may take one
        above = np.zeros(n, np.int64)
        again = np.zeros(len(keys), np.bool_)
        for j, other in enumerate(lists):
            common = np.isin(keys, other)
            again |= common
            count = np.bincount(row[common], minlength=n)
            above += count > 0
            apart = apart and bool(
                ((count == 0) | ((count == size) & (count == sizes[:, j]))).all()
            )
        taken = np.minimum(above, np.bincount(row[again], minlength=n))
        _require_left(size > taken, rows, slot)
        shown = (rows.action[row, :slot] == code[:, None]).any(axis=1)
        left[:, slot] = np.bincount(row[~shown], minlength=n)
        sizes[:, slot] = size
        lists.append(keys)
    return LeftBySlot(np.where(rows.mask, left, 1), np.where(rows.mask, sizes, 1), apart)


def _require_left(left: npt.NDArray[np.bool_], rows: SlateRows, slot: int) -> None:
    wrong = ~left & rows.mask[:, slot]
    if wrong.any():
        raise RowError(
            f"a ranking of the items may leave none for slot {slot + 1}, which can show too few "
            "that the slots above cannot; give a policy that says what it shows in each slot",
            int(rows.rows[int(np.argmax(wrong))]),
        )


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
