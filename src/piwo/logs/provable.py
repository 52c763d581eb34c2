"""Whether anything can be proved from the rows of a log, whichever policy is asked about."""

from __future__ import annotations

from collections.abc import Sequence

from piwo.logs.columns import Columns
from piwo.messages import Note, argument

__all__ = ["unprovable", "unverified"]


def unprovable(columns: Columns, logger: str | None, chosen_by: Sequence[str]) -> Note | None:
    """Return why nothing can be proved; None if it can.

    Args:
        columns: of the log.
        logger: what was declared of it.
        chosen_by: the columns of decisions and rewards that the condition on the rows mentions.

    >>> unprovable(Columns(), None, ["reward"]).kind
    'condition'
    """
    if columns.weight is not None:
        return Note(
            "the log was thinned (sampling weights) and the dropped rows are not counted",
            kind="thinned",
        )
    if columns.unit is not None and logger == "learning":
        return Note(
            "rows of a unit depend on each other and the logger learned from earlier rows; "
            "nothing is proved for both together",
            kind="learning-units",
        )
    if chosen_by:
        named = ", ".join(map(repr, chosen_by))
        return Note(
            f"the condition mentions {named}: rows were chosen by what was decided or earned, so "
            "weights and rewards of the remaining rows are biased",
            kind="condition",
        )
    return None


def unverified() -> Note:
    """Return the note on files that a query of the user's reads.

    >>> unverified().kind
    'unverified'
    """
    return Note(
        "the query reads files by itself, and DuckDB does not compare the checksums of Parquet and "
        "gzip files: damage to them may go unnoticed; name the files and a condition "
        f"({argument('where')}) instead of a query to have them compared",
        kind="unverified",
    )
