"""The answer of `piwo slates`: what evaluations of slates say, and whether a gate passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from piwo import Decision, Gate
from piwo.cli.answer import Answer
from piwo.errors import FileError
from piwo.evaluation.record import ends_text
from piwo.slates import SlateComparison, SlateEvaluation, SlateLog
from piwo.slates.estimators import ESTIMATORS
from piwo.visible import confidence, number, rows_text, table, visible

__all__ = ["Gated", "facts_of", "slate_answer", "slate_proof"]


@dataclass(frozen=True)
class Gated:
    """What evaluations say in one sentence, and the gate; None: none was asked for."""

    decision: Decision
    gate: Gate | None

    @property
    def passed(self) -> bool:
        """Whether no gate refuses."""
        return self.gate is None or self.gate.passed

    @property
    def headline(self) -> str:
        """The first line of the answer."""
        if self.gate is not None and self.gate.dependent is not None:
            return f"Cannot be told: {self.gate.dependent}"
        return self.decision.sentence

    @property
    def lines(self) -> list[str]:
        """The lines on the gate."""
        if self.gate is None:
            return []
        asked = ", ".join(self.gate.policies)
        if not self.gate.passed:
            return [f"gate: {one}" for one in self.gate.reasons]
        passed = f"gate: passed: {asked}"
        if self.gate.at_least is not None:
            passed += f", worth at least {self.gate.at_least:g}"
        return [passed]

    @property
    def document(self) -> dict[str, Any]:
        """Both as JSON has them."""
        gate = None
        if self.gate is not None:
            gate = {"passed": self.gate.passed, **self.gate.to_dict()}
        return {"decision": self.decision.to_dict(), "gate": gate}


def slate_answer(
    log: SlateLog,
    found: SlateComparison,
    gated: Gated,
    *,
    tried: Mapping[str, Sequence[SlateEvaluation]] | None = None,
    rules: Mapping[str, Sequence[Sequence[str]]] | None = None,
    following: Sequence[str] = (),
) -> Answer:
    """Return the answer on policies that were evaluated.

    Args:
        log: the rows.
        found: the evaluations.
        gated: what they say, and the gate.
        tried: policy -> the evaluations from which its assumption was chosen; None: none was.
        rules: policy -> of each part of the rows, the leaves of its tree; None: there are none.
        following: the lines on what to do next.
    """
    lines = [gated.headline, "", *_report(log, found)]
    for name, evaluations in (tried or {}).items():
        each = ", ".join(f"{x.estimator} {ends_text(x.lower, x.upper)}" for x in evaluations)
        lines.append(f"{name} was tried on {evaluations[0].rows:,} other rows: {each}")
    for name, trees in (rules or {}).items():
        lines += [f"{name}, part {i}: {'; '.join(tree)}" for i, tree in enumerate(trees, 1)]
    lines += gated.lines
    lines += ["", *following]
    page = found.to_dict()
    policies = []
    for record, one in zip(page.pop("evaluations"), found.evaluations, strict=True):
        policies.append({**record, "in_sample": one.in_sample, "certified": one.certified_better})
    document = {
        "log": facts_of(log, found.evaluations[0].rows),
        "policies": policies,
        **page,
        **gated.document,
    }
    if tried is not None:
        document["tried"] = {name: _records(each) for name, each in tried.items()}
    if rules is not None:
        document["rules"] = {name: list(map(list, each)) for name, each in rules.items()}
    return Answer("\n".join(map(visible, lines)), document, code=int(not gated.passed))


def slate_proof(file: str, record: Mapping[str, Any]) -> list[str]:
    """Return the lines on what a file says was proved of its policy.

    Args:
        file: its name.
        record: of `SlateEvaluation.to_dict`.

    Raises:
        FileError: if the record is damaged, or of another version.
    """
    known = {one.name for one in fields(SlateEvaluation)}
    reals = {"value", "lower", "upper", "improvement_lower", "logging_value", "propensity_p"}
    try:
        if not all(isinstance(record[name], int | float | None) for name in reals):
            raise TypeError
        found = SlateEvaluation(**{name: record[name] for name in known & set(record)})
        level = confidence(found.delta, "%")
    except (KeyError, TypeError):
        raise FileError(
            f"{file}: the record of the policy's evaluation is damaged; learn the policy again"
        ) from None
    value = "not defined" if found.value is None else number(found.value)
    ends = f"no interval: {found.no_interval}"
    if found.no_interval is None:
        ends = f"{level} interval {ends_text(found.lower, found.upper)} ({found.interval})"
    gain = "no bound"
    if found.improvement_lower is not None:
        gain = f"at least {number(found.improvement_lower)}"
    gain += f" over {found.over} ({number(found.logging_value)})"
    rests = f"{rows_text(found.rows)} that were not used to learn"
    return [
        f"held-out evaluation, estimator {found.estimator}, delta {found.delta:g}",
        f"  value        {value}, {ends}",
        f"  improvement  {gain}: {'' if found.certified_better else 'not '}certified better",
        f"  rests on     {rests}",
        f"  assumes      {found.assumption}",
    ]


def _records(evaluations: Sequence[SlateEvaluation]) -> list[dict[str, Any]]:
    """Return evaluations as JSON has them."""
    return [one.to_dict() for one in evaluations]


def _report(log: SlateLog, found: SlateComparison) -> list[str]:
    """Return the lines on the log, the table of policies, and the notes."""
    first = found.evaluations[0]
    counted = f"{first.rows:,} rows"
    if first.units is not None:
        counted += f", {first.units:,} units"
    lines = [
        f"{visible(log.name)}: {counted}, {len(log.actions)} actions, up to {log.slots} slots",
        f"logged: {number(first.logging_value)} a slate",
        "",
    ]
    header = ["policy", "estimator", "value", "lower", "upper", "improvement, at least"]
    header += ["at most", "ESS", "mean weight"]
    cells = []
    for one in found.evaluations:
        ends = (one.value, one.lower, one.upper, one.improvement_lower, one.improvement_upper)
        cells.append([one.name, one.estimator, *map(number, (*ends, one.ess, one.mean_weight))])
    lines += table(header, cells)
    lines += ["", _claim(found)]
    assumed = {one.estimator: one.assumption for one in found.evaluations}
    lines += [f"{name} assumes: {text}" for name, text in assumed.items()]
    lines += _unused(found)
    notes: dict[str, list[str]] = {}
    for one in found.evaluations:
        for note in one.notes:
            # the assumptions of estimators are above
            if note.kind != "assumptions":
                notes.setdefault(str(note), []).append(f"{one.name}, {one.estimator}")
    for text, whose in notes.items():
        about = "" if len(whose) == len(found.evaluations) else f"{'; '.join(whose)}: "
        lines.append(f"note: {about}{text}")
    return lines + [f"note: {note}" for note in found.notes]


def _unused(found: SlateComparison) -> list[str]:
    """Return why estimators cannot be used, each reason once."""
    lines = []
    unused: dict[str, list[str]] = {}
    for name, why in found.left_out.items():
        for text in why.values():
            unused.setdefault(text, []).append(name)
    for text, names in unused.items():
        about = ""
        if len(names) < len(found.left_out):
            about = f"{', '.join(names)}: "
        lines.append(f"not used: {about}{text}")
    return lines


def _claim(found: SlateComparison) -> str:
    """Return what is claimed for the intervals."""
    level = f"{confidence(found.delta)}"
    given = [one for one in found.evaluations if one.guarantee != "none"]
    if not given:
        return "no interval"
    first = given[0]
    if first.guarantee == "asymptotic":
        claim = f"{first.interval} intervals, asymptotic, at {level}"
        if any(one.improvement_lower is not None for one in given):
            claim += "; improvements are judged by bets, with finite-sample bounds"
        return claim
    assumed = ""
    if any(ESTIMATORS[one.estimator].strength > 0 for one in given):
        assumed = ", if their assumptions hold"
    claim = f"{first.interval} intervals, which hold together with probability at least {level}"
    claim += assumed
    if any(one.improvement_lower is not None for one in given):
        claim += (
            "; so do all lower bounds on improvements, and all upper ones, each as a statement of "
            "its own"
        )
    return claim


def facts_of(log: SlateLog, rows: int) -> dict[str, Any]:
    """Return what the log is, as JSON has it."""
    columns = log.columns
    return {
        "source": log.source.name,
        "rows": rows,
        "actions": len(log.actions),
        "slots": log.slots,
        "columns": {
            "slate": columns.slate,
            "eligible": columns.eligible,
            "reward": columns.reward,
            "rewards": columns.rewards,
            "unit": columns.unit,
            "weight": columns.weight,
            "user_behavior": columns.user_behavior,
            "propensities": list(log.logger.numbers),
        },
    }
