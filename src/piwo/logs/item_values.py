"""What a column of features of items may hold, in a table or inside a log: one set of rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.logs.actions import is_text
from piwo.logs.eligible import ragged
from piwo.logs.features import is_list, is_number, missing_rows

__all__ = ["FEATURES", "TOO_LARGE", "advice_on", "is_feature", "unusable_features"]

FEATURES = "numbers, text or lists of numbers"
"""What features are."""
LARGEST = 1e150
"""Features beyond it have squares that float64 cannot hold, and so has each model of them."""
TOO_LARGE = f"beyond {LARGEST:g}, so that squares leave float64"
"""What is wrong with such features, in words."""


def is_feature(kind: pa.DataType) -> bool:
    """Whether values of a type can be features.

    >>> is_feature(pa.list_(pa.float64())), is_feature(pa.list_(pa.string()))
    (True, False)
    """
    if is_list(kind):
        return is_number(kind.value_type) or pa.types.is_null(kind.value_type)
    text = is_text(kind) or pa.types.is_dictionary(kind)
    return bool(is_number(kind) or text or pa.types.is_null(kind))


def unusable_features(values: pa.Array) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield what is wrong with features in words, and with which of them, (n,).

    Args:
        values: n values of a type that `is_feature`.

    >>> lists = pa.array([[1.0, 2.0], [np.inf, 1.0], [1.0]])
    >>> [(state, bad.tolist()) for state, bad in unusable_features(lists) if bad.any()]
    [('infinite', [False, True, False]), ('no list of length 2', [False, False, True])]
    """
    nulls, nans = missing_rows(values)
    yield "missing", nulls | nans
    kind = values.type
    if pa.types.is_floating(kind):
        yield "infinite", _infinite(values)
        yield TOO_LARGE, _too_large(values)
    if not is_list(kind):
        return
    starts, entries = ragged(values, "items", FEATURES)
    lengths = np.diff(starts)
    if pa.types.is_floating(entries.type):
        places = np.repeat(np.arange(len(values)), lengths)
        for state, bad in (("infinite", _infinite), (TOO_LARGE, _too_large)):
            rows = np.zeros(len(values), np.bool_)
            rows[places[bad(entries)]] = True
            yield state, rows
    # A list of no numbers is no feature; the others must be as long as the first.
    most = max(1, int(lengths[0])) if len(lengths) else 1
    yield f"no list of length {most}", (lengths != most) & ~nulls


def _infinite(values: Any) -> npt.NDArray[np.bool_]:
    numbers = pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(np.isinf(numbers))


def _too_large(values: Any) -> npt.NDArray[np.bool_]:
    numbers = np.abs(pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False))
    return np.asarray((numbers > LARGEST) & np.isfinite(numbers))


def advice_on(state: str) -> str:
    """Return what to do about features in a state of `unusable_features`.

    >>> advice_on("missing")
    'fill or drop such items first'
    """
    if state == TOO_LARGE:
        return "divide the feature by a constant first"
    return "fill or drop such items first"
