"""What a reader of the value of a slate policy must know."""

from __future__ import annotations

from collections.abc import Sequence

from piwo.bounds import Interval
from piwo.evaluation.notes import vacuous_note
from piwo.logs.actions import Label
from piwo.logs.person_columns import undeclared_units
from piwo.logs.provable import unit_note, unprovable
from piwo.messages import Note, argument
from piwo.slates.log import SlateLog
from piwo.slates.policy import SlatePolicy
from piwo.slates.provenance import overlap_of
from piwo.slates.sums import SlateState, SlateSums
from piwo.visible import rows_text

__all__ = ["few_of", "notes_on", "outside_notes", "vacuous_notes"]

_FEW = 5
"""How many labels a message lists."""


def notes_on(
    log: SlateLog,
    policy: SlatePolicy,
    task: SlateSums,
    state: SlateState,
    interval: str,
    why_not: Note | None,
    never: Sequence[Label],
    self_normalized: bool = False,
) -> tuple[Note, ...]:
    """Return what a reader must know, the most important first.

    Args:
        log: the rows.
        policy: the target.
        task: what was summed.
        state: its sums.
        interval: the method.
        why_not: why there is no interval.
        never: of `never_logged`.
        self_normalized: whether the estimate is.
    """
    estimator, shift = task.estimator, task.shift
    notes = []
    if why_not is not None:
        notes.append(why_not)
    notes.append(Note(f"assumes: {estimator.assumption}", kind="assumptions"))
    if state.lengths_differ:
        notes.append(
            Note(
                "assumes that the number of slots, which differs between rows, does not depend on "
                "the actions that are shown, and that the target fills as many",
                kind="lengths",
            )
        )
    if never and not estimator.negative:
        estimate = "nor does the estimate"
        if self_normalized:
            estimate = "and the estimate takes them to be like its other actions"
        notes.append(
            Note(
                f"the target shows actions that were never logged ({few_of(never)}): the lower "
                f"bound does not count what it earns by them, {estimate}",
                kind="unsupported",
            )
        )
    notes += _of_rows(log, policy, interval, why_not)
    if why_not is None and interval == "normal":
        notes.append(Note("the interval is asymptotic: not valid at every n", kind="asymptotic"))
        obstacle = unprovable(log.roles, log.learning, ())
        if obstacle is not None:
            notes.append(obstacle)
    if why_not is None and shift > 0 and interval != "normal":
        notes.append(
            Note(
                f"weights may be negative, down to -{shift:.4g}: the bounds are those of credits "
                "shifted by that, and wider",
                kind="shifted",
            )
        )
    return tuple(notes)


def _of_rows(log: SlateLog, policy: SlatePolicy, interval: str, why_not: Note | None) -> list[Note]:
    """Return the notes on what is assumed of the rows."""
    columns, notes = log.roles, []
    if columns.unit is not None:
        notes.append(unit_note(columns.unit))
    if why_not is None and interval == "deadline":
        assumed = "assumes independent rows and a fixed logger"
        if columns.unit is not None:
            assumed = "assumes a fixed logger"
        notes.append(Note(assumed, kind="independent-rows"))
    notes += undeclared_units(columns, log.source.schema)
    # Rows that seem to contradict their propensities may be those that the policy was learned from.
    open_question = why_not is None or why_not.kind == "contradicted"
    if policy.learned is not None and policy.learned_from is None and open_question:
        rows, source = policy.learned["rows"], policy.learned["source"]
        how = overlap_of(log, policy).how or "its file does not hold them"
        notes.append(
            Note(
                f"assumes that these are other rows than the {rows_text(rows)} of {source!r} from "
                f"which the policy was learned: {how}",
                kind="learned-elsewhere",
            )
        )
    return notes


def few_of(labels: Sequence[Label]) -> str:
    """Return the first few labels, as text.

    >>> few_of(["a", 3]), few_of(range(9))
    ("'a', 3", '0, 1, 2, 3, 4, ...')
    """
    few = ", ".join(map(repr, labels[:_FEW]))
    if len(labels) > _FEW:
        few += ", ..."
    return few


def vacuous_notes(shown: Interval, most: float) -> tuple[Note, ...]:
    """Return the note on an interval that is all that the value can be, if it is.

    Args:
        shown: the interval of the result, on the unit scale.
        most: the highest possible value.

    >>> vacuous_notes(Interval(0.0, 1.0), 1.0)[0].kind, vacuous_notes(Interval(0.1, 1.0), 1.0)
    ('vacuous', ())
    >>> vacuous_notes(Interval(0.0, 1.0, "asymptotic"), 1.0), vacuous_notes(Interval(None, None), 1)
    ((), ())
    """
    given = shown.lower is not None or shown.upper is not None
    if shown.guarantee != "finite-sample" or not given:
        return ()
    if shown.says_nothing_below() and shown.says_nothing_above(most):
        return (vacuous_note(),)
    return ()


def outside_notes(
    value: float | None, low: float | None, high: float | None, mean_weight: float
) -> tuple[Note, ...]:
    """Return the note on an estimate outside its interval, if it is.

    Args:
        value: the estimate.
        low: the raw lower end.
        high: the raw upper end.
        mean_weight: of the rows.

    >>> outside_notes(0.2, 0.3, None, 0.5)[0].kind, outside_notes(0.3, 0.3, None, 0.5)
    ('outside', ())
    """
    below = value is not None and low is not None and value < low
    above = value is not None and high is not None and value > high
    if not (below or above):
        return ()
    return (
        Note(
            f"the estimate lies outside the interval, because the mean weight is {mean_weight:.4g} "
            f"and not 1; {argument('self_normalized', value=True)} corrects for that",
            kind="outside",
        ),
    )
