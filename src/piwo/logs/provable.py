"""Whether anything can be proved from the rows of a log, and what results must say of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from piwo.logs.action_costs import ActionCosts
from piwo.logs.columns import Columns
from piwo.logs.person_columns import undeclared_units
from piwo.messages import Note, argument

__all__ = [
    "approximate",
    "assumed_of_logger",
    "caveats_of_rows",
    "unit_note",
    "unprovable",
    "unverified",
]


def unprovable(
    columns: Columns, logger: str | None, chosen_by: Sequence[str], *, at_random: bool = False
) -> Note | None:
    """Return why nothing can be proved; None if it can.

    Args:
        columns: of the log.
        logger: what was declared of it.
        chosen_by: the columns of decisions and rewards that the condition on the rows mentions.
        at_random: whether they are one side of a random split.

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
    if at_random and logger == "learning":
        return Note(
            "these rows are a random part of a log whose logger seems to have learned from earlier "
            "rows, so that actions of one part reveal rewards of the other; hold out the last rows "
            f"({argument('tail', value=True)}), or declare {argument('logger', 'fixed')}",
            kind="learning-at-random",
        )
    if chosen_by:
        return _chosen_note(chosen_by)
    return None


def _chosen_note(chosen_by: Sequence[str]) -> Note:
    """Return the note on rows that were chosen by what was decided or earned."""
    named = ", ".join(map(repr, chosen_by))
    return Note(
        f"the condition mentions {named}: rows were chosen by what was decided or earned, so "
        "weights and rewards of the remaining rows are biased",
        kind="condition",
    )


def unit_note(unit: str) -> Note:
    """Return the note on what a log by unit estimates, and what its statements assume.

    >>> unit_note("user").kind
    'by-unit'
    """
    return Note(
        f"by unit: each value of {unit!r} counts the same, with the mean over its rows; assumes "
        "independent units, and that how many rows a unit has does not depend on the actions taken",
        kind="by-unit",
    )


def assumed_of_logger(logger: str | None, unit: str | None = None) -> tuple[Note, ...]:
    """Return the note of statements that are about independent rows, as of a fixed logger.

    Args:
        logger: what was declared of it.
        unit: the column of units; None: statements are of rows.

    >>> [note.kind for note in assumed_of_logger(None)], assumed_of_logger("fixed")
    (['assumed-fixed'], ())
    """
    if logger == "fixed":
        return ()
    counted = "rows" if unit is None else "units"
    if logger is None:
        return (
            Note(
                f"assumes independent {counted} and a logger that was fixed, which did not learn "
                f"from earlier rows; nothing verifies that; declare {argument('logger')}",
                kind="assumed-fixed",
            ),
        )
    return (
        Note(
            "the logger learned from earlier rows, so that rows depend on each other: this result, "
            "which assumes independent rows, has no guarantee",
            kind="learning-approximate",
        ),
    )


def approximate(columns: Columns, logger: str | None, chosen_by: Sequence[str]) -> tuple[Note, ...]:
    """Return the notes of every result that is an approximation for independent rows.

    Args:
        columns: of the log.
        logger: what was declared of it.
        chosen_by: the columns of decisions and rewards that the condition on the rows mentions.

    >>> [note.kind for note in approximate(Columns(unit="user"), None, ["reward"])]
    ['condition', 'by-unit', 'assumed-fixed']
    """
    notes: list[Note] = []
    if chosen_by:
        notes.append(_chosen_note(chosen_by))
    if columns.unit is not None:
        notes.append(unit_note(columns.unit))
    return (*notes, *assumed_of_logger(logger, columns.unit))


def caveats_of_rows(
    costs: ActionCosts | None, unchecked: bool, columns: Columns, schema: Iterable[pa.Field]
) -> tuple[Note, ...]:
    """Return the notes of every result about how the rows were read.

    Args:
        costs: what was subtracted from the rewards; None: nothing.
        unchecked: whether checksums were not compared.
        columns: of the log.
        schema: of its source.

    >>> [note.kind for note in caveats_of_rows(None, True, Columns(), ())]
    ['unverified']
    """
    found: list[Note] = []
    if costs is not None:
        found.append(costs.note)
    if unchecked:
        found.append(unverified())
    return (*found, *undeclared_units(columns, schema))


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
