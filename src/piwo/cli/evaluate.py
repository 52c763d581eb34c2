"""`piwo evaluate`: what would other policies have earned?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer, typed
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, LogPaths, log_facts
from piwo.cli.output_path import files_named
from piwo.cli.settings import settings_of
from piwo.cli.shared_options import (
    DEFAULT_ESTIMATE,
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    NO_POLICY,
    EstimateOptions,
    Named,
    OutputOptions,
    PolicyOptions,
    RunOptions,
    gamma_of,
    horizon_of,
    named_policy,
)
from piwo.errors import UsageError, warn
from piwo.evaluation.record import notes_together
from piwo.intervals import interval_named
from piwo.visible import number, table, visible

__all__ = ["BaselineOption", "evaluate", "evaluated", "records"]

BaselineOption = Annotated[
    str | None,
    Parameter(
        name="--baseline",
        help="Policy to compare against: a policy file, uniform or constant:LABEL. "
        "[default: the logging policy]",
        show=True,
    ),
]


def evaluate(
    log: LogPaths,
    *,
    gate: Annotated[
        bool,
        Parameter(
            help="Exit with 1 unless every policy is certified better than --baseline.",
            show=True,
            show_default=False,
        ),
    ] = False,
    baseline: BaselineOption = None,
    policies: PolicyOptions = NO_POLICY,
    columns: LogOptions = DEFAULT_COLUMNS,
    estimate: EstimateOptions = DEFAULT_ESTIMATE,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Estimate each policy's value with a confidence interval."""
    if gate:
        columns.check_gate()
    rows, found = evaluated(log, policies.named(), policies, columns, estimate, baseline)
    first = next(iter(found.values()))
    lines = _shown(rows, found, _called(rows, log, columns.where))
    refused: list[str] = []
    if gate:
        refused = [x for x, one in found.items() if x != baseline and not _better(one)]
        lines.append(visible(_gate_result(refused, first.over, baseline in found)))
    kept, chosen = settings_of("learn"), _selection(found)
    step = ["piwo", "learn", *columns.words(log, "learn")]
    if not columns.context and "--context" not in kept:
        step += ["--context", "..."]
    if "--out" not in kept:
        step += ["--out", "policy.piwo"]
    return Answer(
        text="\n".join([*lines, "", f"next: {typed(step)}"]),
        document={
            "log": log_facts(rows, first.rows),
            "policies": records(found),
            "selection": chosen and chosen.to_dict(),
            "notes": [_together(found, rows.assumption)],
        },
        code=int(bool(refused)),
    )


def evaluated(
    paths: list[str],
    named: Mapping[str, Named],
    policies: PolicyOptions,
    columns: LogOptions,
    estimate: EstimateOptions,
    baseline: str | None = None,
) -> tuple[piwo.Log, dict[str, piwo.Evaluation]]:
    """Return the log, and the evaluations by name.

    Args:
        paths: of the log.
        named: the policies.
        policies: as they were typed.
        columns: of the log.
        estimate: how values are estimated.
        baseline: what they are compared with, as it was typed; None: the logging policy.
    """
    gamma = gamma_of(estimate.gamma)
    if isinstance(gamma, tuple):
        raise UsageError(f"--gamma got {estimate.gamma!r}, expected one number or auto")
    if estimate.reward_model not in {None, "forward"}:
        raise UsageError(f"--reward-model got {estimate.reward_model!r}, expected forward")
    known = dict(named)
    if baseline is not None and baseline not in known:
        known[baseline] = named_policy(baseline)
    needed: dict[str, None] = {}
    for policy in known.values():
        needed |= dict.fromkeys(policy.columns)
    log = columns.read(paths, policies.columns, context=tuple(needed))
    found = piwo.compare(
        log,
        {name: one.make(log.actions) for name, one in named.items()},
        estimator=estimate.estimator,
        gamma=gamma,
        interval=estimate.interval,
        q=estimate.reward_model,
        baseline=baseline and known[baseline].make(log.actions),
        delta=estimate.delta,
        horizon=horizon_of(estimate.horizon),
    )
    chosen = interval_named(estimate.interval).estimator(estimate.estimator)
    if gamma != "auto" and not chosen.smoothed:
        warn(f"--gamma is not used: the estimator {chosen.name} has none")
    for name, one in found.items():
        if one.baseline is not None:  # None: it is the logging policy
            found[name] = replace(one, baseline=baseline)
    return log, found


def records(found: Mapping[str, piwo.Evaluation]) -> list[dict[str, Any]]:
    """Return the evaluations as JSON has them."""
    return [
        {**one.to_dict(), "in_sample": one.in_sample, "certified": _better(one)}
        for one in found.values()
    ]


def _better(one: piwo.Evaluation) -> bool:
    """Whether a policy is certified better than what it is compared with."""
    return one.improvement_lower is not None and one.improvement_lower > 0


def _gate_result(refused: list[str], over: str, itself: bool) -> str:
    """Return the result of the gate; a baseline among the policies is exempt."""
    if refused:
        return f"gate: not certified better than {over}: {', '.join(refused)}"
    if itself:
        return f"gate: passed ({over} itself is exempt)"
    return "gate: passed"


def _called(log: piwo.Log, paths: list[str], where: str | None) -> str:
    """Return the name of the log: of several files the first, and how many more there are."""
    files = files_named(paths)
    if len(files) < 2:
        return log.source.name
    called = f"{files[0]} and {len(files) - 1} more"
    if where is None:
        return called
    return f"{called} where {where}"


def _shown(log: piwo.Log, found: Mapping[str, piwo.Evaluation], called: str) -> list[str]:
    """Return the log in a few numbers, the table of policies, the selection and the notes."""
    first = next(iter(found.values()))
    column = log.columns.reward
    if log.columns.cost:
        column = f"-{column}"
    reward = "reward"
    if column != "reward":
        reward = f"reward {visible(column)}"
    low, high = log.reward_range
    lines = [
        f"{visible(called)}: {first.rows} rows, {len(log.actions)} actions",
        f"{reward} in [{low:g}, {high:g}]; logged: {number(first.logging_value)} a row",
    ]
    if first.baseline is not None:
        lines.append(f"{visible(first.over)}: {number(first.baseline_value)} a row")
    header = [
        "policy",
        f"value ({_method(first)})",
        "lower",
        "upper",
        "better by at least",
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
    lines += ["", *table(header, cells), "", visible(_together(found, log.assumption))]
    chosen = _selection(found)
    if chosen is not None:
        lines += map(visible, chosen.lines())
    return lines + [f"note: {visible(note)}" for note in notes_together(list(found.values()))]


def _selection(found: Mapping[str, piwo.Evaluation]) -> piwo.Selection | None:
    """Return the selection among several policies; None for one, or for asymptotic ones."""
    fair = {name: one for name, one in found.items() if not one.in_sample}
    guarantees = {one.guarantee for one in fair.values()}
    sound = "finite-sample" in guarantees and guarantees <= {"finite-sample", "none"}
    if not sound or len(fair) < 2:
        return None
    return piwo.Selection.of(fair, rate=next(iter(fair.values())).delta)


def _method(one: piwo.Evaluation) -> str:
    if one.gamma is None:
        return one.estimator
    return f"{one.estimator}, gamma {one.gamma:.4g}"


def _together(found: Mapping[str, piwo.Evaluation], assumption: str | None) -> str:
    """Return what the intervals claim, and under which assumption on the propensities."""
    first = next((one for one in found.values() if one.guarantee != "none"), None)
    if first is None:
        return "no interval"
    level, many = f"{100 * (1 - first.delta):.6g} %", len(found)
    if first.horizon is not None:
        level += f", at all looks together (horizon {first.horizon})"
    if assumption is not None:
        level += f", if {assumption}"
    if first.guarantee != "finite-sample":
        return f"{first.interval} intervals at {level}: {first.guarantee} guarantee"
    held = [name for name, one in found.items() if one.guarantee == first.guarantee]
    kinds = " and ".join(dict.fromkeys(found[name].interval for name in held))
    if len(held) == 1:
        whose = ""
        if many != 1:
            whose = f" of {held[0]}"
        return f"{kinds} interval{whose}: contains the true value with probability at least {level}"
    which = f"of {', '.join(held)} alone: hold"
    if len(held) == many:
        which = f"all {many} hold"
    return f"{kinds} intervals, simultaneous: {which} with probability at least {level}"
