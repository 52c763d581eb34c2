"""`piwo learn`: learn a policy, certify it, and save both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer, typed
from piwo.cli.learn_options import DEFAULT_LEARNING, LearnOptions
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, LogPaths, log_facts
from piwo.cli.shared_options import (
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    OutputOptions,
    RunOptions,
)
from piwo.errors import UsageError
from piwo.learners.report import CandidateReport, LearningReport
from piwo.policies import Policy
from piwo.policies.sameness import policy_digest
from piwo.visible import table, visible, without_secrets

__all__ = ["learn"]


def learn(
    log: LogPaths,
    *,
    out: Annotated[
        Path,
        Parameter(
            help="File for the policy and its certificate; an old one is replaced.", show=True
        ),
    ],
    gate: Annotated[
        bool,
        Parameter(
            help="Exit with 1, and keep an old file, unless the policy is certified better than "
            "the logging policy or --baseline.",
            show=True,
            show_default=False,
        ),
    ] = False,
    learning: LearnOptions = DEFAULT_LEARNING,
    columns: LogOptions = DEFAULT_COLUMNS,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Learn a policy, certify it on held-out rows, and save both."""
    if gate:
        columns.check_gate()
    rows = columns.read(log)
    oracle = learning.chosen_oracle(math.isfinite(rows.reward_range[1]))
    learner = learning.learner(rows, gate)
    if not rows.columns.context:
        raise UsageError(f"the {oracle} oracle needs the context; name it: --context 'user_*,hour'")

    certificate = learner.fit(rows).certificate_
    assert certificate is not None
    report, facts = learner.describe(), log_facts(rows, certificate.log_rows)
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
    kept = {"certificate": certificate.to_dict(), "training": training}
    refused = gate and (report.in_sample or not certificate.certified)
    kept_old = refused and out.exists()
    if not kept_old:
        learner.policy_.save(out, metadata=kept)
    saved = _saved(out, certificate, report.stays)
    after = _after(out, log[0], learner.policy_, saved, refused, kept_old)
    return Answer(
        text="\n".join([*_shown(report, certificate), *after]),
        document={
            "log": facts,
            "policy": str(out),
            "saved": not kept_old,
            **kept,
            "path": _path(report),
            "notes": list(certificate.notes),
        },
        code=int(refused),
    )


def _after(
    out: Path, log: str, policy: Policy, saved: str, refused: bool, kept_old: bool
) -> list[str]:
    """Return lines on what was saved, and the command to run next."""
    if kept_old:
        return [f"not certified: kept the old {visible(out)}"]
    show = f"next: {typed(['piwo', 'policy', 'show', str(out)])}"
    if refused:
        # shown and not used: a policy that the gate refused is not to act
        return [f"not certified: saved to {visible(out)} for inspection only", "", show]
    if not policy.gives_full_distribution:
        records = f"{visible(out)} records this, and cannot be used to act"
        return [f"no policy was certified better; keep the current one ({records})", "", show]
    # rows of a cluster stay there
    if log.startswith("spark:"):
        return [saved, "", show]
    act = ["piwo", "policy", "act", str(out), without_secrets(log), "--epsilon", "0.05"]
    return [saved, "", f"next: {typed(act)}"]


def _saved(out: Path, certificate: Certificate, stays: str | None) -> str:
    """Return what was saved: an uncertified policy is handed over as such."""
    if stays is not None:
        return f"no policy was certified better: saved {stays} to {visible(out)}"
    if certificate.certified is None:
        return f'saved to {visible(out)}: nothing is proved for it, see "about" and the note'
    if not certificate.certified:
        return f"saved to {visible(out)}: not certified better than {certificate.over}"
    return f"saved to {visible(out)}"


def _shown(report: LearningReport, certificate: Certificate) -> list[str]:
    """Return the lines of the report, the table of candidates, and the certificate."""
    lines = [visible(line) for line in report.lines]
    if len(report.tried) > 1:
        lines += _candidates(report)
    return [*lines, *str(certificate).splitlines()]


def _path(report: LearningReport) -> list[dict[str, Any]]:
    """Return the candidates for the JSON document."""
    rows = []
    for one, before in zip(report.tried, _same(report.tried), strict=True):
        rows.append({**one.facts, "chosen": one.chosen, "same_as": before})
    return rows


def _candidates(report: LearningReport) -> list[str]:
    """Return the table of candidates, with marks after the rows."""
    cells = [_cells(one, report.columns) for one in report.tried]
    head, *lines = table(report.columns.values(), cells)
    shown = [f"  {head}"]
    for one, line, before in zip(report.tried, lines, _same(report.tried), strict=True):
        parts = ["", line]
        if one.chosen:
            parts.append("<- chosen")
        if before is not None:
            parts.append(f"the same policy as {visible(before)}")
        shown.append("  ".join(parts))
    return shown


def _same(tried: Sequence[CandidateReport]) -> list[str | None]:
    """Return the name of the first candidate with the same policy; None for a new policy."""
    first: dict[str, str] = {}
    names: list[str | None] = []
    for one in tried:
        digest = policy_digest(one.policy)
        names.append(first.get(digest))
        first.setdefault(digest, one.name)
    return names


def _cells(one: CandidateReport, columns: Iterable[str]) -> list[str]:
    """Return the row of one candidate."""
    return [_cell(one.facts[name]) for name in columns]


def _cell(value: float | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:.4g}"
