"""What the oracles over joint features share: standardized items, and policies from weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.logs.items import encoded, learn_item_features
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.oracle import Oracle
from piwo.policies import JointLinear, JointModel

__all__ = ["WIDEST", "Crosses", "ItemOracle", "ItemTable", "crossed", "joint_policy", "joint_width"]

WIDEST = 4096
"""Most joint features of a regression: their Gram matrix takes 128 MB."""

Crosses = Sequence[tuple[str, str]]
"""Pairs of a column of the context and a column of items."""


class ItemOracle(Oracle):
    """An oracle over features of context and item; items may change from row to row."""

    def takes_eligible(self) -> bool:
        """True: only eligible items of a row are looked at."""
        return True

    def needs_items(self) -> bool:
        """True: features of items make the features."""
        return True


@dataclass(frozen=True)
class ItemTable:
    """The features of a log's items, centered and divided by their scale.

    >>> ItemTable(Features.numeric(1), "ad", np.zeros(1), np.ones(1), np.zeros((2, 1))).label
    'ad'
    """

    features: Features
    label: str
    center: Floats
    """(f,) mean over the items."""
    scale: Floats
    """(f,) what columns are divided by."""
    table: Floats
    """(K, f)."""

    @classmethod
    def of(cls, log: Log, standardize: bool) -> ItemTable:
        """Return the table of a log that has items."""
        items = log.actions.items
        assert items is not None
        features = learn_item_features(items, log.encoding)
        table = encoded(items, features)
        center, scale = table.mean(axis=0), np.ones(features.width)
        if standardize:
            deviation = table.std(axis=0)
            scale = np.where(deviation > 0.0, deviation, 1.0)
        return cls(features, items.label, center, scale, (table - center) / scale)


def joint_width(log: Log) -> int:
    """Return (d + 1)(f + 1), the number of products of (1, x) and (1, z), for a log with items.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0]],
    ...     action=["a"],
    ...     reward=[1],
    ...     propensity=[1.0],
    ...     items={"action": ["a"], "price": [1.0], "size": [2.0]},
    ... )
    >>> joint_width(log)
    6
    """
    items = log.actions.items
    assert log.features is not None
    assert items is not None
    return (log.features.width + 1) * (learn_item_features(items, log.encoding).width + 1)


def joint_policy(weights: Floats, items: ItemTable, log: Log) -> JointLinear:
    """Return the policy of the scores (1, x)'M (z_a - center) / scale, M (d + 1, f) weights."""
    table = items.table * items.scale + items.center
    own = weights / items.scale
    model = JointModel(own[1:], own[0], table, items.features, items.label)
    return JointLinear(model, log.actions, log.features)


def crossed(crosses: Crosses | None, context: Features, items: Features) -> npt.NDArray[np.bool_]:
    """Return which products of (1, x) and (1, z) are features, (d + 1, f + 1).

    Columns alone always are.

    Args:
        crosses: pairs of source columns; None: all.
        context: of the log.
        items: of the log's items.

    Raises:
        UsageError: for a pair of columns that are not there.

    >>> crossed([("x0", "x1")], Features.numeric(1), Features.numeric(2)).tolist()
    [[True, True, True], [True, False, True]]
    """
    used = np.ones((context.width + 1, items.width + 1), np.bool_)
    if crosses is None:
        return used
    used[1:, 1:] = False
    for one, other in crosses:
        rows = np.array(context.sources) == one
        columns = np.array(items.sources) == other
        if not (rows.any() and columns.any()):
            raise UsageError(
                f"{argument('crosses')} has ({one!r}, {other!r}), expected pairs of a column of "
                f"the context ({', '.join(context.columns)}) and one of items "
                f"({', '.join(items.columns)})"
            )
        used[1:, 1:] |= np.outer(rows, columns)
    return used
