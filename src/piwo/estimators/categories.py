"""Categories of actions: one value each, several columns of items, or discrete embeddings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions, Label
from piwo.messages import argument

__all__ = ["Codes", "places_of"]

Codes = npt.NDArray[np.intp]

_BIN = (
    "round it (np.round(z, 1)), or give the number of its bin or cluster, so that several actions "
    "share each value"
)


def places_of(actions: Actions, categories: Any) -> tuple[Codes, int]:
    """Return the category of each action as a number, (K,), and how many there are.

    Actions of one category have equal values: equal texts or numbers, equal vectors, or equal
    values in each of several columns.

    Args:
        actions: of the log.
        categories: label -> value or vector; or a column of items, or several.

    Raises:
        UsageError: for actions without a category, values that are none, and embeddings of numbers
            that no two actions share.

    >>> places, count = places_of(Actions(["a", "b", "z"]), {"a": [0, 1], "b": [0, 1], "z": [1, 1]})
    >>> places.tolist(), count
    ([0, 0, 1], 2)
    """
    expected = ": label -> category, or columns of items"
    check_kind("categories", categories, (Mapping, str, list, tuple), expected)
    if not isinstance(categories, Mapping):
        categories = _of_columns(actions, categories)
    given = _by_text(categories)
    lacking: list[Label] = [x for x in actions if str(x) not in given]
    if lacking:
        named = ", ".join(map(repr, lacking[:5]))
        raise UsageError(
            f"{argument('categories')} has no category for {len(lacking)} of the "
            f"{len(actions)} actions ({named}); give every action one"
        )
    numbers: dict[Any, int] = {}
    places = [numbers.setdefault(given[str(x)], len(numbers)) for x in actions]
    if len(numbers) == len(actions) > 1 and any(_fractional(x) for x in numbers):
        raise UsageError(
            f"{argument('categories')} is a continuous embedding: each of the {len(actions)} "
            f"actions has its own, so that weights are those of actions; {_BIN}"
        )
    return np.array(places, np.intp), len(numbers)


def _of_columns(actions: Actions, columns: str | Sequence[Any]) -> dict[Label, Any]:
    """Return label -> value of a column of items, or the values of several."""
    names = [columns] if isinstance(columns, str) else list(columns)
    if actions.items is None:
        raise UsageError(
            f"{argument('categories')} is {columns!r}, a column of {argument('items')}, and the "
            "log was read without; give label -> category"
        )
    if actions.items.inline:
        raise UsageError(
            f"{argument('categories')} is {columns!r}, and features of actions are inside the log, "
            "where they may differ from row to row; give label -> category"
        )
    table = actions.items.table
    for name in names:
        if name not in table.column_names:
            raise UsageError(
                f"{argument('categories')} is {name!r}, expected a column of {argument('items')} "
                f"({', '.join(table.column_names)}) or label -> category"
            )
    if not names:
        raise UsageError(
            f"{argument('categories')} is {columns!r}, expected at least one column of "
            f"{argument('items')}"
        )
    values = [table[name].to_pylist() for name in names]
    if len(values) == 1:
        return dict(zip(actions.labels, values[0], strict=True))
    return dict(zip(actions.labels, zip(*values, strict=True), strict=True))


def _by_text(categories: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the text of each label -> its category, vectors as tuples."""
    given: dict[str, Any] = {}
    for label, category in categories.items():
        if str(label) in given:
            raise UsageError(
                f"{argument('categories')} has two labels that read {str(label)!r}, such as the "
                "number and its text; keep one of them"
            )
        value = _plain(category)
        if not isinstance(value, Hashable):
            raise UsageError(
                f"{argument('categories')} gives {label!r} the category {shown(category)}, "
                "expected text, a number, or a list of these"
            )
        if _is_missing(value):
            raise UsageError(
                f"{argument('categories')} gives {label!r} a category that is missing or has NaN "
                f"({shown(category)}), expected text, a number, or a list of these; give such "
                "actions a category of their own"
            )
        given[str(label)] = value
    return given


def _plain(value: Any) -> Any:
    """Return a vector as a tuple, of tuples if it holds vectors; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    return value


def _is_missing(value: Any) -> bool:
    """Whether a category, or an entry of one, is None or NaN."""
    if isinstance(value, tuple):
        return any(map(_is_missing, value))
    is_number = isinstance(value, float | np.floating)
    return value is None or (is_number and bool(np.isnan(value)))


def _fractional(value: Any) -> bool:
    """Whether a category has a number that is not whole."""
    if isinstance(value, tuple):
        return any(map(_fractional, value))
    return isinstance(value, float | np.floating) and not float(value).is_integer()
