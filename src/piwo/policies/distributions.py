"""Checks probabilities that a user gives; matches their columns to actions by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from piwo.checks import real_array
from piwo.errors import DataError, UsageError, warn
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.foreign import TOLERANCE, RowError
from piwo.messages import argument
from piwo.policies.policy import ActionList, action_list
from piwo.sources.frames import is_frame, to_table

__all__ = ["TOLERANCE", "checked_distributions", "checked_probabilities", "named_table"]

# Sums this close to 1 differ from it by rounding in float64: such rows are kept as they are.
_ROUNDING = 1e-12


def _numbers(values: Any) -> Floats:
    try:
        return real_array(values).copy()
    except (TypeError, ValueError):
        raise DataError(
            "the probabilities are not numbers, expected an array of numbers between 0 and 1"
        ) from None


def checked_distributions(table: Any) -> Floats:
    """Return an (n, K) float64 copy of probability rows, each divided by its own sum.

    Rows must sum to 1 within `TOLERANCE`. The division removes the rounding of float32 tables; rows
    that sum to 1 up to rounding in float64 are kept as they are.

    Raises:
        DataError: for a negative, NaN or infinite probability, or a row that does not sum to 1; the
            row is named.

    >>> checked_distributions([[0.25, 0.75]]).tolist()
    [[0.25, 0.75]]
    """
    found = _numbers(table)
    if found.ndim != 2:
        raise DataError(f"the probabilities have shape {found.shape}, expected (rows, actions)")
    bad = ~((found >= 0) & np.isfinite(found)).all(axis=1)
    if bad.any():
        raise RowError(
            f"a probability is negative, NaN or infinite ({int(bad.sum()):,} rows in all)",
            int(np.flatnonzero(bad)[0]),
        )
    sums = found.sum(axis=1)
    wrong = np.abs(sums - 1.0) > TOLERANCE
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise RowError(
            f"the probabilities sum to {sums[row]:.6g}, expected 1 within "
            f"{TOLERANCE:g} ({int(wrong.sum()):,} rows in all); "
            "divide each row by its sum if they are unnormalized",
            row,
        )
    uneven = np.abs(sums - 1.0) > _ROUNDING
    found[uneven] /= sums[uneven, None]
    return found


def checked_probabilities(values: Any) -> Floats:
    """Return an (n,) float64 copy of probabilities.

    Raises:
        DataError: for one that is negative, NaN, or above 1 by more than `TOLERANCE`; the row is
            named.

    Warns:
        PiwoWarning: if a probability is above 1 within `TOLERANCE`; it counts as 1.

    >>> checked_probabilities([0.2, 1.0]).tolist()
    [0.2, 1.0]
    """
    found = _numbers(values)
    bad = ~((found >= 0) & (found <= 1.0 + TOLERANCE))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise RowError(
            f"the probability is {found[row]:.9g}, expected 0 to 1 ({int(bad.sum()):,} rows in "
            "all)",
            row,
        )
    above = int((found > 1.0).sum())
    if above:
        warn(f"{above} probabilities are above 1 by less than {TOLERANCE:g}; they count as 1")
    return np.minimum(found, 1.0)


def named_table(values: Any, actions: ActionList | None) -> tuple[Any, Actions]:
    """Return (n, K) probabilities and their actions; a frame's columns are matched by name.

    Raises:
        UsageError: for a plain array without `actions`, or another number of columns than actions.
        DataError: for a frame with a missing or an extra column.

    >>> table, known = named_table({"b": [0.25], "a": [0.75]}, ["a", "b"])
    >>> table.tolist(), known.labels
    ([[0.75, 0.25]], ('a', 'b'))
    """
    if not is_frame(values):
        if actions is None:
            raise UsageError(
                "a plain array of probabilities does not name the actions of its "
                f"columns; pass {argument('actions', '[...]')}"
            )
        known = action_list(actions)
        shape = np.shape(values)
        if len(shape) != 2 or shape[1] != len(known):
            raise UsageError(
                f"the probabilities have shape {shape}, expected (rows, {len(known)}): "
                "one column per action"
            )
        return values, known
    table = to_table(values)
    named = Actions(table.column_names)
    known = named if actions is None else action_list(actions)
    missing = [x for x in known if x not in named]
    extra = [x for x in named if x not in known]
    if missing or extra:
        raise DataError(
            "the columns of the probabilities are not the actions: missing "
            f"{missing[:5]}, extra {extra[:5]}; give one column for each action, named "
            "like it"
        )
    return np.column_stack([table[str(label)].to_numpy() for label in known]), known
