"""A gate: may these policies run? The same answer in Python and from `piwo evaluate --gate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from piwo.certificates.terms import check_at_least
from piwo.checks import check_flag, check_kind, shown
from piwo.errors import UsageError
from piwo.evaluation.comparison import Comparison, require_together
from piwo.evaluation.record import Evaluation
from piwo.logs.log import Log
from piwo.logs.unit_columns import dependent_rows
from piwo.messages import argument
from piwo.records import Record
from piwo.visible import visible_lines

__all__ = ["Gate", "gate", "named"]

T = TypeVar("T")


@dataclass(frozen=True)
class Gate(Record):
    """Whether policies may run, and why not; see `gate`.

    >>> print(Gate(("b",), 0.5, {}, ()))
    passed: b
    >>> print(Gate(("b",), None, {"b": ("not certified better than the logging policy",)}, ()))
    refused: not certified better than the logging policy: b
    """

    policies: tuple[str, ...]
    """Those that were asked about."""
    at_least: float | None
    """The least value that each must be certified to have; None: none."""
    refused: Mapping[str, tuple[str, ...]]
    """Why a policy is refused, in words; those that pass are left out."""
    open: tuple[str, ...]
    """Guardrails that are certified neither way, in words; these do not refuse."""
    dependent: str | None = None
    """Why the rows are not independent; None: nothing speaks against it."""

    @property
    def passed(self) -> bool:
        """Whether no policy is refused."""
        return not self.refused

    def __bool__(self) -> bool:
        return self.passed

    @property
    def reasons(self) -> list[str]:
        """The reasons of all refusals, each once, with the policies that it is about."""
        names: dict[str, list[str]] = {}
        for name, why in self.refused.items():
            for one in why:
                names.setdefault(one, []).append(name)
        return [f"{why}: {', '.join(about)}" for why, about in names.items()]

    def __str__(self) -> str:
        if self.passed:
            return visible_lines([f"passed: {', '.join(self.policies)}"])
        return visible_lines([f"refused: {one}" for one in self.reasons])


def gate(
    log: Log,
    evaluations: Evaluation | Mapping[str, Evaluation],
    *,
    policies: str | Iterable[str] | None = None,
    at_least: float | None = None,
    independent_rows: bool = False,
) -> Gate:
    """Return whether policies may run: certified better than what runs today, and nothing against.

    A policy is refused if it is not certified better than the logging policy (or the baseline of
    the evaluation), if its value is not certified to be at least `at_least`, if it is certified to
    break a guardrail, and if rows of one user repeat that were not declared: their bounds are then
    invalid. The last takes a pass over columns that are named like ids of users, if there are any.

    Args:
        log: the rows that the evaluations were made from.
        evaluations: of one policy, from `evaluate`, or of several, from one `compare`.
        policies: which of them must pass; None: all, but the baseline.
        at_least: the least value, in the reward's unit, fixed before the log was seen.
        independent_rows: whether rows are independent although a column that is named like the id
            of a user has values that repeat.

    Returns:
        A `Gate`: `passed`, and `refused` with reasons. It is true if it passed.

    Raises:
        UsageError: for other arguments, names that are not among the evaluations, evaluations of
            another log or that were not made together, and if only the baseline is given.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 100, reward=[1, 0] * 100, propensity=[0.5] * 200
    ... )
    >>> candidates = {name: piwo.policies.Constant(name, log.actions) for name in "ab"}
    >>> found = piwo.compare(log, candidates)
    >>> print(gate(log, found))
    refused: not certified better than the logging policy: b
    >>> gate(log, found, policies="a").passed
    True
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    check_flag("independent_rows", independent_rows)
    if at_least is not None:
        check_at_least(at_least, log)
    found = _named(evaluations)
    require_together(list(found.values()))
    _require_of(log, next(iter(found.values())))
    judged = _judged(found, policies)
    dependent = None
    if not independent_rows:
        dependent = dependent_rows(log)
    refused: dict[str, tuple[str, ...]] = {}
    unproved: list[str] = []
    for name, one in judged.items():
        why = one.refusals(at_least)
        if dependent is not None:
            why = (dependent, *why)
        if why:
            refused[name] = why
        unproved += [f"{name}: {each}" for each in one.guardrails if each.answer == "open"]
    least = None if at_least is None else float(at_least)
    return Gate(tuple(judged), least, refused, tuple(unproved), dependent)


def _named(evaluations: object) -> dict[str, Evaluation]:
    given: dict[str, object] = {}
    if isinstance(evaluations, Evaluation):
        given = {evaluations.name: evaluations}
    elif isinstance(evaluations, Mapping | Comparison):
        given = dict(evaluations)
    found = {name: one for name, one in given.items() if isinstance(one, Evaluation)}
    if not found or len(found) < len(given):
        raise UsageError(
            f"{argument('evaluations')} is {shown(evaluations)}, expected what piwo.evaluate or "
            "piwo.compare returns"
        )
    return found


def _require_of(log: Log, one: Evaluation) -> None:
    """Raise for an evaluation that was made from another log, as far as can be seen."""
    pairs: list[tuple[str, object, object]] = [
        ("unit", log.columns.unit, one.unit),
        ("logger", log.logger, one.logger),
    ]
    if log.source.rows is not None and log.selector is None:
        pairs.append(("number of rows", log.source.rows, one.rows))
    for what, here, there in pairs:
        if here != there:
            raise UsageError(
                f"{argument('log')} has another {what} ({here}) than the log of the evaluations "
                f"({there}); give the log that they were made from"
            )


def _judged(
    found: Mapping[str, Evaluation], policies: str | Iterable[str] | None
) -> dict[str, Evaluation]:
    """Return the evaluations that are asked about."""
    if policies is None:
        # A baseline that is evaluated as well is not better than itself.
        others = {name: one for name, one in found.items() if name != one.baseline}
        if not others:
            raise UsageError(
                f"{argument('evaluations')} has the baseline alone, expected a policy that may "
                "take its place"
            )
        return others
    return named(found, policies)


def named(found: Mapping[str, T], policies: str | Iterable[str]) -> dict[str, T]:
    """Return the evaluations that are named.

    Args:
        found: name -> evaluation.
        policies: one name, or several.

    Raises:
        UsageError: for no name, and for one that is not among them.

    >>> named({"a": 1, "b": 2}, "b")
    {'b': 2}
    """
    if not isinstance(policies, Iterable):
        raise UsageError(
            f"{argument('policies')} is {shown(policies)}, expected names of the evaluations"
        )
    asked = [policies] if isinstance(policies, str) else list(policies)
    if not asked:
        raise UsageError(f"{argument('policies')} is empty, expected names of the evaluations")
    for name in asked:
        if name not in list(found):
            raise UsageError(
                f"{argument('policies')} has {shown(name)}, expected one of {', '.join(found)}"
            )
    return {name: found[name] for name in asked}
