"""What readers of Vowpal Wabbit's ccb and slates give: columns of a slate log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import UsageError
from piwo.messages import argument
from piwo.sources.action_names import NAMES, Names, ends_of
from piwo.sources.source import Fragment, Source
from piwo.sources.spool import spooled
from piwo.sources.table import TableSource

__all__ = [
    "COUNT",
    "INCLUDED",
    "Finished",
    "SlateEvents",
    "check_context",
    "earned_of",
    "eligible_of_counts",
    "form_in_words",
    "labels_of",
    "require_labels",
]

COUNT = "number of actions"
"""Column of how many actions a decision has, while events are read."""
INCLUDED = "actions of slots"
"""Column of the numbers of the actions that each slot can show, while events are read; null or
empty: all of the event."""
_OWN = {"slate", "reward", "rewards", "propensities", "weight", "eligible", COUNT, NAMES, INCLUDED}
"""Columns of a slate log that are no context."""


@dataclass(frozen=True)
class SlateEvents:
    """Decisions with several slots, as rows.

    >>> import pyarrow
    >>> from piwo.sources.table import TableSource
    >>> SlateEvents(TableSource(pyarrow.table({"slate": [[0]]})), True, 1).count
    1
    """

    source: Source
    """Columns slate, rewards (of ccb, by slot) or reward (of slates), propensities, eligible if the
    actions change or are not those of every slot, weight if an event has a `pdrop`, and one for
    each entry of the context."""
    by_slot: bool
    """Whether each slot has a reward (ccb), or the slate has one and slots were drawn independently
    (slates)."""
    count: int
    """The number of actions, of the event with most."""
    changing: bool = False
    """Whether the actions change from event to event."""
    slotted: bool = False
    """Whether eligible actions are those of each slot: slots that include some alone (ccb), or
    slates whose actions change."""
    labels: tuple[Any, ...] | None = None
    """The names of all actions, sorted, if a feature names them."""
    differing: int = 0
    """How many events say something else of their actions than the first one, and have as many."""


@dataclass
class Finished:
    """The columns of a slate log from those of events, once it is known what these hold.

    Also their only fragment, for `spooled`.
    """

    raw: Source
    """With the columns slate, of numbers from 0, earned, propensities, `COUNT`, `INCLUDED`, and
    `NAMES`, if `names` are given."""
    by_slot: bool
    changing: bool
    slotted: bool
    """Whether slots can show different actions, so that eligible actions are those of slots."""
    labels: Sequence[Any] | None
    """Of the numbers; None: the numbers themselves, or names."""
    names: Names | None
    others: Sequence[str]
    """The names of further columns: weight, and those of the context."""
    of_others: Callable[[pa.RecordBatch], Sequence[pa.Array]]
    """Returns these of some rows."""
    start: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.raw.name

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        names = ["slate", "rewards" if self.by_slot else "reward", "propensities"]
        if self.changing or self.slotted:
            names.append("eligible")
        return [*names, *self.others]

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def spooled(self, skipped: Mapping[str, int]) -> Source:
        """Return the rows as a source.

        Args:
            skipped: what was left out, reason -> how many.
        """
        made = spooled(self, self.columns, skipped=skipped)
        if isinstance(made, TableSource):
            # Batches are cut anew, as those of many small files would be small.
            made = replace(made, table=made.table.combine_chunks())
        return made

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for fragment in self.raw.fragments(self.raw.schema.names):
            for record in fragment.records():
                yield self._finished(record)

    def _finished(self, record: pa.RecordBatch) -> pa.RecordBatch:
        if self.names is None:
            slates = labels_of(record["slate"], self.labels)
        else:
            slates = self.names.of_slates(record["slate"], record[NAMES])
        arrays = [slates, record["earned"], record["propensities"]]
        if self.slotted:
            arrays.append(self._of_slots(record))
        elif self.changing:
            arrays.append(self._eligible(record))
        return pa.RecordBatch.from_arrays([*arrays, *self.of_others(record)], names=self.columns)

    def _of_slots(self, record: pa.RecordBatch) -> pa.Array:
        """Return the lists of the actions that each slot can show."""
        included = record[INCLUDED]
        slots = pc.list_value_length(included).to_numpy(zero_copy_only=False)
        inner = included.flatten()
        listed = pc.fill_null(pc.list_value_length(inner), 0).to_numpy(zero_copy_only=False)
        counts = record[COUNT].to_numpy(zero_copy_only=False)
        sizes = np.where(listed == 0, np.repeat(counts, slots), listed)
        ends = np.append(0, np.cumsum(sizes))
        places = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
        places[np.repeat(listed > 0, sizes)] = inner.flatten().to_numpy(zero_copy_only=False)
        inside = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(places))
        if self.names is None:
            inside = labels_of(inside, self.labels)
        else:
            starts = np.append(0, np.cumsum(counts))[:-1]
            first = np.repeat(np.repeat(starts, slots), sizes)
            labels = self.names.typed(record[NAMES].flatten()).take(pa.array(first + places))
            inside = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), labels)
        return pa.ListArray.from_arrays(ends_of(included), inside)

    def _eligible(self, record: pa.RecordBatch) -> pa.Array:
        """Return the lists of the actions of each event."""
        if self.names is None:
            return eligible_of_counts(record[COUNT], self.labels)
        listed = record[NAMES]
        return pa.ListArray.from_arrays(ends_of(listed), self.names.typed(listed.flatten()))


def earned_of(costs: pa.Array, lowest: float) -> pa.Array:
    """Return rewards from costs: minus the cost, counted from the least reward.

    Args:
        costs: numbers, or lists of them.
        lowest: the least reward.

    >>> earned_of(pa.array([[-1.0, 0.0]]), 0.0).to_pylist()
    [[1.0, 0.0]]
    """
    if not pa.types.is_list(costs.type):
        # 0 - x, as -0.0 would be kept
        return pc.subtract(pc.subtract(0.0, costs), lowest)
    numbers = earned_of(costs.flatten(), lowest)
    return pa.ListArray.from_arrays(ends_of(costs), numbers)


def eligible_of_counts(counts: pa.Array, labels: Sequence[Any] | None) -> pa.Array:
    """Return the lists of the actions of events from their numbers of actions.

    Args:
        counts: n numbers.
        labels: of the actions; None: 0, 1, ...

    >>> eligible_of_counts(pa.array([2, 3]), None).to_pylist()
    [[0, 1], [0, 1, 2]]
    """
    sizes = counts.to_numpy(zero_copy_only=False)
    ends = np.append(0, sizes.cumsum())
    places = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
    return labels_of(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), places), labels)


def form_in_words(form: str) -> str:
    """Return in words what kind of decision a form is of.

    >>> form_in_words("ccb 4"), form_in_words("slates 0,0,1")
    ('ccb, 4 actions', 'slates, 3 actions of slots 0,0,1')
    """
    kind, _, rest = form.partition(" ")
    if kind == "ccb":
        return f"ccb, {rest} actions"
    return f"slates, {rest.count(',') + 1} actions of slots {rest}"


def labels_of(slates: pa.Array, labels: Sequence[Any] | None) -> pa.Array:
    """Return lists of labels from lists of numbers.

    Args:
        slates: lists of numbers from 0.
        labels: of these; None: the numbers themselves.

    >>> labels_of(pa.array([[1, 0]]), ["a", "b"]).to_pylist()
    [['b', 'a']]
    """
    if labels is None:
        return slates
    taken = pa.array(list(labels)).take(slates.flatten())
    return pa.ListArray.from_arrays(ends_of(slates), taken)


def require_labels(
    labels: Sequence[Any] | None, count: int, name: str, whose: str = "every event"
) -> None:
    """Raise for another number of labels than actions.

    Args:
        labels: of the actions; None: without.
        count: the number of actions.
        name: of the file.
        whose: the number is, in words.

    >>> require_labels(None, 3, "log.vw")
    """
    if labels is not None and len(labels) != count:
        raise UsageError(
            f"got {len(labels)} {argument('actions')}, but {whose} of {name!r} has {count}"
        )


def check_context(context: Sequence[str]) -> None:
    """Raise for a context that has the name of a column of every slate log.

    >>> check_context(["U/x"])
    """
    taken = sorted(_OWN.intersection(context))
    if taken:
        raise UsageError(
            f"{argument('context')} names {taken[0]!r}, which is a column of its own in a slate "
            "log; name others"
        )
