"""Labels that the events of Vowpal Wabbit give their actions, by one feature or field of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.messages import argument
from piwo.sources.lines import Faults
from piwo.sources.query import quoted
from piwo.sources.source import Fragment, Source

__all__ = ["NAMES", "NamedColumns", "Names", "are_whole", "ends_of", "name_columns", "named_events"]

NAMES = "names of actions"
"""Column of the names of the actions of a decision, while events are read."""
_DIGITS = 18
"""Names of more digits are text."""
_WHOLE = ("BIGINT", "UBIGINT")
"""The types of whole numbers in the text of dsjson."""


class Names:
    """The names that events give their actions, by one feature of each.

    Args:
        declared: labels that actions can have; an event that lacks one has actions of its own.

    >>> names = Names()
    >>> names.add(pa.array([["7", "12"], ["12", "7"]]), True)
    >>> names.labels, names.changing
    ((7, 12), False)
    """

    def __init__(self, declared: Sequence[Any] | None = None) -> None:
        self.whole = True
        """Whether all are whole numbers."""
        self._declared = set(map(str, declared or ()))
        self._found: set[str] = set()
        self._sizes: set[int] = set()
        self._slots: dict[str, int] = {}
        """Name -> the slot that the action is of (slates)."""
        self._moved = False
        """Whether an action is of one slot here, and of another there."""

    def add(self, names: pa.Array, whole: bool, slots: Sequence[int] = ()) -> None:
        """Take in the names of some events.

        Args:
            names: a list of text for each event, none of them twice.
            whole: whether all are whole numbers.
            slots: of slates, the slot of each action of an event, if all have the same; empty: of
                ccb, or they differ.
        """
        if slots:
            flat = names.flatten()
            for place, slot in enumerate(slots):
                here = pc.unique(flat.take(pa.array(range(place, len(flat), len(slots)))))
                for name in here.to_pylist():
                    self._moved |= self._slots.setdefault(name, slot) != slot
        self._found.update(pc.unique(names.flatten()).to_pylist())
        self._sizes.update(pc.unique(pc.list_value_length(names)).to_pylist())
        self.whole = self.whole and whole

    @property
    def changing(self) -> bool:
        """Whether not every event has all names, in any order, and those of slates in one slot.

        So it is if a name is not declared: the lists of events are kept, and are refused for it. A
        list of the declared names would leave out an action that could be taken.
        """
        undeclared = bool(self._declared) and not self._found <= self._declared
        all_names = self._found | self._declared
        others = len(self._sizes) > 1 or len(all_names) > max(self._sizes)
        return others or undeclared or self._moved

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels of all actions, sorted: numbers if all names are whole numbers."""
        return tuple(sorted(self.typed(pa.array(self._found, pa.string())).to_pylist()))

    def typed(self, names: pa.Array) -> pa.Array:
        """Return names as labels.

        Args:
            names: text.
        """
        numbers = self.whole and max(map(len, self._found)) <= _DIGITS
        return names.cast(pa.int64()) if numbers else names

    def of_slates(self, slates: pa.Array, names: pa.Array) -> pa.Array:
        """Return lists of labels from lists of numbers.

        Args:
            slates: lists of numbers from 0, of actions of the event.
            names: lists of the names of these, as text.
        """
        starts = names.offsets.to_numpy()[:-1] - names.offsets[0].as_py()
        sizes = pc.list_value_length(slates).to_numpy(zero_copy_only=False)
        places = np.repeat(starts, sizes) + slates.flatten().to_numpy()
        taken = self.typed(names.flatten()).take(pa.array(places))
        return pa.ListArray.from_arrays(ends_of(slates), taken)


class NamedColumns:
    """The rows of a source, with names in `action` and `eligible` as labels; their only fragment.

    Args:
        raw: with names as text.
        names: all of them.
    """

    start = 0

    def __init__(self, raw: Source, names: Names) -> None:
        self.name, self._raw, self._names = raw.name, raw, names

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for fragment in self._raw.fragments(self._raw.schema.names):
            for record in fragment.records():
                arrays = dict(zip(record.schema.names, record.columns, strict=True))
                arrays["action"] = self._names.typed(record["action"])
                listed = record["eligible"]
                typed = self._names.typed(listed.flatten())
                arrays["eligible"] = pa.ListArray.from_arrays(ends_of(listed), typed)
                yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def ends_of(lists: pa.Array) -> pa.Array:
    """Return where each list ends if all begin at 0, and a 0 before.

    >>> ends_of(pa.array([["a"], ["b", "c"]])).to_pylist()
    [0, 1, 3]
    """
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return pa.array(np.append(0, sizes.cumsum()), pa.int32())


def name_columns(pointer: str) -> dict[str, str]:
    """Return what is taken of an event of dsjson, in DuckDB's SQL: the names, and their types.

    Args:
        pointer: to the name in an entry of `c._multi`, as JSON pointers are.

    >>> sorted(name_columns("/_tag"))
    ['kinds', 'names']
    """
    at = quoted(pointer, "'")
    entries = "case when kind = 'event' then json_extract(_multi, '$[*]') end"
    return {
        "names": f"list_transform({entries}, lambda x: json_extract_string(x, {at}))",
        "kinds": f"list_transform({entries}, lambda x: json_type(x, {at}))",
    }


def named_events(
    events: pa.Table,
    file: str,
    faults: Faults,
    items_label: str,
    slots: npt.NDArray[Any] | None = None,
) -> pa.Table:
    """Return the events in which each action has a name of its own; others are faults.

    Args:
        events: with the columns of `name_columns`, and `number`, that of the line.
        file: where they are from.
        faults: counts the lines of broken rules.
        items_label: the path of the names.
        slots: of slates, the slot of each entry: an action may be one of several slots.
    """
    names, kinds = (events[x].combine_chunks() for x in ("names", "kinds"))
    rows = np.repeat(np.arange(len(names)), names.value_lengths().to_numpy())
    flat = pc.fill_null(kinds.flatten(), "NULL")
    codes = names.flatten().dictionary_encode().indices
    if slots is None:
        slots = np.zeros(len(rows), np.int64)
    pairs = np.stack([rows, slots, pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)])
    _, first = np.unique(pairs, axis=1, return_index=True)
    again = np.ones(len(rows), np.bool_)
    again[first] = False
    where = f"at {items_label} ({argument('items_label')}), which names actions"
    sound = np.ones(len(names), np.bool_)
    missing = pc.equal(flat, "NULL").to_numpy(zero_copy_only=False)
    single = pc.is_in(flat, pa.array(["VARCHAR", *_WHOLE])).to_numpy(zero_copy_only=False)
    rules = {
        f"has an entry of c._multi without a value {where}": missing,
        f"has an entry of c._multi with neither text nor a whole number {where}": ~single,
        f"has two entries of c._multi with the same value {where}": again,
    }
    for rule, wrong in rules.items():
        broken = np.zeros(len(names), np.bool_)
        broken[rows[wrong]] = True
        broken &= sound
        faults.add(rule, file, events["number"].to_numpy()[broken])
        sound &= ~broken
    return events.filter(pa.array(sound))


def are_whole(events: pa.Table) -> bool:
    """Whether all names of some events are whole numbers.

    Args:
        events: with the columns of `name_columns`.

    >>> are_whole(pa.table({"kinds": [["BIGINT", "VARCHAR"]]}))
    False
    """
    kinds = pc.unique(events["kinds"].combine_chunks().flatten())
    return set(kinds.to_pylist()) <= set(_WHOLE)
