"""Logged interactions of coba as a log; coba itself is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from piwo.checks import check_kind
from piwo.errors import DataError, UsageError
from piwo.logs.log import Log
from piwo.messages import argument

__all__ = ["from_coba"]


def from_coba(
    interactions: Iterable[Any], *, reward_range: tuple[float, float] = (0.0, 1.0)
) -> Log:
    """Return the log of logged interactions of coba, in memory.

    Args:
        interactions: mappings (such as coba's `LoggedInteraction`), or objects with attributes:
            `context` (None, a value, a sequence of values, or a mapping from name to value in which
            what is absent is 0), `action`, `reward`, `probability`, and `actions`, the list of
            those that could be taken, or None.
        reward_range: the declared (lo, hi) of the reward.

    Returns:
        A `Log`. Actions that are neither text nor whole numbers, such as (1, 0, 0), have their text
        as label. Context columns are x0, x1, ..., or the names of the mapping.

    Raises:
        DataError: for interactions without an action, reward or probability, and for contexts of
            several kinds.
        UsageError: if the actions that could be taken change from one interaction to another.

    Source: the documentation of coba 8, "Interactions".

    >>> first = {"context": (1, "a"), "action": 2, "reward": 0.5, "probability": 0.5}
    >>> second = {"context": (3, "b"), "action": 1, "reward": 1.0, "probability": 0.25}
    >>> log = from_coba([first | {"actions": [1, 2]}, second | {"actions": [2, 1]}])
    >>> log.actions.labels, log.features.names
    ((1, 2), ('x0', 'x1=a', 'x1=b'))
    """
    check_kind("interactions", interactions, Iterable)
    table: dict[str, list[Any]] = {"action": [], "reward": [], "probability": []}
    contexts: list[Any] = []
    allowed: list[Any] | None = None
    for number, one in enumerate(interactions):
        for name, values in table.items():
            value = _field(one, name)
            if value is None:
                raise DataError(
                    f"interaction {number} has no {name!r}, expected a logged interaction; for one "
                    "without probabilities see piwo.estimate_propensities"
                )
            values.append(value)
        contexts.append(_field(one, "context"))
        allowed = _same_actions(allowed, _field(one, "actions"), number)
    if not contexts:
        raise DataError("there are no interactions, expected at least one logged decision")
    labels = _labels([*table["action"], *(allowed or ())])
    count = len(contexts)
    known = None
    if allowed is not None:
        known = sorted(set(labels[count:]))
    log = Log.from_arrays(
        action=labels[:count],
        reward=table["reward"],
        propensity=table["probability"],
        context=_columns(contexts),
        actions=known,
        reward_range=reward_range,
    )
    return replace(log, source=replace(log.source, name="the interactions"))  # type: ignore[type-var]


def _field(one: Any, name: str) -> Any:
    """Return an entry of a mapping, or an attribute; None if there is none."""
    if isinstance(one, Mapping):
        return one.get(name)
    return getattr(one, name, None)


def _same_actions(known: list[Any] | None, given: Any, number: int) -> list[Any] | None:
    """Return the actions that could be taken, which must be the same everywhere."""
    if given is None:
        return known
    found = list(given)
    if known is None:
        return found
    if found != known and (len(found) != len(known) or any(x not in known for x in found)):
        raise UsageError(
            f"interaction {number} has other actions that could be taken than one before it; sets "
            f"that change are not read as a fixed list ({argument('actions')})"
        )
    return known


def _labels(actions: Sequence[Any]) -> list[Any]:
    """Return actions as labels: whole numbers if all of them are, else text."""
    if all(isinstance(x, int) and not isinstance(x, bool) for x in actions):
        return list(actions)
    return [str(x) for x in actions]


def _columns(contexts: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return the columns of contexts; None if there are none."""
    rows = [_row(x) for x in contexts]
    dense = not any(isinstance(x, Mapping) for x in contexts)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if dense and any(len(row) != len(names) for row in rows):
        raise DataError(
            "the contexts have different numbers of values, expected as many in each; give "
            "mappings from name to value if some are absent"
        )
    columns: dict[str, list[Any]] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        absent: Any = 0.0
        if any(isinstance(x, str) for x in values):
            # a text that is not there is missing
            absent = None
        columns[name] = [absent if x is None else x for x in values]
    return columns or None


def _row(context: Any) -> dict[str, Any]:
    """Return the values of a context by the names of their columns."""
    if context is None:
        return {}
    if isinstance(context, Mapping):
        return {str(name): _value(x) for name, x in context.items()}
    if isinstance(context, str) or not isinstance(context, Iterable):
        return {"x0": _value(context)}
    return {f"x{i}": _value(x) for i, x in enumerate(context)}


def _value(value: Any) -> Any:
    # coba's Categorical is text with more to it
    if isinstance(value, str):
        return str(value)
    return value
