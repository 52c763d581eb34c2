"""`piwo slates`: what would other ways to fill the slots of a page have earned?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

import piwo
from piwo.cli.answer import Answer, command_line
from piwo.cli.log_options import LogPaths, action_labels, comma_list, number_of, range_of, whole
from piwo.cli.shared_options import DEFAULT_OUTPUT, DEFAULT_RUN, OutputOptions, RunOptions
from piwo.cli.slate_answers import Gated, facts_of, slate_answer
from piwo.errors import UsageError
from piwo.slates import SlateAdaptation, SlateChoice, SlateComparison, SlateLog, SlatePolicy
from piwo.visible import rows_text, visible, without_secrets

__all__ = ["SlateGate", "SlateLearning", "SlateOptions", "SlateTargets", "slates"]

_ALONE = ("adapt", "choose")
"""Words for --estimator that are no estimator: they choose among several by the rows."""


@Parameter(name="*", group=Group("Columns of the log", sort_key=2))
@dataclass(frozen=True)
class SlateOptions:
    """The meaning of the columns of a slate log."""

    slate: Annotated[
        str, Parameter(help="List column: the labels shown, first slot first.", show=True)
    ] = "slate"
    reward: Annotated[
        str | None, Parameter(help="Column of the reward of the whole slate; or", show=True)
    ] = None
    rewards: Annotated[
        str | None, Parameter(help="list column: the reward of each slot.", show=True)
    ] = None
    propensities: Annotated[
        str | None,
        Parameter(
            help="List column: the logger's probability of each label given those above it.",
            show=True,
        ),
    ] = None
    marginals: Annotated[
        str | None,
        Parameter(
            help="List column: its probability of each label in its slot.",
            show=True,
        ),
    ] = None
    eligible: Annotated[
        str | None,
        Parameter(help="List column: labels that could be shown, if they change."),
    ] = None
    slate_propensity: Annotated[
        str | None, Parameter(help="Column: its probability of the whole slate.")
    ] = None
    independent: Annotated[
        bool,
        Parameter(
            help="The logger drew slots independently: both lists are the same.",
            show_default=False,
        ),
    ] = False
    behavior: Annotated[
        Literal["uniform"] | None,
        Parameter(
            help="uniform: the logger ranked all --actions uniformly, instead of columns.",
            show=True,
            show_choices=False,
        ),
    ] = None
    actions: Annotated[
        str | None, Parameter(help="a,b,c, or 0..79, or @FILE. [default: from the log]", show=True)
    ] = None
    items_label: Annotated[
        str | None,
        Parameter(help="Vowpal Wabbit's files: what in an action is its label, such as id, a/id."),
    ] = None
    reward_range: Annotated[
        str, Parameter(help="Range 0,HI of the reward of a slate or slot.", show=True)
    ] = "0,1"
    unit: Annotated[
        str | None, Parameter(help="Units (users) whose rows depend on each other.", show=True)
    ] = None
    weight: Annotated[
        str | None, Parameter(help="Column of sampling weights, for a thinned log.")
    ] = None
    position_weights: Annotated[
        str | None, Parameter(help="Weight of each slot in the value of a slate: 1,.5,.3.")
    ] = None
    context: Annotated[
        str | None, Parameter(help="Columns for --learn and for adapt: hour,device_*.")
    ] = None
    user_behavior: Annotated[
        str | None,
        Parameter(
            help="Column of standard, cascade or independent: what a slot's reward depends on in "
            "this row, for the estimator adaptive."
        ),
    ] = None
    most_slots: Annotated[
        int | None,
        Parameter(
            name="--slots",
            help="The most slots of a slate. [default: from the log]",
            converter=whole,
        ),
    ] = None
    where: Annotated[
        str | None, Parameter(help="Read only the rows that satisfy an SQL condition.")
    ] = None
    logger: Annotated[
        Literal["fixed", "learning"] | None,
        Parameter(help="fixed, or learning: it learned from rows of the log.", show_choices=False),
    ] = None

    def read(self, paths: Sequence[str]) -> SlateLog:
        """Return the log.

        Args:
            paths: the words for LOG.
        """
        actions = None
        if self.actions is not None:
            actions = action_labels(self.actions)
        behavior = None
        if self.behavior is not None:
            if actions is None:
                raise UsageError(
                    "--behavior uniform needs the items that the logger ranked; list them "
                    "(--actions)"
                )
            behavior = piwo.slates.Uniform(actions)
        weights = None
        if self.position_weights is not None:
            weights = [number_of(x, "--position-weights") for x in self.position_weights.split(",")]
        source: str | list[str] = list(paths)
        if len(paths) == 1:
            source = paths[0]
        return piwo.slates.read(
            source,
            slate=self.slate,
            eligible=self.eligible,
            reward=self.reward,
            rewards=self.rewards,
            propensities=self.propensities,
            marginals=self.marginals,
            slate_propensity=self.slate_propensity,
            independent=self.independent,
            behavior=behavior,
            position_weights=weights,
            user_behavior=self.user_behavior,
            context=comma_list([] if self.context is None else [self.context]),
            actions=actions,
            slots=self.most_slots,
            reward_range=range_of(self.reward_range, "--reward-range"),
            where=self.where,
            logger=self.logger,
            unit=self.unit,
            weight=self.weight,
            items_label=self.items_label,
        )


@Parameter(name="*", group=Group("Policies", sort_key=1))
@dataclass(frozen=True)
class SlateTargets:
    """The policies to evaluate."""

    policy: Annotated[
        list[str] | None,
        Parameter(
            help="uniform, slate:a,b,c, column:NAME, or a file that policy.save wrote; repeatable.",
            show=True,
        ),
    ] = None
    target_propensities: Annotated[
        str | None,
        Parameter(
            help="List column: that of each label given those above it.",
            show=True,
        ),
    ] = None
    target_marginals: Annotated[
        str | None, Parameter(help="List column: its probability of each in its slot.", show=True)
    ] = None
    target_slate_propensity: Annotated[
        str | None, Parameter(help="Column: its probability of the whole slate.")
    ] = None
    target_independent: Annotated[
        bool,
        Parameter(help="The policy draws slots independently.", show_default=False),
    ] = False

    def named(self, log: SlateLog) -> dict[str, SlatePolicy]:
        """Return the policies by name.

        Raises:
            UsageError: for no policy, one that is named twice, and unknown words.
        """
        found: dict[str, SlatePolicy] = {}
        for word in self.policy or []:
            if word in found:
                raise UsageError(f"policy {word!r} was named twice; name each once")
            found[word] = _named(word, log)
        columns = (self.target_propensities, self.target_marginals, self.target_slate_propensity)
        listed = [name for name in columns if name is not None]
        if listed:
            found[listed[0]] = piwo.slates.FromColumns(
                *columns, independent=self.target_independent
            )
        if not found:
            raise UsageError(
                "no policy was named; give --policy slate:a,b,c, uniform or a file, or "
                "--target-propensities"
            )
        return found


def _named(word: str, log: SlateLog) -> SlatePolicy:
    if word == "uniform":
        return piwo.slates.Uniform(log.actions)
    kind, colon, rest = word.partition(":")
    if colon and kind == "slate":
        return piwo.slates.Deterministic(action_labels(rest))
    if colon and kind == "column":
        return piwo.slates.Deterministic(rest)
    if not Path(word).exists():
        raise UsageError(
            f"no policy and no file {without_secrets(word)!r}, expected uniform, slate:a,b,c, "
            "column:NAME or a file"
        )
    return piwo.slates.load(word)


@Parameter(name="*", group=Group("Policies", sort_key=1))
@dataclass(frozen=True)
class SlateLearning:
    """Learning a policy, in place of naming some."""

    learn: Annotated[
        Path | None,
        Parameter(
            help="Learn one, save it here, value it on other rows.",
            show=True,
        ),
    ] = None
    alpha: Annotated[float, Parameter(help="Ridge penalty of --learn.")] = 1.0
    holdout: Annotated[
        float, Parameter(help="Fraction of the rows that --learn, choose hold out.")
    ] = 0.5
    seed: Annotated[int, Parameter(help="Of the split of --learn and choose.", converter=whole)] = 0


@Parameter(name="*", group=Group("Policies", sort_key=1))
@dataclass(frozen=True)
class SlateGate:
    """What the gate asks, and of which policies."""

    gate: Annotated[
        bool,
        Parameter(
            help="Exit with 1 unless all are certified better.",
            show=True,
            show_default=False,
        ),
    ] = False
    gate_policy: Annotated[
        list[str] | None,
        Parameter(
            help="Policy that --gate asks of; repeatable. --gate P is short for it. [default: all]"
        ),
    ] = None
    at_least: Annotated[
        float | None,
        Parameter(
            help="The least value of a slate that --gate asks to be certified, too.",
            allow_leading_hyphen=True,
        ),
    ] = None
    independent_rows: Annotated[
        bool,
        Parameter(
            help="Rows are independent although a column named like the id of a user has values "
            "that repeat; without this or --unit, --gate refuses such a log."
        ),
    ] = False

    def require_gate(self, policies: Collection[str]) -> None:
        """Raise for a policy or a least value without a gate, and for one that is not evaluated.

        Args:
            policies: the names of those that are.

        Raises:
            UsageError: saying what to add.
        """
        if self.at_least is not None and not self.gate:
            raise UsageError(
                f"--at-least got {self.at_least:g} without --gate, which asks for it; add --gate"
            )
        for name in self.gate_policy or ():
            if not self.gate:
                raise UsageError(f"--gate-policy got {name!r} without --gate; add --gate")
            if name not in policies:
                raise UsageError(
                    f"--gate-policy got {name!r}, expected one of the policies: "
                    f"{', '.join(policies)}"
                )


NO_GATE = SlateGate()
NO_COLUMNS = SlateOptions()
NO_LEARNING = SlateLearning()
NO_TARGETS = SlateTargets()


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
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Estimate what slate policies are worth, by each estimator; or learn one."""
    names = [] if estimator is None else comma_list([estimator])
    if learning.learn is not None:
        chosen = (names, targets != NO_TARGETS, self_normalized, interval != "auto")
        if any(chosen):
            raise UsageError(
                "--learn evaluates what it learns on held-out rows, by independent slots; leave "
                "out policies, --estimator, --interval and --self-normalized"
            )
        gating.require_gate(())
        return _learned(columns.read(log), learning, learning.learn, delta, gating)
    for word in _ALONE:
        if word in names and len(names) > 1:
            raise UsageError(f"--estimator got {estimator!r}; name {word} alone, without others")
    rows = columns.read(log)
    policies = targets.named(rows)
    gating.require_gate(policies)
    if names == ["choose"]:
        if self_normalized:
            raise UsageError("--estimator choose compares intervals; leave out --self-normalized")
        return _choice(rows, policies, learning, interval, delta, gating)
    if names == ["adapt"]:
        if interval != "auto":
            raise UsageError("--estimator adapt has no interval; leave out --interval")
        return _adaptation(rows, policies, learning.seed, self_normalized, gating)
    found = piwo.slates.compare(
        rows,
        policies,
        estimators=names or None,
        self_normalized=self_normalized,
        interval=interval,
        delta=delta,
    )
    return slate_answer(rows, found, _gate(rows, found, gating))


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
    return slate_answer(log, found, _gate(log, found, gating), tried=tried)


def _adaptation(
    log: SlateLog,
    policies: Mapping[str, SlatePolicy],
    seed: int,
    self_normalized: bool,
    gating: SlateGate,
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
    return slate_answer(log, found, _gate(log, found, gating), rules=rules)


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
    closing = [f"saved to {out}", "", f"next: {command_line(['piwo', 'policy', 'show', str(out)])}"]
    if gated.passed:
        made.policy.save(out, {"evaluation": one.to_dict()})
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
