"""`piwo learn`: learn a policy, certify it, and save both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import piwo
from piwo.certificates.certificate import NO_BOUND, Certificate
from piwo.certificates.terms import check_at_least
from piwo.cli.answer import Answer
from piwo.cli.explain import CANDIDATES, ExplainOption, explained
from piwo.cli.learn_options import AUTO, DEFAULT_LEARNING, POSTERIORS, Learner, LearnOptions
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, LogPaths, log_facts
from piwo.cli.next_steps import after_learn
from piwo.cli.shared_options import (
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    OutputOptions,
    RunOptions,
)
from piwo.cli.terms import NO_TERMS, TermOptions
from piwo.decision import decide_by_certificate
from piwo.errors import UsageError
from piwo.evaluation.guardrails import Guardrail, guardrails_of, share_of_delta, shared_note
from piwo.evaluation.segment import segments_note
from piwo.evaluation.segments import SegmentRequest
from piwo.learners.report import CandidateReport, LearningReport
from piwo.learners.terms import guardrails_of_learned, segments_of_learned
from piwo.logs.unit_columns import dependent_rows
from piwo.messages import Note
from piwo.policies.sameness import policy_digest
from piwo.visible import number, table, visible

__all__ = ["learn"]


def learn(
    log: LogPaths,
    *,
    out: Annotated[
        Path,
        Parameter(help="File for policy and certificate, replaced.", show=True),
    ],
    gate: Annotated[
        bool,
        Parameter(
            help="Exit with 1, and keep an old file, unless certified better.",
            show=True,
            show_default=False,
        ),
    ] = False,
    explain: ExplainOption = False,
    learning: LearnOptions = DEFAULT_LEARNING,
    terms: TermOptions = NO_TERMS,
    columns: LogOptions = DEFAULT_COLUMNS,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Learn a policy, certify it on held-out rows, save both; Ctrl-C saves the best."""
    terms.require_gate(gate)
    if gate:
        columns.check_gate()
    rows = columns.read(log, outcomes=terms.columns, segments=terms.segments)
    oracle = learning.chosen_oracle(math.isfinite(rows.reward_range[1]))
    learner = learning.learner(rows, gate)
    if not rows.columns.context:
        raise UsageError(f"the {oracle} oracle needs context; name it: --context 'hour,device_*'")

    certificate = _certified(learner, oracle, rows, terms, gate)
    report, facts = learner.describe(), log_facts(rows, certificate.log_rows)
    # What `piwo policy show` prints of the training.
    training = {
        "log": rows.source.name,
        "where": columns.where,
        "rows": certificate.training_rows,
        "score": certificate.score,
        "parameter": certificate.parameter,
        "rule": learner.rule_,
        "oracle": oracle,
        **report.facts,
        "holdout": learning.holdout,
        "seed": learning.seed,
        "columns": facts["columns"],
        "propensities": facts["propensities"],
    }
    metadata = {"certificate": certificate.to_dict(), "training": training}
    dependent = None
    if gate and not columns.independent_rows:
        dependent = dependent_rows(rows)
    refused = gate and (report.in_sample or bool(certificate.refusals) or dependent is not None)
    # A refused policy must not run, and the one that runs today may be in this file.
    if not refused:
        learner.policy_.save(out, metadata=metadata)
    saved = _saved_line(out, certificate, report)
    # What is not proved better is shown, rather than run.
    proved = bool(certificate.certified) and report.stays is None and not report.in_sample
    closing = after_learn(
        out, log[0], rows.columns, learner.policy_, saved, refused=refused, proved=proved
    )
    result = None
    if gate:
        result = _gate_result(certificate, report, terms, refused, dependent)
        # An improvement that is asked for alone is reported with the certificate.
        if terms.at_least is not None or terms.guardrail or dependent is not None:
            closing = [*terms.gate_lines(result["refused"], result["open"]), *closing]
    decision = decide_by_certificate(certificate, str(out))
    first = decision.sentence if dependent is None else f"Cannot be told: {dependent}"
    lines = [visible(first), "", *_report_lines(report, certificate, explain)]
    return Answer(
        text="\n".join([*lines, *closing]),
        document={
            "log": facts,
            "policy": str(out),
            "saved": not refused,
            **metadata,
            "path": _candidate_records(report),
            "decision": decision.to_dict(),
            "gate": result,
            "notes": list(certificate.notes),
        },
        code=int(refused),
    )


def _gate_result(
    certificate: Certificate,
    report: LearningReport,
    terms: TermOptions,
    refused: bool,
    dependent: str | None,
) -> dict[str, Any]:
    """Return what the gate says, as JSON has it.

    Args:
        certificate: of the learned policy.
        report: of the learner.
        terms: the least value and the guardrails.
        refused: whether the gate refused the policy.
        dependent: why the rows are not independent; None: nothing speaks against it.
    """
    why = [*certificate.refusals]
    if report.in_sample:
        why.append("what it is compared with was learned from part of this log")
    if dependent is not None:
        why.append(dependent)
    return {
        "passed": not refused,
        "at_least": terms.at_least,
        "refused": why,
        "open": [str(one) for one in certificate.guardrails if one.answer == "open"],
    }


def _certified(
    learner: Learner, oracle: str, log: piwo.Log, terms: TermOptions, gate: bool
) -> Certificate:
    """Return the certificate of what a learner learns, with the results of the terms.

    Args:
        learner: not fitted yet.
        oracle: its name, as typed.
        log: the rows.
        terms: the least value and the guardrails.
        gate: whether only a certified policy may be saved.
    """
    if terms.at_least is not None:
        check_at_least(terms.at_least, log)
    baseline = learner.get_params().get("incumbent")
    guards = guardrails_of(terms.guardrail, log, baseline is not None)
    if guards:
        _require_held_out("--guardrail", str(guards[0]), oracle)
    if guards and not gate:
        raise UsageError(
            f"--guardrail got {str(guards[0])!r} without --gate, which asks for it; add --gate"
        )
    if terms.by is not None:
        _require_held_out("--by", terms.by, oracle)
        # What is wrong with the column is known before anything is learned.
        SegmentRequest.segments_of(log, terms.by)
    if guards or terms.by is not None:
        # The rows are split again, so they must have the same numbers in both splits.
        log = log.in_fixed_order(learner.tail or log.logger == "learning")
    if oracle == AUTO:
        # It does not choose a candidate that the gate would refuse.
        learner.set_params(at_least=terms.at_least, guardrail=terms.guardrail)
        certificate = learner.fit(log).certificate_
    else:
        certificate = _on_terms(learner, log, guards, terms.at_least)
    assert certificate is not None
    if terms.by is not None:
        certificate = _by_segment(terms.by, log, learner, certificate, baseline)
    return certificate


def _on_terms(
    learner: Learner, log: piwo.Log, guards: Sequence[Guardrail], at_least: float | None
) -> Certificate | None:
    """Return the certificate of the policy that one oracle learns, with the results of the terms.

    Args:
        learner: not fitted yet.
        log: the rows.
        guards: the guardrails.
        at_least: the least value; None: none was asked for.
    """
    delta = learner.delta
    if guards:
        learner.set_params(delta=share_of_delta(delta, guards))
    certificate = learner.fit(log).certificate_
    if certificate is None:
        return None
    if at_least is not None:
        certificate = replace(certificate, at_least=at_least)
    if guards and certificate.split is not None:
        kept = guardrails_of_learned(guards, log, learner.policy_, certificate)
        notes = (*certificate.notes, shared_note(delta, guards))
        certificate = replace(certificate, guardrails=kept, notes=notes)
    return certificate


def _require_held_out(option: str, given: str, oracle: str) -> None:
    """Raise if an oracle has no certificate on held-out rows alone, which an option needs."""
    if oracle in POSTERIORS:
        raise UsageError(
            f"{option} got {given!r}, which takes a policy certified on held-out rows alone; use "
            f"another --oracle than {' and '.join(POSTERIORS)}"
        )


def _by_segment(
    by: str, log: piwo.Log, learner: Learner, certificate: Certificate, baseline: Any
) -> Certificate:
    """Return the certificate with what holds for each segment, if it certifies a policy."""
    if certificate.split is None or certificate.bound == NO_BOUND:
        note = Note(f"no results by {by!r}: nothing is proved for this policy", kind="segments")
        return replace(certificate, notes=(*certificate.notes, note))
    # After --refit the policy to run is another one than that of the certificate.
    policy = getattr(learner, "certified_policy_", learner.policy_)
    segments = segments_of_learned(by, log, policy, certificate, baseline)
    note = segments_note(segments, certificate.delta)
    return replace(certificate, segments=segments, notes=(*certificate.notes, note))


def _saved_line(out: Path, certificate: Certificate, report: LearningReport) -> str:
    """Return which policy was saved, and whether it is certified.

    Args:
        out: the file.
        certificate: stored with the policy.
        report: of the learner.
    """
    # What the table of candidates shows is not all that there would have been.
    saved = "saved"
    if report.facts.get("interrupted"):
        saved = "interrupted: saved the best of what was learned"
    if report.stays is not None:
        return f"no policy was certified better: {saved} {report.stays} to {visible(out)}"
    if certificate.certified is None:
        return f'{saved} to {visible(out)}: nothing is proved for it, see "about" and the note'
    if not certificate.certified:
        return f"{saved} to {visible(out)}: not certified better than {certificate.over}"
    return f"{saved} to {visible(out)}"


def _report_lines(report: LearningReport, certificate: Certificate, explain: bool) -> list[str]:
    """Return the lines of the report, the table of candidates, and the certificate."""
    lines = [visible(line) for line in report.lines]
    if len(report.tried) > 1:
        lines += [*_candidate_lines(report), *explained(CANDIDATES, explain)]
        if explain:
            lines.append("")
    return [*lines, *str(certificate).splitlines()]


def _candidate_records(report: LearningReport) -> list[dict[str, Any]]:
    """Return the candidates as JSON has them."""
    rows = []
    for one, same in zip(report.tried, _same_as(report.tried), strict=True):
        rows.append({**one.facts, "chosen": one.chosen, "same_as": same})
    return rows


def _candidate_lines(report: LearningReport) -> list[str]:
    """Return the table of candidates, with remarks to the right of it."""
    cells = []
    for one in report.tried:
        cells.append([_cell(one.facts[name]) for name in report.columns])
    header, *lines = table(report.columns.values(), cells)
    remarked = [f"  {header}"]
    earlier = _same_as(report.tried)
    for one, line, same in zip(report.tried, lines, earlier, strict=True):
        parts = ["", line]
        if one.chosen:
            parts.append("<- chosen")
        if same is not None:
            parts.append(f"the same policy as {visible(same)}")
        remarked.append("  ".join(parts))
    return remarked


def _same_as(tried: Sequence[CandidateReport]) -> list[str | None]:
    """Return for each candidate the name of an earlier one with the same policy, or None."""
    first: dict[str, str] = {}
    names: list[str | None] = []
    for one in tried:
        digest = policy_digest(one.policy)
        names.append(first.get(digest))
        first.setdefault(digest, one.name)
    return names


def _cell(value: float | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return number(value)
