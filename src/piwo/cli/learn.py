"""`piwo learn`: which policy should run, and what is it worth at least?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import piwo
from piwo.certificates import Certificate
from piwo.cli.answer import Answer, table, typed
from piwo.cli.in_sample import Acquaintance, Rows, sample_of
from piwo.cli.learn_options import USUAL_LEARNING, Learned, LearnOptions
from piwo.cli.log_options import AS_NAMED, LogOptions, LogPaths, log_facts
from piwo.cli.notices import as_options
from piwo.cli.places import writable
from piwo.cli.shared_options import AS_USUAL, AT_ONCE, OutputOptions, RunOptions, named_policy
from piwo.errors import PiwoWarning, UsageError
from piwo.learners.auto import INCUMBENT
from piwo.logs.addresses import without_secrets
from piwo.policies import Policy
from piwo.policies.sameness import identity
from piwo.records import jsonable
from piwo.scores import Score
from piwo.visible import visible

__all__ = ["learn"]

_SHOWN = ("gamma", "value", "value_lower")


def learn(
    log: LogPaths,
    *,
    out: Annotated[Path, Parameter(help="File for the policy and its certificate; an old one is replaced.")],
    gate: Annotated[
        bool,
        Parameter(
            help="Exit with 1 unless the policy is certified better than the logging policy, or --incumbent; an old "
            "file stays then."
        ),
    ] = False,
    learning: LearnOptions = USUAL_LEARNING,
    columns: LogOptions = AS_NAMED,
    output: OutputOptions = AS_USUAL,  # noqa: ARG001 (read by main)
    run: RunOptions = AT_ONCE,  # noqa: ARG001 (read by main)
) -> Answer:
    """Which policy should run? Learns one, certifies it on rows that learning never saw, and saves both."""
    writable(out, log)
    if gate:
        columns.check_gate()
    rows = columns.read(log)
    bounded = math.isfinite(rows.reward_range[1])
    oracle = learning.sought(bounded)
    learner = learning.learner(rows, gate)
    if not rows.columns.context:
        raise UsageError(f"the {oracle} oracle needs the context; name it: --context 'user_*,hour'")
    against_its_own = _incumbent_learned_here(learning.incumbent, Rows(rows, log, columns.where))
    certificate = learner.fit(rows).certificate_
    assert certificate is not None
    facts = log_facts(rows, certificate.log_rows)
    training = {
        "log": rows.source.name,
        "where": columns.where,
        **_training(learner, certificate, learning, oracle),
        "columns": facts["columns"],
        "propensities": facts["propensities"],
    }
    kept = {"certificate": certificate.to_dict(), "training": training}
    refused = gate and (against_its_own or not certificate.certified)
    kept_old = refused and out.exists()
    if not kept_old:
        learner.policy_.save(out, metadata={**kept, "sample": sample_of(rows, learner.policy_)})
    return Answer(
        text="\n".join([*_told(learner, certificate, oracle), *_after(out, log[0], learner, refused, kept_old)]),
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


def _training(learner: Learned, certificate: Certificate, learning: LearnOptions, oracle: str) -> dict[str, Any]:
    return {
        "rows": certificate.training_rows,
        "score": certificate.score,
        "parameter": certificate.parameter,
        "rule": learner.rule_,
        "oracle": oracle,
        **_chosen(learner),
        "holdout": learning.holdout,
        "seed": learning.seed,
    }


def _incumbent_learned_here(incumbent: str | None, rows: Rows) -> bool:
    """Tell whether the incumbent was learned from these rows, and warn: what improves on it there is luck."""
    known = Acquaintance() if incumbent is None else rows.know(named_policy(incumbent))
    if known.certain:
        warnings.warn(
            f"{incumbent} was learned from part of this log ({known.how}), so that no gain over it is certified, "
            "whatever the certificate says; learn from other rows",
            PiwoWarning,
            stacklevel=2,
        )
    return known.certain


def _after(out: Path, log: str, learner: Learned, refused: bool, kept_old: bool) -> list[str]:
    """Say what became of the file, and what to do next: a policy that the gate refused is not to act."""
    if kept_old:
        return [f"not certified: kept the old {visible(out)}"]
    if refused:
        step = ["piwo", "policy", "show", str(out)]
        return [f"not certified: saved to {visible(out)} to be looked at, not to act", "", f"next: {typed(step)}"]
    if isinstance(learner.policy_, piwo.policies.Logging):
        step = ["piwo", "policy", "show", str(out)]
        return [f"nothing better was found: {visible(out)} says so, and cannot act", "", f"next: {typed(step)}"]
    step = ["piwo", "policy", "act", str(out), without_secrets(log), "--seed", "0"]
    if isinstance(learner, piwo.Auto) and learner.chosen_ == INCUMBENT:
        return [f"nothing better was found: saved the incumbent to {visible(out)}", "", f"next: {typed(step)}"]
    return [f"saved to {visible(out)}", "", f"next: {typed(step)}"]


def _path(learner: Learned) -> list[dict[str, Any]]:
    """Return what was tried: each gamma, or each candidate, with its estimate and what is certified of it."""
    if isinstance(learner, piwo.Auto):
        same = _same([(name, point.policy) for name, point in learner.path_.items()])
        return [
            {
                "candidate": name,
                "value": point.certificate.value,
                "value_lower": point.certificate.value_lower,
                "improvement_lower": point.certificate.improvement_lower,
                "standing": point.standing,
                "chosen": name == learner.chosen_,
                "same_as": before,
            }
            for (name, point), before in zip(learner.path_.items(), same, strict=True)
        ]
    if isinstance(learner, piwo.PACBayesLinear | piwo.GibbsLinear):
        made = learner.certificate_
        return [
            {
                "gamma": learner.score_.gamma_equivalent,
                "value": made.value,
                "value_lower": made.value_lower,
                "chosen": True,
                "same_as": None,
            }
        ]
    certified = [(point, point.certificate) for point in learner.path_.values() if point.certificate is not None]
    same = _same([(_gamma(point.score), point.policy) for point, _ in certified])
    return [
        {
            "gamma": point.score.gamma_equivalent,
            "value": made.value,
            "value_lower": made.value_lower,
            "chosen": made is learner.certificate_,
            "same_as": before,
        }
        for (point, made), before in zip(certified, same, strict=True)
    ]


def _gamma(score: Score) -> str:
    return score.label if score.gamma_equivalent is None else f"gamma {score.gamma_equivalent:.6g}"


def _chosen(learner: Learned) -> dict[str, Any]:
    """Return what auto chose, and whether the policy saved was learned again from all rows; how well chains mixed."""
    if isinstance(learner, piwo.GibbsLinear):
        made = learner.chains_
        return {"chains": jsonable({"rhat": made.rhat, "ess": made.ess, "divergences": made.divergences})}
    return {"chosen": learner.chosen_, "refitted": learner.refitted_} if isinstance(learner, piwo.Auto) else {}


def _told(learner: Learned, certificate: Certificate, oracle: str) -> list[str]:
    if isinstance(learner, piwo.Auto):
        return _told_auto(learner, certificate)
    score = learner.score_
    # PAC-Bayes: the prior from these, the posterior from the others
    seen = certificate.log_rows if isinstance(learner, piwo.PACBayesLinear) else certificate.training_rows
    credited = "" if score is None else f"score {score.name}, "
    lines = [f"learned from {seen} rows: {credited}oracle {oracle}"]
    if score is not None and score.value is not None:
        lines.append(f"  {score.parameter} = {score.value:.4g}; {learner.rule_}")
    if isinstance(learner, piwo.GibbsLinear):
        chains = learner.chains_
        count, worth = len(chains.draws), f"worth {chains.ess:.4g} independent draws"
        lines.append(f"  {count} chains: R-hat {chains.rhat:.4g}, {worth}, {chains.divergences} diverged")
    tried = _path(learner)
    if len(tried) > 1:
        lines += _tried(tried, ["gamma", "value", "at least"], [[_number(one[x]) for x in _SHOWN] for one in tried])
    return lines + _claimed(certificate)


def _told_auto(learner: piwo.Auto, certificate: Certificate) -> list[str]:
    tried, header = _path(learner), ["candidate", "value", "better by at least", "estimate less error"]
    shown = ("value", "improvement_lower", "standing")
    rows = [[one["candidate"], *(_number(one[x]) for x in shown)] for one in tried]
    return [
        f"learned from {certificate.training_rows} rows, certified on {certificate.rows} others",
        f"  {visible(learner.chosen_)}: {learner.rule_}",
        *_tried(tried, header, rows),
        *_claimed(certificate),
    ]


def _claimed(certificate: Certificate) -> list[str]:
    return [as_options(line) for line in str(certificate).splitlines()]


def _same(named: Sequence[tuple[str, Policy]]) -> list[str | None]:
    """Return the name under which each policy stands before; None for one that is new."""
    first: dict[str, int] = {}
    found = [first.setdefault(identity(policy), i) for i, (_, policy) in enumerate(named)]
    return [None if before == i else named[before][0] for i, before in enumerate(found)]


def _tried(tried: list[dict[str, Any]], header: list[str], rows: list[list[str]]) -> list[str]:
    """Return the table of what was tried; behind a row stands what is to know of it."""
    head, *lines = table(header, rows)
    shown = [f"  {head}"]
    for one, line in zip(tried, lines, strict=True):
        marks = [] if one["same_as"] is None else [f"the same policy as {visible(one['same_as'])}"]
        shown.append("  ".join(["", line, *(["<- chosen"] if one["chosen"] else []), *marks]))
    return shown


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:.4g}"
