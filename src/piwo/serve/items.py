"""The items of one decision, with their features: labels may be ones that no policy has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from piwo.checks import a_kind, shown
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, Label
from piwo.logs.eligible import Eligible
from piwo.logs.item_values import LARGEST, TOO_LARGE
from piwo.messages import argument
from piwo.policies.policy import Policy
from piwo.serve.values import KINDS, VALUES, plain_value

__all__ = ["Items", "Offer", "item_columns", "offered"]

Items: TypeAlias = Mapping[Any, Mapping[str, Any]] | Sequence[Mapping[str, Any]]
"""Features of items: label -> name -> value; or a list, in the order of the eligible labels."""
_TYPES = {"number": pa.float64(), "text": pa.string(), "vector": pa.list_(pa.float64())}


@dataclass(frozen=True)
class Offer:
    """What may be chosen in one decision, and the policy over these labels."""

    policy: Policy
    eligible: Eligible
    """With the features of each label."""
    labels: tuple[Label, ...]
    """In the order in which they were given."""
    features: tuple[Mapping[str, Any], ...]
    """Of each label, as they are logged."""


def item_columns(policy: Policy) -> dict[str, str] | None:
    """Return the features of items that a policy reads: name -> number, text or vector.

    None: it scores actions by their labels.

    >>> from piwo.policies import Uniform
    >>> item_columns(Uniform(["a", "b"])) is None
    True
    """
    if policy.item_features is None:
        return None
    return {item.column: KINDS[item.kind] for item in policy.item_features.items}


def offered(policy: Policy, columns: Mapping[str, str], eligible: Any, items: Items) -> Offer:
    """Return what may be chosen, for a policy that scores items by their features.

    `Policy.act` decides in the same way, with `eligible` and lists of objects as `items`.

    Args:
        policy: scores items by features.
        columns: name of a feature -> its kind: those of the policy, and others that are logged.
        eligible: a list of labels; None: those of `items`, which then has labels.
        items: see `Items`.

    Raises:
        DataError: for an eligible label without features, for labels that are listed twice, and
            for features that are missing, unknown or of another type.

    >>> from piwo.logs import Features
    >>> from piwo.policies import JointLinear, JointModel
    >>> model = JointModel([[1.0]], [0.0], [[1.0]], Features.numeric(["heat"]))
    >>> policy = JointLinear(model, ["soup"])
    >>> offered(policy, {"heat": "number"}, None, {"ice": {"heat": -1}}).labels
    ('ice',)
    """
    labels, rows = _listed(eligible, items, isinstance(policy.actions.labels[0], int))
    features = tuple(
        _features(row, label, columns) for label, row in zip(labels, rows, strict=True)
    )
    # As `Policy.act` has them: codes follow the order of the labels, not that of the list.
    actions = Actions(sorted(labels))
    codes = actions.codes(list(labels))
    arrays = {}
    for name, kind in columns.items():
        arrays[name] = pa.array([one[name] for one in features], _TYPES[kind])
    some = Eligible(np.array([0, len(labels)], np.int64), codes, pa.record_batch(arrays))
    over = policy.onto(actions.with_inline_items("action"))
    return Offer(over, some, labels, features)


def _listed(
    eligible: Any, items: Items, whole: bool
) -> tuple[tuple[Label, ...], list[Mapping[str, Any]]]:
    """Return labels, and the features of each."""
    if isinstance(items, Mapping):
        known = {str(label): row for label, row in items.items()}
        given = list(items) if eligible is None else _list_of("eligible", eligible)
        labels = _labels(given, whole)
        for label in labels:
            if str(label) not in known:
                raise DataError(
                    f"{argument('items')} has no features of {label!r}, which is eligible; give "
                    "them, or leave it out"
                )
        return labels, [known[str(label)] for label in labels]
    rows = _list_of("items", items)
    if eligible is None:
        raise DataError(
            f"{argument('items')} is a list without labels; give {argument('eligible')}, too, or "
            "items as label -> features"
        )
    labels = _labels(_list_of("eligible", eligible), whole)
    if len(rows) != len(labels):
        raise DataError(
            f"{argument('items')} has the features of {len(rows)} items, expected those of "
            f"{len(labels)}, one for each eligible label"
        )
    return labels, rows


def _list_of(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence | np.ndarray):
        wanted = (
            "a list of labels" if name == "eligible" else "label -> features, or a list of them"
        )
        raise DataError(f"{argument(name)} is {shown(values)}, expected {wanted}")
    return list(values)


def _labels(given: Sequence[Any], whole: bool) -> tuple[Label, ...]:
    """Return labels in the type of the policy's."""
    found: list[Label] = []
    for label in given:
        usable = isinstance(label, str | int | np.integer) and not isinstance(label, bool)
        try:
            if not usable:
                raise ValueError
            one = int(label) if whole else str(label)
            if whole and not -(2**63) <= one < 2**63:  # type: ignore[operator]
                raise ValueError
            found.append(one)
        except ValueError:
            wanted = "a whole number of 64 bits" if whole else "text"
            raise DataError(
                f"{argument('eligible')} has {shown(label)}, expected {wanted}, as the labels of "
                "the policy are"
            ) from None
    if not found:
        raise DataError(f"{argument('eligible')} has no label; list at least one")
    if len(set(found)) < len(found):
        raise DataError("an eligible action is listed twice; list each once")
    return tuple(found)


def _features(row: Any, label: Label, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the features of one item, as they are logged."""
    if not isinstance(row, Mapping):
        raise DataError(
            f"{argument('items')}: {label!r} has {a_kind(row)}, expected its features, such as "
            f"{dict.fromkeys(list(columns)[:3], '...')}"
        )
    odd = row.keys() - columns.keys()
    if odd:
        raise DataError(
            f"{argument('items')}: {label!r} has {min(odd, key=str)!r}, expected "
            f"{', '.join(list(columns)[:8])}; leave it out"
        )
    found = {}
    for name, kind in columns.items():
        value = row.get(name)
        # Most values are finite numbers, and a server has no time to look twice.
        if type(value) is float and kind == "number" and -LARGEST <= value <= LARGEST:
            found[name] = value
            continue
        try:
            value = plain_value(name, kind, value)
            if value is None or (kind == "vector" and None in value):
                raise DataError("missing")
        except DataError:
            raise DataError(
                f"{argument('items')}: {name!r} of {label!r} is {shown(row.get(name))}, expected "
                f"{VALUES[kind]}"
            ) from None
        if kind != "text" and np.abs(value).max(initial=0.0) > LARGEST:
            raise DataError(f"{argument('items')}: {name!r} of {label!r} is {TOO_LARGE}")
        found[name] = value
    return found


def refuse_without_features(policy: Policy) -> None:
    """Raise for a policy that scores actions by their labels.

    >>> from piwo.policies import Uniform
    >>> refuse_without_features(Uniform(["a"]))
    Traceback (most recent call last):
    piwo.errors.UsageError: a uniform policy knows no features of items; leave items out
    """
    if policy.item_features is None:
        raise UsageError(
            f"a {policy.kind} policy knows no features of items; leave {argument('items')} out"
        )
