"""`piwo slates`: what would other ways to fill the slots of a page have earned?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer, next_lines
from piwo.cli.log_options import LogPaths, comma_list
from piwo.cli.next_slates import Typed, after_slate_check, after_slates
from piwo.cli.shared_options import DEFAULT_OUTPUT, DEFAULT_RUN, OutputOptions, RunOptions
from piwo.cli.slate_answers import Gated, facts_of, slate_answer
from piwo.cli.slate_options import (
    NO_COLUMNS,
    NO_GATE,
    NO_LEARNING,
    NO_TARGETS,
    SlateGate,
    SlateLearning,
    SlateOptions,
    SlateTargets,
)
from piwo.errors import UsageError
from piwo.slates import SlateAdaptation, SlateChoice, SlateComparison, SlateLog, SlatePolicy
from piwo.visible import rows_text, visible

__all__ = ["slates"]

_ALONE = ("adapt", "choose")
"""Words for --estimator that are no estimator: they choose among several by the rows."""
_OTHERS: Mapping[str, str] = {
    "--check": "is about the log alone; leave out policies, --learn, --gate and all on estimates",
    "--learn": "evaluates what it learns on held-out rows, by independent slots; leave out "
    "policies, --estimator, --interval and --self-normalized",
}
"""Options that come without some others, and why."""


def slates(
    log: LogPaths,
    *,
    estimator: Annotated[
        str | None,
        Parameter(
            help="standard, independent, cascade, adaptive, pseudo-inverse [default: all]; or "
            "choose, adapt: by what the rows say.",
            show=True,
        ),
    ] = None,
    gating: SlateGate = NO_GATE,
    targets: SlateTargets = NO_TARGETS,
    learning: SlateLearning = NO_LEARNING,
    columns: SlateOptions = NO_COLUMNS,
    self_normalized: Annotated[
        bool,
        Parameter(
            help="Divide means of weighted rewards by mean weights.",
            group="Estimate",
            show_default=False,
        ),
    ] = False,
    delta: Annotated[
        float,
        Parameter(help="Joint error probability of all intervals.", group="Estimate"),
    ] = 0.05,
    interval: Annotated[
        str,
        Parameter(help="auto, deadline, mixture, or normal (asymptotic).", group="Estimate"),
    ] = "auto",
    check: Annotated[
        bool,
        Parameter(
            help="Is each slot fit for use? Exit with 1 if not.",
            show=True,
            show_default=False,
        ),
    ] = False,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Estimate what slate policies are worth, by each estimator; or learn one."""
    if check:
        asked = (estimator, targets, learning, gating, self_normalized, interval)
        _require_alone("--check", asked == (None, NO_TARGETS, NO_LEARNING, NO_GATE, False, "auto"))
        return _checked(columns.read(log), columns.words(log), delta)
    names = [] if estimator is None else comma_list([estimator])
    if learning.learn is not None:
        chosen = (names, targets != NO_TARGETS, self_normalized, interval != "auto")
        _require_alone("--learn", not any(chosen))
        gating.require_gate(())
        return _learned(columns.read(log), learning, learning.learn, delta, gating)
    for word in _ALONE:
        if word in names and len(names) > 1:
            raise UsageError(f"--estimator got {estimator!r}; name {word} alone, without others")
    rows = columns.read(log)
    policies = targets.named(rows)
    gating.require_gate(policies)
    typed = Typed(
        columns.words(log), targets.words(), targets.policy or [], targets.columns, gating.gate
    )
    if names == ["choose"]:
        if self_normalized:
            raise UsageError("--estimator choose compares intervals; leave out --self-normalized")
        return _choice(rows, policies, learning, interval, delta, gating, typed)
    if names == ["adapt"]:
        if interval != "auto":
            raise UsageError("--estimator adapt has no interval; leave out --interval")
        return _adaptation(rows, policies, learning.seed, self_normalized, gating, typed)
    found = piwo.slates.compare(
        rows,
        policies,
        estimators=names or None,
        self_normalized=self_normalized,
        interval=interval,
        delta=delta,
    )
    gated = _gate(rows, found, gating)
    return slate_answer(rows, found, gated, following=after_slates(rows, found, typed))


def _require_alone(option: str, alone: bool) -> None:
    """Raise if an option came with others that it does not take."""
    if not alone:
        raise UsageError(f"{option} {_OTHERS[option]}")


def _checked(log: SlateLog, words: list[str], delta: float) -> Answer:
    """Return the health of each slot."""
    health = piwo.slates.check(log, delta=delta)
    return Answer(
        text="\n".join([str(health), "", *after_slate_check(health, words)]),
        document={
            "log": facts_of(log, len(log)),
            "verdict": health.verdict,
            **health.to_dict(),
        },
        code=int(not health.fit),
    )


def _gate(rows: SlateLog, found: SlateComparison, gating: SlateGate) -> Gated:
    """Return what the evaluations say, and the gate if it was asked for."""
    verdict = None
    if gating.gate:
        verdict = piwo.slates.gate(
            rows,
            found,
            policies=gating.gate_policy or None,
            at_least=gating.at_least,
            independent_rows=gating.independent_rows,
        )
    return Gated(piwo.slates.decide(found, at_least=gating.at_least), verdict)


def _choice(
    log: SlateLog,
    policies: Mapping[str, SlatePolicy],
    learning: SlateLearning,
    interval: str,
    delta: float,
    gating: SlateGate,
    typed: Typed,
) -> Answer:
    """Value each policy by the assumption that a part of the rows chooses."""
    each = delta / len(policies)
    made: dict[str, SlateChoice] = {}
    for name, policy in policies.items():
        made[name] = piwo.slates.choose(
            log,
            policy,
            holdout=learning.holdout,
            interval=interval,
            delta=each,
            random_state=learning.seed,
            name=name,
        )
    values = tuple(one.evaluation for one in made.values())
    found = SlateComparison(values, {}, delta, each)
    tried = {name: one.tried for name, one in made.items()}
    following = after_slates(log, found, typed)
    return slate_answer(log, found, _gate(log, found, gating), tried=tried, following=following)


def _adaptation(
    log: SlateLog,
    policies: Mapping[str, SlatePolicy],
    seed: int,
    self_normalized: bool,
    gating: SlateGate,
    typed: Typed,
) -> Answer:
    """Value each policy by user behaviors that are estimated."""
    made: dict[str, SlateAdaptation] = {}
    for name, policy in policies.items():
        made[name] = piwo.slates.adapt(
            log, policy, self_normalized=self_normalized, random_state=seed, name=name
        )
    values = tuple(one.evaluation for one in made.values())
    found = SlateComparison(values, {}, values[0].delta, values[0].delta)
    rules = {name: one.rules for name, one in made.items()}
    following = after_slates(log, found, typed)
    return slate_answer(log, found, _gate(log, found, gating), rules=rules, following=following)


def _learned(
    log: SlateLog, learning: SlateLearning, out: Path, delta: float, gating: SlateGate
) -> Answer:
    """Learn a policy, save it, and say what it is worth."""
    made = piwo.slates.learn(
        log,
        alpha=learning.alpha,
        holdout=learning.holdout,
        delta=delta,
        random_state=learning.seed,
    )
    one = made.evaluation
    gated = _gate(log, SlateComparison((one,), {}, delta, delta), gating)
    closing = [f"saved to {out}", "", *next_lines(["piwo", "policy", "show", str(out)])]
    if gated.passed:
        made.save(out)
    elif out.exists():
        closing = [f"the gate did not pass: kept the old {out}"]
    else:
        closing = [f"the gate did not pass: {out} was not written"]
    learned = made.policy.learned
    assert learned is not None
    learned_on = rows_text(learned["rows"])
    lines = [
        gated.headline,
        "",
        f"learned from {learned_on} of {log.source.name}, valued on {one.rows:,} others",
        "",
        *str(one).splitlines(),
        *gated.lines,
        "",
        *closing,
    ]
    facts = {**facts_of(log, len(log)), "context": list(log.columns.context)}
    return Answer(
        "\n".join(map(visible, lines)),
        {
            "log": facts,
            "policy": str(out),
            "saved": gated.passed,
            "learned_from": learned["rows"],
            "evaluation": one.to_dict(),
            **gated.document,
        },
        code=int(not gated.passed),
    )
