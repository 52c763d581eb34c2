"""What slate evaluations say in one sentence, and a gate: may these policies run?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from piwo.checks import check_finite, check_flag, check_kind, shown
from piwo.decision import UNPROVABLE, Candidate, Decision, Frame, Units, decided, today_of
from piwo.errors import UsageError
from piwo.gates import Gate, named
from piwo.logs.unit_columns import dependent_note
from piwo.messages import Note, argument
from piwo.slates.choose import SlateChoice
from piwo.slates.compare import SlateComparison
from piwo.slates.estimators import ESTIMATORS
from piwo.slates.log import SlateLog
from piwo.slates.persons import repeated_persons
from piwo.slates.result import SlateEvaluation
from piwo.visible import visible

__all__ = ["decide", "gate"]

Evaluations = SlateEvaluation | SlateChoice | SlateComparison
"""What `slates.evaluate`, `slates.choose` and `slates.compare` return."""


def decide(evaluations: Evaluations, *, at_least: float | None = None) -> Decision:
    """Return what evaluations of slates say: switch, keep, or that it cannot be told.

    Each policy is judged by one estimator: of those in the comparison the one that assumes least
    ("standard" before "cascade", "adaptive", "pseudo-inverse", "independent"). The sentence states
    its assumption, and names the other estimators by which a policy is certified better.

    Args:
        evaluations: all of one `slates.compare`, or one of `slates.evaluate` or `slates.choose`.
        at_least: a least value that a policy must be certified to have, in the reward's unit.

    Returns:
        A `Decision`. Its gains are a slate.

    Raises:
        UsageError: for other arguments.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["a", "b"], ["b", "a"]] * 200, "rs": [[1, 0], [0, 0]] * 200},
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ... )
    >>> found = piwo.slates.compare(log, {"best": piwo.slates.Deterministic(["a", "b"])})
    >>> print(decide(found).sentence)
    Switch to best: it earns at least 0.431 more per decision than today's system, by its estimate
    0.500 (95 %, 400 decisions).
    """
    listed = _listed(evaluations)
    _check_least(at_least, listed[0])
    judged = _weakest(listed)
    first = next(iter(judged.values()))
    delta = evaluations.delta if isinstance(evaluations, SlateComparison) else first.delta
    frame = Frame(
        over=today_of(None, first.logger),
        rows=first.rows if first.units is None else first.units,
        delta=delta,
        simultaneous=len(listed),
        units=Units(),
        cost=False,
        assumes=None,
        unit=first.unit if first.units is not None else None,
    )
    made = decided([_candidate(one, at_least) for one in judged.values()], frame, None)
    others = _certified_otherwise(listed, judged)
    if made.verdict == "keep" and others:
        text = f"{made.sentence} Certified better only if more is assumed: {others}."
        made = replace(made, sentence=visible(text))
    return made


def gate(
    log: SlateLog,
    evaluations: Evaluations,
    *,
    policies: str | Iterable[str] | None = None,
    at_least: float | None = None,
    independent_rows: bool = False,
) -> Gate:
    """Return whether policies of slates may run: certified better than the logging policy.

    The same as `piwo.gate`. Each policy is judged by the estimator that assumes least, as in
    `slates.decide`; evaluate by one estimator alone to ask another, whose intervals then need not
    share delta. Its assumption is not tested.

    Args:
        log: the rows that the evaluations were made from.
        evaluations: of `slates.compare`, `slates.evaluate` or `slates.choose`.
        policies: which of them must pass; None: all.
        at_least: the least value, in the reward's unit, fixed before the log was seen.
        independent_rows: whether rows are independent although a column that is named like the id
            of a user has values that repeat.

    Returns:
        A `Gate`: `passed`, and `refused` with reasons. It is true if it passed.

    Raises:
        UsageError: for other arguments, and names that are not among the evaluations.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["a", "b"], ["b", "a"]] * 200, "rs": [[1, 0], [0, 0]] * 200},
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ... )
    >>> pages = {name: piwo.slates.Deterministic(list(name)) for name in ("ab", "ba")}
    >>> found = piwo.slates.compare(log, pages, estimators=["independent"])
    >>> print(gate(log, found))
    refused: not certified better than the logging policy by independent: ba
    >>> gate(log, found, policies="ab").passed
    True
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    check_flag("independent_rows", independent_rows)
    listed = _listed(evaluations)
    _check_least(at_least, listed[0])
    _require_of(log, listed[0])
    judged = _weakest(listed)
    if policies is not None:
        judged = named(judged, policies)
    dependent: Note | None = None
    person = None if independent_rows else repeated_persons(log)
    if person is not None:
        dependent = dependent_note(person)
    refused: dict[str, tuple[str, ...]] = {}
    for name, one in judged.items():
        why = _refusals(one, at_least)
        if dependent is not None:
            why = (dependent, *why)
        if why:
            refused[name] = why
    least = None if at_least is None else float(at_least)
    return Gate(tuple(judged), least, refused, (), dependent)


def _check_least(at_least: object, one: SlateEvaluation) -> None:
    """Raise for a least value that no slate can have, or that is no number."""
    if at_least is None:
        return
    check_finite("at_least", at_least)
    assert isinstance(at_least, int | float)
    most = math.inf if one.largest_value is None else one.largest_value
    if not 0.0 <= at_least <= most:
        raise UsageError(
            f"{argument('at_least')} is {at_least!r}, expected a value of a slate, in [0, {most:g}]"
        )


def _require_of(log: SlateLog, one: SlateEvaluation) -> None:
    """Raise for an evaluation that was made from another log, as far as can be seen."""
    pairs: list[tuple[str, object, object]] = [
        ("unit", log.columns.unit, one.unit),
        ("logger", log.learning, one.logger),
    ]
    for what, here, there in pairs:
        if here != there:
            raise UsageError(
                f"{argument('log')} has another {what} ({here}) than the log of the evaluations "
                f"({there}); give the log that they were made from"
            )


def _listed(evaluations: object) -> tuple[SlateEvaluation, ...]:
    """Return the evaluations, at least one."""
    found: tuple[SlateEvaluation, ...] = ()
    if isinstance(evaluations, SlateEvaluation):
        found = (evaluations,)
    elif isinstance(evaluations, SlateChoice):
        found = (evaluations.evaluation,)
    elif isinstance(evaluations, SlateComparison):
        found = evaluations.evaluations
    if not found:
        raise UsageError(
            f"{argument('evaluations')} is {shown(evaluations)}, expected what slates.evaluate, "
            "slates.choose or slates.compare returns"
        )
    return found


def _weakest(listed: Iterable[SlateEvaluation]) -> dict[str, SlateEvaluation]:
    """Return the evaluation of each policy by the estimator that assumes least."""
    found: dict[str, SlateEvaluation] = {}
    for one in listed:
        known = found.get(one.name)
        if known is None or _strength(one) < _strength(known):
            found[one.name] = one
    return found


def _strength(one: SlateEvaluation) -> int:
    return ESTIMATORS[one.estimator].strength


def _candidate(one: SlateEvaluation, at_least: float | None) -> Candidate:
    refused: tuple[str, ...] = ()
    unproved = one.no_interval
    if unproved is None and one.improvement_lower is None:
        # an asymptotic interval is there, and a note says why nothing is proved
        unproved = next((note for note in one.notes if note.kind in UNPROVABLE), None)
    if at_least is not None and not one.reaches(at_least):
        refused = (f"its value is not certified to be at least {at_least:g}",)
    return Candidate(
        name=one.name,
        value=one.value,
        gain_lower=one.improvement_lower,
        gain_upper=one.improvement_upper,
        today=one.logging_value,
        refused=refused,
        unproved=unproved,
        unsupported=None,
        notes=one.notes,
        assumes=None if _strength(one) == 0 else one.assumption,
    )


def _certified_otherwise(
    listed: Iterable[SlateEvaluation], judged: Mapping[str, SlateEvaluation]
) -> str:
    """Return the policies that estimators which assume more certify, in words; else no text."""
    names: dict[str, list[str]] = {}
    for one in listed:
        if one.certified_better and not judged[one.name].certified_better:
            names.setdefault(one.name, []).append(one.estimator)
    return "; ".join(f"{name} by {', '.join(by)}" for name, by in names.items())


def _refusals(one: SlateEvaluation, at_least: float | None) -> tuple[str, ...]:
    """Return why a gate refuses a policy, in words; empty if it passes."""
    found = []
    if not one.certified_better:
        why = ""
        if one.no_interval is not None:
            why = f" ({one.no_interval})"
        found.append(f"not certified better than {one.over} by {one.estimator}{why}")
    if at_least is not None and not one.reaches(at_least):
        found.append(
            f"not certified to be worth at least {at_least:g}, by the lower end of the interval"
        )
    return tuple(found)
