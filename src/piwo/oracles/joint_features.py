"""What the oracles over joint features share: standardized items, and policies from weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.logs.inline import encoded_pairs
from piwo.logs.items import encoded, item_features
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.oracle import Oracle
from piwo.policies import JointLinear, JointModel
from piwo.reductions.pair_moments import PairMoments
from piwo.reductions.reduce import reduce

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
    """(K, f); if features are inside the log, their means over the pairs of each label."""
    inline: bool = False
    """Whether features are inside the log, those of each row."""

    @classmethod
    def of(cls, log: Log, standardize: bool) -> ItemTable:
        """Return the table of a log that has items."""
        items, features = log.actions.items, item_features(log)
        assert items is not None
        if items.inline:
            return cls._of_pairs(log, features, standardize)
        table = encoded(items, features)
        center, scale = table.mean(axis=0), np.ones(features.width)
        if standardize:
            deviation = table.std(axis=0)
            scale = np.where(deviation > 0.0, deviation, 1.0)
        return cls(features, items.label, center, scale, (table - center) / scale)

    @classmethod
    def _of_pairs(cls, log: Log, features: Features, standardize: bool) -> ItemTable:
        """Return the table of a log with features of each row, from one pass over its pairs."""
        count, first = len(log.actions), log.first_batch(context=True)
        shift = np.zeros(features.width)
        if first is not None and first.eligible is not None and len(first.eligible.codes):
            shift = encoded_pairs(first.eligible, features).mean(axis=0)
        state = reduce(log, PairMoments(features, count, shift))
        pairs = np.maximum(state.pairs, 1.0)
        total = max(float(state.pairs.sum()), 1.0)
        # mean and deviation over all pairs, about the shift
        mean = state.sums.sum(axis=0) / total
        scale = np.ones(features.width)
        if standardize:
            variance = np.maximum(state.squares / total - mean**2, 0.0)
            scale = np.where(variance > 0.0, np.sqrt(variance), 1.0)
        # a label without a pair has the mean of all
        means = np.where(state.pairs[:, None] > 0.0, state.sums / pairs[:, None], mean)
        label = log.columns.action
        table = (means - mean) / scale
        return cls(features, label, mean + shift, scale, table, inline=True)

    def of_pairs(self, eligible: Eligible) -> Floats:
        """Return the standardized features of pairs that bring their own, (m, f)."""
        return (encoded_pairs(eligible, self.features) - self.center) / self.scale


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
    assert log.features is not None
    return (log.features.width + 1) * (item_features(log).width + 1)


def joint_policy(weights: Floats, items: ItemTable, log: Log) -> JointLinear:
    """Return the policy of the scores (1, x)'M (z_a - center) / scale, M (d + 1, f) weights."""
    table = items.table * items.scale + items.center
    own = weights / items.scale
    model = JointModel(own[1:], own[0], table, items.features, items.label, items.inline)
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
