"""`piwo evaluate`: what would other policies have earned?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from cyclopts import Parameter

import piwo
from piwo.certificates.terms import check_at_least
from piwo.cli.answer import Answer
from piwo.cli.explain import POLICIES, SEGMENTS, ExplainOption, explained
from piwo.cli.log_options import (
    DEFAULT_COLUMNS,
    LogOptions,
    LogPaths,
    categories_of,
    log_facts,
)
from piwo.cli.next_steps import after_evaluate
from piwo.cli.output_path import files_named
from piwo.cli.shared_options import (
    DEFAULT_ESTIMATE,
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    NO_POLICY,
    EstimateOptions,
    NamedPolicy,
    OutputOptions,
    PolicyOptions,
    RunOptions,
    gamma_of,
    horizon_of,
    named_policy,
)
from piwo.cli.terms import NO_TERMS, TermOptions
from piwo.errors import UsageError
from piwo.evaluation.record import cap_text, notes_together
from piwo.intervals import interval_named
from piwo.visible import confidence, number, table, visible

__all__ = ["Asked", "BaselineOption", "asked", "evaluate", "evaluated", "records"]

_NOTES_SHOWN = 5

BaselineOption = Annotated[
    str | None,
    Parameter(
        name="--baseline",
        help="What to compare with: a policy, as for --policy. [default: the logging policy]",
        show=True,
    ),
]


def evaluate(
    log: LogPaths,
    *,
    gate: Annotated[
        bool,
        Parameter(
            help="Exit with 1 unless all (--gate P: unless P) are certified better.",
            show=True,
            show_default=False,
        ),
    ] = False,
    gate_policy: Annotated[
        list[str] | None,
        Parameter(
            help="Policy that --gate asks of, the others being there for reference; repeatable. "
            "--gate P is short for it. [default: all]"
        ),
    ] = None,
    baseline: BaselineOption = None,
    explain: ExplainOption = False,
    terms: TermOptions = NO_TERMS,
    policies: PolicyOptions = NO_POLICY,
    columns: LogOptions = DEFAULT_COLUMNS,
    estimate: EstimateOptions = DEFAULT_ESTIMATE,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Estimate each policy's value with a confidence interval."""
    asked_of = _asked_of(gate, gate_policy, policies)
    terms.require_gate(gate)
    if gate:
        columns.check_gate()
    rows, found = evaluated(log, policies.named(), policies, columns, estimate, baseline, terms)
    first = next(iter(found.values()))
    decision = piwo.decide(found, at_least=terms.at_least, assumes=rows.assumption)
    lines = [visible(decision.sentence), ""]
    lines += _report(rows, found, _log_name(rows, log, columns.where), explain)
    result, passed = None, True
    if gate:
        verdict = piwo.gate(
            rows,
            found,
            policies=asked_of or None,
            at_least=terms.at_least,
            independent_rows=columns.independent_rows,
        )
        if verdict.dependent is not None:
            lines[0] = visible(f"Cannot be told: {verdict.dependent}")
        exempt = ""
        if baseline is not None and baseline in found:
            exempt = f" ({found[baseline].over} itself is exempt)"
        if len(found) > 1:
            lines.append(visible(f"gate: asks of {', '.join(verdict.policies)}"))
        lines += terms.gate_lines(verdict.reasons, verdict.open, exempt)
        if not interval_named(estimate.interval).certifies:
            lines.append(
                "gate: improvements are judged by bets, with a finite-sample bound, whatever the "
                f"interval ({visible(first.interval)})"
            )
        result = {"passed": verdict.passed, **verdict.to_dict()}
        passed = verdict.passed
    selection = _selection(found)
    chosen = None if selection is None else selection.to_dict()
    named = [*(policies.policy or ()), *([] if baseline is None else [baseline])]
    following = after_evaluate(found.values(), rows, log, columns, named)
    return Answer(
        text="\n".join([*lines, "", *following]),
        document={
            "log": log_facts(rows, first.rows),
            "policies": records(found),
            "selection": chosen,
            "decision": decision.to_dict(),
            "gate": result,
            "notes": [_joint_claim(found, rows.assumption)],
        },
        code=int(not passed),
    )


@dataclass(frozen=True)
class Asked:
    """What is to be evaluated: the log, the policies over its actions, and checked arguments."""

    log: piwo.Log
    policies: dict[str, Any]
    gamma: float | str
    q: str | None
    baseline: Any
    """The policy to compare with; None: the logging policy."""
    horizon: Any
    categories: Any
    """Of the actions; None: none."""


def asked(
    paths: list[str],
    named: Mapping[str, NamedPolicy],
    policies: PolicyOptions,
    columns: LogOptions,
    estimate: EstimateOptions,
    baseline: str | None = None,
    terms: TermOptions = NO_TERMS,
) -> Asked:
    """Return what the options ask for.

    Args:
        paths: of the log.
        named: the policies.
        policies: the options that name them.
        columns: the options of the log.
        estimate: the options of the estimates.
        baseline: the word for the policy to compare with; None: the logging policy.
        terms: the least value, the guardrails and the column of segments.
    """
    gamma = gamma_of(estimate.gamma)
    if isinstance(gamma, tuple):
        raise UsageError(f"--gamma got {estimate.gamma!r}, expected one number or auto")
    model = estimate.reward_model
    if model not in {None, "forward", "predictions"}:
        raise UsageError(
            f"--reward-model got {model!r}, expected forward, or predictions, those of the column "
            "of --predictions"
        )
    known = dict(named)
    if baseline is not None and baseline not in known:
        known[baseline] = named_policy(baseline)
    # Policies from files need the context columns that they were made from.
    context: dict[str, None] = {}
    for policy in known.values():
        context |= dict.fromkeys(policy.columns)
    log = columns.read(
        paths,
        policies.columns,
        context=tuple(context),
        outcomes=terms.columns,
        segments=terms.segments,
    )
    if terms.at_least is not None:
        check_at_least(terms.at_least, log)
    compared_with = None
    if baseline is not None:
        compared_with = known[baseline].make(log.actions)
    categories = None
    if estimate.categories is not None:
        categories = categories_of(estimate.categories)
    made = {name: one.make(log.actions) for name, one in named.items()}
    horizon = horizon_of(estimate.horizon)
    return Asked(log, made, gamma, model, compared_with, horizon, categories)


def evaluated(
    paths: list[str],
    named: Mapping[str, NamedPolicy],
    policies: PolicyOptions,
    columns: LogOptions,
    estimate: EstimateOptions,
    baseline: str | None = None,
    terms: TermOptions = NO_TERMS,
) -> tuple[piwo.Log, dict[str, piwo.Evaluation]]:
    """Return the log, and the evaluations by the names of the policies; see `asked`."""
    given = asked(paths, named, policies, columns, estimate, baseline, terms)
    found = piwo.compare(
        given.log,
        given.policies,
        estimator=estimate.estimator,
        categories=given.categories,
        gamma=given.gamma,
        interval=estimate.interval,
        q=given.q,
        baseline=given.baseline,
        guardrail=terms.guardrail,
        by=terms.by,
        delta=estimate.delta,
        rate_cap=estimate.rate_cap,
        horizon=given.horizon,
    )
    renamed = {}
    for name, one in found.items():
        renamed[name] = one
        # The word that was typed names the baseline; the logging policy has no name here.
        if one.baseline is not None:
            renamed[name] = replace(one, baseline=baseline)
    return given.log, renamed


def records(found: Mapping[str, piwo.Evaluation]) -> list[dict[str, Any]]:
    """Return the evaluations as JSON has them."""
    rows = []
    for one in found.values():
        computed = {"in_sample": one.in_sample, "certified": one.certified_better}
        rows.append({**one.to_dict(), **computed})
    return rows


def _asked_of(gate: bool, named: Sequence[str] | None, policies: PolicyOptions) -> list[str]:
    """Return the policies that the gate asks of; empty: all.

    Raises:
        UsageError: for one that is not evaluated, and without a gate.
    """
    chosen = list(dict.fromkeys(named or ()))
    if chosen and not gate:
        raise UsageError(f"--gate-policy got {chosen[0]!r} without --gate; add --gate")
    known = [*(policies.policy or []), *policies.columns]
    for name in chosen:
        if name not in known:
            raise UsageError(
                f"--gate-policy got {name!r}, expected one of the policies: {', '.join(known)}"
            )
    return chosen


def _log_name(log: piwo.Log, paths: list[str], where: str | None) -> str:
    """Return the name of the log; of several files the first, and how many more there are."""
    files = files_named(paths)
    if len(files) < 2:
        return log.source.name
    name = f"{files[0]} and {len(files) - 1} more"
    if where is None:
        return name
    return f"{name} where {where}"


def _report(
    log: piwo.Log, found: Mapping[str, piwo.Evaluation], name: str, explain: bool
) -> list[str]:
    """Return the lines on the log, the table of policies, the selection and the notes."""
    first = next(iter(found.values()))
    column = log.columns.reward
    if log.columns.cost:
        column = f"-{column}"
    reward = "reward"
    if column != "reward":
        reward = f"reward {visible(column)}"
    if log.action_costs is not None:
        reward += ", net of action costs,"
    low, high = log.reward_range
    lines = [
        f"{visible(name)}: {first.rows:,} rows, {len(log.actions):,} actions",
        f"{reward} in [{low:g}, {high:g}]; logged: {number(first.logging_value)} a row",
    ]
    if first.baseline is not None:
        lines.append(f"{visible(first.over)}: {number(first.baseline_value)} a row")
    claim = _joint_claim(found, log.assumption)
    lines += ["", *_policy_table(found), *explained(POLICIES, explain), "", visible(claim)]
    selection = _selection(found)
    if selection is not None:
        lines += map(visible, selection.lines())
    if first.segments:
        lines += ["", *_segment_table(found), *explained(SEGMENTS, explain), ""]
    for name_of_policy, one in found.items():
        lines += [visible(f"guardrail of {name_of_policy}: {each}") for each in one.guardrails]
    for note in notes_together(list(found.values())):
        lines.append(f"note: {visible(note)}")
    return lines + _segment_notes(found)


def _segment_table(found: Mapping[str, piwo.Evaluation]) -> list[str]:
    """Return the table of segments, the largest first."""
    first = next(iter(found.values())).segments
    header = [
        first[0].column,
        "policy",
        "rows",
        "value",
        "lower",
        "upper",
        "improvement, at least",
        "actions today -> then",
    ]
    cells = []
    for place in range(len(first)):
        for name, one in found.items():
            here = one.segments[place]
            label = "(missing)" if here.label is None else here.label
            ends = (here.value, here.lower, here.upper, here.improvement_lower)
            cells.append([label, name, here.rows, *map(number, ends), here.changes])
    return table(header, cells)


def _segment_notes(found: Mapping[str, piwo.Evaluation]) -> list[str]:
    """Return the lines of the notes on segments: the first few, and how many more there are."""
    lines = []
    for name, one in found.items():
        for here in one.segments:
            lines += [visible(f"note: {name}, {here.name}: {note}") for note in here.notes]
    if len(lines) > _NOTES_SHOWN:
        more = len(lines) - _NOTES_SHOWN
        lines = [*lines[:_NOTES_SHOWN], f"note: {more} more notes on segments, with --json"]
    return lines


def _policy_table(found: Mapping[str, piwo.Evaluation]) -> list[str]:
    first = next(iter(found.values()))
    method = first.estimator
    if first.gamma is not None:
        method += f", gamma {number(first.gamma)}"
    header = [
        "policy",
        f"value ({method})",
        "lower",
        "upper",
        "improvement, at least",
        "ESS",
        "mean weight",
        "unsupported",
    ]
    cells = []
    for name, one in found.items():
        numbers = (
            one.value,
            one.lower,
            one.upper,
            one.improvement_lower,
            one.ess,
            one.mean_weight,
            one.unsupported_mass,
        )
        cells.append([name, *map(number, numbers)])
    return table(header, cells)


def _selection(found: Mapping[str, piwo.Evaluation]) -> piwo.Selection | None:
    """Return the selection among the policies; None for fewer than two with proved intervals."""
    # The value of a policy on the rows that it was learned from may be too high.
    fair = {name: one for name, one in found.items() if not one.in_sample}
    guarantees = {one.guarantee for one in fair.values()}
    # One asymptotic interval leaves the selection without a guarantee.
    proved = "finite-sample" in guarantees and guarantees <= {"finite-sample", "none"}
    if not proved or len(fair) < 2:
        return None
    return piwo.Selection.of(fair, rate=next(iter(fair.values())).delta)


def _joint_claim(found: Mapping[str, piwo.Evaluation], assumption: str | None) -> str:
    """Return what is claimed for the intervals, and under which assumption on propensities."""
    first = next((one for one in found.values() if one.guarantee != "none"), None)
    if first is None:
        return "no interval"
    level = f"{confidence(first.delta)}"
    if first.horizon is not None:
        level += f", at all looks together (horizon {first.horizon})"
    if assumption is not None:
        level += f", if {assumption}"
    if first.rate_cap is not None:
        level += f", {cap_text(first.rate_cap)} (declared)"
    if first.guarantee != "finite-sample":
        return f"{first.interval} intervals at {level}: {first.guarantee} guarantee"
    covered = [name for name, one in found.items() if one.guarantee == first.guarantee]
    # Methods may differ, as --interval auto depends on the policy.
    kinds = " and ".join(dict.fromkeys(found[name].interval for name in covered))
    if len(covered) == 1:
        whose = ""
        if len(found) > 1:
            whose = f" of {covered[0]}"
        claim = "contains the true value with probability at least"
        return f"{kinds} interval{whose}: {claim} {level}"
    which = f"of {', '.join(covered)} alone: hold"
    if len(covered) == len(found):
        which = f"all {len(found)} hold"
    return f"{kinds} intervals, simultaneous: {which} with probability at least {level}"
