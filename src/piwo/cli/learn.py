"""`piwo learn`: which policy should run, and what is it worth at least?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import piwo
from piwo.certificates import Certificate
from piwo.cli.answer import Answer, table, typed
from piwo.cli.learn_options import USUAL_LEARNING, LearnOptions
from piwo.cli.log_options import AS_NAMED, LogOptions, LogPaths, log_facts
from piwo.cli.places import writable
from piwo.cli.shared_options import AS_USUAL, OutputOptions
from piwo.errors import UsageError
from piwo.report.visible import visible

__all__ = ["learn"]

_SHOWN = ("gamma", "value", "value_lower")


def learn(
    log: LogPaths,
    *,
    out: Annotated[Path, Parameter(help="File for the policy and its certificate; an old one is replaced.")],
    gate: Annotated[
        bool,
        Parameter(
            help="Exit with 1 unless the policy is certified better than the logging policy; an old file stays then."
        ),
    ] = False,
    learning: LearnOptions = USUAL_LEARNING,
    columns: LogOptions = AS_NAMED,
    output: OutputOptions = AS_USUAL,  # noqa: ARG001 (read by main)
) -> Answer:
    """Which policy should run? Learns one, certifies it on rows that learning never saw, and saves both."""
    writable(out, log)
    learner = learning.learner()
    rows = columns.read(log)
    if not rows.columns.context:
        raise UsageError(f"the {learning.oracle} oracle needs the context; name it: --context 'user_*,hour'")
    certificate = learner.fit(rows).certificate_
    assert certificate is not None
    facts = log_facts(rows, certificate.log_rows)
    training = {
        "log": rows.source.name,
        "rows": certificate.training_rows,
        "score": learner.score_.name,
        "parameter": learner.score_.value,
        "rule": learner.rule_,
        "oracle": learning.oracle,
        "holdout": learning.holdout,
        "seed": learning.seed,
        "columns": facts["columns"],
    }
    kept = {"certificate": certificate.to_dict(), "training": training}
    refused = gate and not certificate.certified
    kept_old = refused and out.exists()
    if not kept_old:
        learner.policy_.save(out, metadata=kept)
    return Answer(
        text="\n".join([*_told(learner, certificate, learning), *_after(out, log[0], refused, kept_old)]),
        document={
            "log": facts,
            "policy": str(out),
            "saved": not kept_old,
            **kept,
            "path": _path(learner),
            "notes": list(certificate.notes),
        },
        code=int(refused),
    )


def _after(out: Path, log: str, refused: bool, kept_old: bool) -> list[str]:
    """Say what became of the file, and what to do next: a policy that the gate refused is not to act."""
    if kept_old:
        return [f"not certified: kept the old {visible(out)}"]
    if refused:
        step = ["piwo", "policy", "show", str(out)]
        return [f"not certified: saved to {visible(out)} to be looked at, not to act", "", f"next: {typed(step)}"]
    step = ["piwo", "policy", "act", str(out), log, "--seed", "0"]
    return [f"saved to {visible(out)}", "", f"next: {typed(step)}"]


def _path(learner: piwo.PIWO | piwo.PIWOGrid) -> list[dict[str, Any]]:
    """Return what was tried: each gamma with its estimate and its certified value."""
    certified = [(point, point.certificate) for point in learner.path_.values() if point.certificate is not None]
    return [
        {
            "gamma": point.score.gamma_equivalent,
            "value": made.value,
            "value_lower": made.value_lower,
            "chosen": point.score == learner.score_,
        }
        for point, made in certified
    ]


def _told(learner: piwo.PIWO | piwo.PIWOGrid, certificate: Certificate, learning: LearnOptions) -> list[str]:
    score = learner.score_
    lines = [f"learned from {certificate.training_rows} rows: score {score.name}, oracle {learning.oracle}"]
    if score.value is not None:
        lines.append(f"  {score.parameter} = {score.value:.4g}; {learner.rule_}")
    tried = _path(learner)
    if len(tried) > 1:
        rows = [[*(_number(one[x]) for x in _SHOWN), "<- chosen" if one["chosen"] else ""] for one in tried]
        lines += [f"  {line}" for line in table(["gamma", "value", "at least", ""], rows)]
    return lines + [visible(line) for line in str(certificate).splitlines()]


def _number(number: float | None) -> str:
    return "?" if number is None else f"{number:.4g}"
