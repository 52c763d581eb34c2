"""Logged interactions of coba as a log; coba itself is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from piwo.checks import check_kind
from piwo.errors import DataError, warn
from piwo.logs.log import Log

__all__ = ["from_coba"]


def from_coba(
    interactions: Iterable[Any], *, reward_range: tuple[float, float] = (0.0, 1.0)
) -> Log:
    """Return the log of logged interactions of coba, in memory.

    Args:
        interactions: mappings (such as coba's `LoggedInteraction`), or objects with attributes:
            `context` (None, a value, a sequence of values, or a mapping from name to value in which
            what is absent is 0), `action`, `reward`, `probability`, and `actions`, the list of
            those that could be taken, or None. Actions are labels, or sequences or mappings of
            values.
        reward_range: the declared (lo, hi) of the reward.

    Returns:
        A `Log`. Actions that are neither text nor whole numbers, such as (1, 0, 0), have their text
        as label. Context columns are x0, x1, ..., or the names of the mapping. If the actions that
        could be taken change from one interaction to another, they are the eligible actions of each
        row; those that are sequences or mappings of values then have these as features (a0, a1,
        ..., or the names of the mapping), inside the log, and their places in `actions`, from 1, as
        labels.

    Raises:
        DataError: for interactions without an action, reward or probability, for contexts of
            several kinds, and, if the actions change, for an interaction that does not list them,
            or lists what it took not once.

    Warns:
        PiwoWarning: if labels are places in a list.

    Source: the documentation of coba 8, "Interactions".

    >>> first = {"context": (1, "a"), "action": 2, "reward": 0.5, "probability": 0.5}
    >>> second = {"context": (3, "b"), "action": 1, "reward": 1.0, "probability": 0.25}
    >>> log = from_coba([first | {"actions": [1, 2]}, second | {"actions": [2, 1]}])
    >>> log.actions.labels, log.features.names
    ((1, 2), ('x0', 'x1=a', 'x1=b'))
    >>> log = from_coba([first | {"actions": [1, 2]}, second | {"actions": [1, 2, 3]}])
    >>> next(log.each_batch()).eligible.sizes.tolist()
    [2, 3]
    """
    check_kind("interactions", interactions, Iterable)
    table: dict[str, list[Any]] = {"action": [], "reward": [], "probability": []}
    contexts: list[Any] = []
    offers = _Offers()
    for number, one in enumerate(interactions):
        for name, values in table.items():
            value = _field(one, name)
            if value is None:
                raise DataError(
                    f"interaction {number} has no {name!r}, expected a logged interaction; for one "
                    "without probabilities see piwo.estimate_propensities"
                )
            values.append(_plain(value) if name == "action" else value)
        contexts.append(_field(one, "context"))
        offers.add(_field(one, "actions"))
    if not contexts:
        raise DataError("there are no interactions, expected at least one logged decision")
    log = Log.from_arrays(
        reward=table["reward"],
        propensity=table["probability"],
        context=_columns(contexts),
        reward_range=reward_range,
        **_actions(table["action"], offers),
    )
    return replace(log, source=replace(log.source, name="the interactions"))  # type: ignore[type-var]


class _Offers:
    """The actions that could be taken in each interaction."""

    def __init__(self) -> None:
        self.sets: list[list[Any] | None] = []
        self.known: list[Any] | None = None
        self.change = False

    def add(self, given: Any) -> None:
        """Add those of the next interaction; None, or an empty list: not said."""
        found = None if given is None else [_plain(x) for x in given]
        if not found:
            self.sets.append(None)
            return
        if self.known is None:
            self.known = found
        if _same(found, self.known):
            # one list for all that are alike
            found = self.known
        else:
            self.change = True
        self.sets.append(found)

    def each(self) -> list[list[Any]]:
        """Return the list of each interaction.

        Raises:
            DataError: for one without.
        """
        lists: list[list[Any]] = []
        for number, found in enumerate(self.sets):
            if found is None:
                raise DataError(
                    f"interaction {number} has no 'actions', and those of others change; give the "
                    "actions that could be taken in each"
                )
            lists.append(found)
        return lists


def _same(found: list[Any], known: list[Any]) -> bool:
    """Whether two lists hold the same actions, in whatever order."""
    if found == known:
        return True
    alike = len(found) == len(known) and all(x in known for x in found)
    return alike and all(x in found for x in known)


def _actions(chosen: Sequence[Any], offers: _Offers) -> dict[str, Any]:
    """Return what the log says of actions: those taken, those that could be, their features."""
    if not offers.change:
        labels = _labels([*chosen, *(offers.known or ())])
        known = sorted(set(labels[len(chosen) :])) or None
        return {"action": labels[: len(chosen)], "actions": known}
    lists = offers.each()
    sizes = [len(x) for x in lists]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pairs = [action for found in lists for action in found]
    if not any(map(_has_values, pairs)):
        labels = _labels([*chosen, *pairs])
        eligible = pa.LargeListArray.from_arrays(starts, pa.array(labels[len(chosen) :]))
        return {"action": labels[: len(chosen)], "eligible": eligible}
    if not all(map(_has_values, pairs)):
        raise DataError(
            "some actions are single labels and others have values, expected one kind in all "
            "interactions"
        )
    warn(
        "the interactions: the actions that could be taken change and have values, so that these "
        "are features of the actions and a label is a place in the list, from 1"
    )
    features = pa.table(_columns(pairs, "a")).to_batches()[0].to_struct_array()
    places = np.arange(1, len(pairs) + 1) - np.repeat(starts[:-1], sizes)
    return {
        "action": [_place(one, lists[i], i) for i, one in enumerate(chosen)],
        "eligible": pa.LargeListArray.from_arrays(starts, pa.array(places)),
        "items": pa.LargeListArray.from_arrays(starts, features),
    }


def _place(action: Any, offered: Sequence[Any], number: int) -> int:
    """Return the place of the action of an interaction in the list of those offered, from 1."""
    count = offered.count(action)
    if count != 1:
        raise DataError(
            f"interaction {number} lists the action that was taken {count} times among its "
            "'actions', expected once"
        )
    return offered.index(action) + 1


def _plain(action: Any) -> Any:
    """Return an action that can be compared: sequences and arrays as tuples."""
    if hasattr(action, "tolist"):
        action = action.tolist()
    return tuple(action) if isinstance(action, list) else action


def _has_values(action: Any) -> bool:
    return isinstance(action, tuple | Mapping)


def _field(one: Any, name: str) -> Any:
    """Return an entry of a mapping, or an attribute; None if there is none."""
    if isinstance(one, Mapping):
        return one.get(name)
    return getattr(one, name, None)


def _labels(actions: Sequence[Any]) -> list[Any]:
    """Return actions as labels: whole numbers if all of them are, else text."""
    if all(isinstance(x, int) and not isinstance(x, bool) for x in actions):
        return list(actions)
    return [str(x) for x in actions]


def _columns(contexts: Sequence[Any], letter: str = "x") -> dict[str, pa.Array] | None:
    """Return the columns of contexts, or of actions; None if there are none.

    Args:
        contexts: one a row.
        letter: how the names of values without one begin.

    Raises:
        DataError: for different numbers of values, and for a column of several kinds of them.
    """
    rows = [_row(x, letter) for x in contexts]
    dense = not any(isinstance(x, Mapping) for x in contexts)
    names = list(dict.fromkeys(name for row in rows for name in row))
    what = "contexts" if letter == "x" else "actions"
    if dense and any(len(row) != len(names) for row in rows):
        raise DataError(
            f"the {what} have different numbers of values, expected as many in each; give "
            "mappings from name to value if some are absent"
        )
    columns: dict[str, pa.Array] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        absent: Any = 0.0
        if any(isinstance(x, str) for x in values):
            # a text that is not there is missing
            absent = None
        try:
            columns[name] = pa.array([absent if x is None else x for x in values])
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as cause:
            line = " ".join(str(cause).split())[:200]
            raise DataError(
                f"the {what} have values of several kinds in {name!r}: {line}; give numbers or text"
            ) from None
    return columns or None


def _row(context: Any, letter: str) -> dict[str, Any]:
    """Return the values of a context or an action by the names of their columns."""
    if context is None:
        return {}
    if isinstance(context, Mapping):
        return {str(name): _value(x) for name, x in context.items()}
    if isinstance(context, str) or not isinstance(context, Iterable):
        return {f"{letter}0": _value(context)}
    return {f"{letter}{i}": _value(x) for i, x in enumerate(context)}


def _value(value: Any) -> Any:
    # coba's Categorical is text with more to it
    if isinstance(value, str):
        return str(value)
    return value
