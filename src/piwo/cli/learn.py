"""`piwo learn`: which policy should run, and what is it worth at least?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer, table, typed
from piwo.cli.learn_options import USUAL_LEARNING, LearnOptions
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, LogPaths, log_facts
from piwo.cli.output_path import writable
from piwo.cli.shared_options import (
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    OutputOptions,
    RunOptions,
    named_policy,
)
from piwo.errors import UsageError, warn
from piwo.evaluation.provenance import overlaps
from piwo.learners.report import CandidateReport, LearningReport
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.policies.sameness import policy_digest
from piwo.sources.addresses import without_secrets
from piwo.visible import visible

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
    learning: LearnOptions = USUAL_LEARNING,
    columns: LogOptions = DEFAULT_COLUMNS,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Learn a policy, certify it on held-out rows, and save both."""
    writable(out, log)
    if gate:
        columns.check_gate()
    rows = columns.read(log)
    bounded = math.isfinite(rows.reward_range[1])
    oracle = learning.sought(bounded)
    learner = learning.learner(rows, gate)
    if not rows.columns.context:
        raise UsageError(f"the {oracle} oracle needs the context; name it: --context 'user_*,hour'")
    against_its_own = _incumbent_learned_here(learning.incumbent, rows)
    certificate = learner.fit(rows).certificate_
    assert certificate is not None
    account, facts = learner.describe(), log_facts(rows, certificate.log_rows)
    training = {
        "log": rows.source.name,
        "where": columns.where,
        **_training(learner.rule_, account, certificate, learning, oracle),
        "columns": facts["columns"],
        "propensities": facts["propensities"],
    }
    kept = {"certificate": certificate.to_dict(), "training": training}
    refused = gate and (against_its_own or not certificate.certified)
    kept_old = refused and out.exists()
    if not kept_old:
        learner.policy_.save(out, metadata=kept)
    after = _after(out, log[0], learner.policy_, account.stays, refused, kept_old)
    return Answer(
        text="\n".join([*_told(account, certificate), *after]),
        document={
            "log": facts,
            "policy": str(out),
            "saved": not kept_old,
            **kept,
            "path": _path(account),
            "notes": list(certificate.notes),
        },
        code=int(refused),
    )


def _training(
    rule: str,
    account: LearningReport,
    certificate: Certificate,
    learning: LearnOptions,
    oracle: str,
) -> dict[str, Any]:
    """Return what is kept beside the policy of how it was learned."""
    return {
        "rows": certificate.training_rows,
        "score": certificate.score,
        "parameter": certificate.parameter,
        "rule": rule,
        "oracle": oracle,
        **account.facts,
        "holdout": learning.holdout,
        "seed": learning.seed,
    }


def _incumbent_learned_here(incumbent: str | None, log: Log) -> bool:
    """Whether the incumbent was learned from these rows, and warn: a gain over it there is luck."""
    if incumbent is None:
        return False
    policy = named_policy(incumbent).make(log.actions)
    found = overlaps(log, {incumbent: policy})[incumbent]
    if found.certain:
        warn(
            f"{incumbent} was learned from part of this log ({found.how}), so that no gain over it "
            "is certified, whatever the certificate says; learn from other rows"
        )
    return found.certain


def _after(
    out: Path, log: str, policy: Policy, stays: str | None, refused: bool, kept_old: bool
) -> list[str]:
    """Say what became of the file, and what to do next: a policy that the gate refused is not to act."""
    if kept_old:
        return [f"not certified: kept the old {visible(out)}"]
    show = ["piwo", "policy", "show", str(out)]
    if refused:
        return [
            f"not certified: saved to {visible(out)} to be looked at, not to act",
            "",
            f"next: {typed(show)}",
        ]
    if not policy.gives_full_distribution:
        return [
            f"nothing better was found: {visible(out)} says so, and cannot act",
            "",
            f"next: {typed(show)}",
        ]
    act = ["piwo", "policy", "act", str(out), without_secrets(log), "--epsilon", "0.05"]
    saved = (
        f"saved to {visible(out)}"
        if stays is None
        else f"nothing better was found: saved {stays} to {visible(out)}"
    )
    step = show if log.startswith("spark:") else act  # rows of a cluster stay there
    return [saved, "", f"next: {typed(step)}"]


def _path(account: LearningReport) -> list[dict[str, Any]]:
    """Return what was tried, with what is certified of it, and the name under which the same policy stands before."""
    same = _same(account.tried)
    pairs = zip(account.tried, same, strict=True)
    return [{**one.facts, "chosen": one.chosen, "same_as": before} for one, before in pairs]


def _told(account: LearningReport, certificate: Certificate) -> list[str]:
    tried = _tried(account) if len(account.tried) > 1 else []
    return [*map(visible, account.lines), *tried, *str(certificate).splitlines()]


def _same(tried: Sequence[CandidateReport]) -> list[str | None]:
    """Return the name under which each policy stands before; None for one that is new."""
    first: dict[str, int] = {}
    found = [first.setdefault(policy_digest(one.policy), i) for i, one in enumerate(tried)]
    return [None if before == i else tried[before].name for i, before in enumerate(found)]


def _tried(account: LearningReport) -> list[str]:
    """Return the table of what was tried; behind a row stands what is to know of it."""
    rows = [[_cell(one.facts[x]) for x in account.columns] for one in account.tried]
    head, *lines = table(account.columns.values(), rows)
    shown = [f"  {head}"]
    for one, line, before in zip(account.tried, lines, _same(account.tried), strict=True):
        marks = [] if before is None else [f"the same policy as {visible(before)}"]
        shown.append("  ".join(["", line, *(["<- chosen"] if one.chosen else []), *marks]))
    return shown


def _cell(known: float | str | None) -> str:
    return "-" if known is None else known if isinstance(known, str) else f"{known:.4g}"
