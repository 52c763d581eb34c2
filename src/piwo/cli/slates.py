"""`piwo slates`: what would other ways to fill the slots of a page have earned?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

import piwo
from piwo.cli.answer import Answer, command_line
from piwo.cli.log_options import LogPaths, action_labels, comma_list, number_of, range_of, whole
from piwo.cli.shared_options import DEFAULT_OUTPUT, DEFAULT_RUN, OutputOptions, RunOptions
from piwo.errors import UsageError
from piwo.slates import SlateComparison, SlateLog, SlatePolicy
from piwo.visible import number, rows_text, table, visible, without_secrets

__all__ = ["SlateLearning", "SlateOptions", "SlateTargets", "slates"]


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
    items: Annotated[
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
    context: Annotated[str | None, Parameter(help="Columns for --learn: hour,device_*.")] = None
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
            items=self.items,
        )


@Parameter(name="*", group=Group("Policies", sort_key=1))
@dataclass(frozen=True)
class SlateTargets:
    """The policies to evaluate."""

    policy: Annotated[
        list[str] | None,
        Parameter(
            help="uniform, slate:a,b,c, a list column of slates (column:NAME), or a file that "
            "policy.save wrote; repeatable.",
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
    holdout: Annotated[float, Parameter(help="Fraction of the rows that --learn holds out.")] = 0.5
    seed: Annotated[int, Parameter(help="Of the split of --learn.", converter=whole)] = 0


NO_COLUMNS = SlateOptions()
NO_LEARNING = SlateLearning()
NO_TARGETS = SlateTargets()


def slates(
    log: LogPaths,
    *,
    estimator: Annotated[
        str | None,
        Parameter(
            help="standard, independent, cascade, adaptive, pseudo-inverse; all if left out.",
            show=True,
        ),
    ] = None,
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
    rows = columns.read(log)
    if learning.learn is not None:
        chosen = (estimator, targets != NO_TARGETS, self_normalized, interval != "auto")
        if any(chosen):
            raise UsageError(
                "--learn evaluates what it learns on held-out rows, by independent slots; leave "
                "out policies, --estimator, --interval and --self-normalized"
            )
        return _learned(rows, learning, learning.learn, delta)
    found = piwo.slates.compare(
        rows,
        targets.named(rows),
        estimators=None if estimator is None else comma_list([estimator]),
        self_normalized=self_normalized,
        interval=interval,
        delta=delta,
    )
    return Answer(_text(rows, found), _document(rows, found))


def _learned(log: SlateLog, learning: SlateLearning, out: Path, delta: float) -> Answer:
    """Learn a policy, save it, and say what it is worth."""
    made = piwo.slates.learn(
        log,
        alpha=learning.alpha,
        holdout=learning.holdout,
        delta=delta,
        random_state=learning.seed,
    )
    one = made.evaluation
    made.policy.save(out, {"evaluation": one.to_dict()})
    learned = made.policy.learned
    assert learned is not None
    learned_on = rows_text(learned["rows"])
    lines = [
        f"learned from {learned_on} of {log.source.name}, valued on {one.rows:,} others",
        "",
        *str(one).splitlines(),
        "",
        f"saved to {out}",
        "",
        f"next: {command_line(['piwo', 'policy', 'show', str(out)])}",
    ]
    facts = {**_facts(log, len(log)), "context": list(log.columns.context)}
    return Answer(
        "\n".join(map(visible, lines)),
        {
            "log": facts,
            "policy": str(out),
            "learned_from": learned["rows"],
            "evaluation": one.to_dict(),
        },
    )


def _text(log: SlateLog, found: SlateComparison) -> str:
    first = found.evaluations[0]
    counted = f"{first.rows:,} rows"
    if first.units is not None:
        counted += f", {first.units:,} units"
    lines = [
        f"{visible(log.name)}: {counted}, {len(log.actions)} actions, up to {log.slots} slots",
        f"logged: {number(first.logging_value)} a slate",
        "",
    ]
    header = ["policy", "estimator", "value", "lower", "upper", "improvement, at least", "ESS"]
    header += ["mean weight"]
    cells = []
    for one in found.evaluations:
        ends = (one.value, one.lower, one.upper, one.improvement_lower, one.ess, one.mean_weight)
        cells.append([one.name, one.estimator, *map(number, ends)])
    lines += table(header, cells)
    lines += ["", f"{first.interval} intervals, {_level(found)}"]
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
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(map(visible, lines))


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


def _level(found: SlateComparison) -> str:
    level = f"{100 * (1 - found.delta):.6g} %"
    guarantees = {one.guarantee for one in found.evaluations}
    if guarantees == {"none"}:
        return "none of which could be given"
    if "asymptotic" in guarantees:
        return f"asymptotic, at {level}"
    return f"which hold together with probability at least {level}, if their assumptions hold"


def _document(log: SlateLog, found: SlateComparison) -> dict[str, Any]:
    page = found.to_dict()
    facts = _facts(log, found.evaluations[0].rows)
    return {"log": facts, "policies": page.pop("evaluations"), **page}


def _facts(log: SlateLog, rows: int) -> dict[str, Any]:
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
