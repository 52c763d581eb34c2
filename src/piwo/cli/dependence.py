"""Whether a gate may take the rows of a log for independent."""

from __future__ import annotations

import piwo
from piwo.health.unit_columns import unit_columns

__all__ = ["dependence"]


def dependence(log: piwo.Log, declared: bool) -> str | None:
    """Return why a gate refuses the rows of a log; None if it does not. It may take a pass.

    Rows of one user depend on each other, so that bounds for independent rows are invalid.

    Args:
        log: the rows.
        declared: whether they were declared to be independent.

    >>> rows = {"action": ["a", "b"] * 9, "reward": [1] * 18, "propensity": [0.5] * 18}
    >>> dependence(piwo.Log.from_arrays(**rows), declared=False) is None
    True
    """
    if declared:
        return None
    for one in unit_columns(log):
        if one.person:
            return (
                f"column {one.column!r} has about {one.rows_each:.3g} rows a value, which depend "
                f"on each other: declare --unit {one.column}, or say --independent-rows"
            )
    return None
