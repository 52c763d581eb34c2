"""What readers of Vowpal Wabbit's ccb and slates give: columns of a slate log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import UsageError
from piwo.messages import argument
from piwo.sources.source import Source

__all__ = [
    "COUNT",
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
_OWN = {"slate", "reward", "rewards", "propensities", "weight", "eligible", COUNT}
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
    actions change, weight if an event has a `pdrop`, and one for each entry of the context."""
    by_slot: bool
    """Whether each slot has a reward (ccb), or the slate has one and slots were drawn independently
    (slates)."""
    count: int
    """The number of actions, of the event with most."""
    changing: bool = False
    """Whether the actions change from event to event (ccb)."""


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
    return pa.ListArray.from_arrays(_ends(costs), numbers)


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
    return pa.ListArray.from_arrays(_ends(slates), taken)


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


def _ends(lists: pa.Array) -> pa.Array:
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return pa.array(np.append(0, sizes.cumsum()), pa.int32())
