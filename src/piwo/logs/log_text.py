"""A log in three lines."""

from __future__ import annotations

from collections.abc import Sized

from piwo.logs.columns import Columns
from piwo.visible import visible_lines

__all__ = ["log_text"]


def log_text(
    name: str,
    rows: int | None,
    actions: Sized | None,
    columns: Columns,
    reward_range: tuple[float, float],
    logger: str | None,
) -> str:
    """Return what a log is, in three lines.

    Args:
        name: of its source.
        rows: how many; None: not counted yet.
        actions: all of them; None: not known yet.
        columns: their roles.
        reward_range: as declared.
        logger: as declared.

    >>> print(log_text("x.csv", 2000, None, Columns(), (0.0, 1.0), "fixed"))
    Log of 'x.csv': 2,000 rows, actions not counted yet
      columns: action='action', reward='reward', propensity='propensity'
      rewards in [0, 1], logger fixed
    """
    counted, listed = "rows not counted yet", "actions not counted yet"
    if rows is not None:
        counted = f"{rows:,} rows"
    if actions is not None:
        listed = f"{len(actions):,} actions"
    shown = []
    for role, value in columns.by_role().items():
        if value not in (None, ()):
            shown.append(f"{role}={value!r}")
    low, high = reward_range
    lines = [
        f"Log of {name!r}: {counted}, {listed}",
        f"  columns: {', '.join(shown)}",
        f"  rewards in [{low:g}, {high:g}], logger {logger or 'not declared'}",
    ]
    return visible_lines(lines)
