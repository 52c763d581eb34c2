"""The options of `piwo slates`: columns, policies, learning and the gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

import piwo
from piwo.cli.log_options import (
    action_labels,
    comma_list,
    number_of,
    range_of,
    typed_paths,
    typed_words,
    whole,
)
from piwo.cli.settings import settings_of
from piwo.errors import UsageError
from piwo.slates import SlateLog, SlatePolicy
from piwo.visible import without_secrets

__all__ = [
    "NO_COLUMNS",
    "NO_GATE",
    "NO_LEARNING",
    "NO_TARGETS",
    "SlateGate",
    "SlateLearning",
    "SlateOptions",
    "SlateTargets",
]


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
            help="uniform: the logger ranked all --actions evenly.",
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

    def words(self, paths: Sequence[str]) -> list[str]:
        """Return LOG and these options as a user would type them.

        Args:
            paths: the words for LOG.
        """
        typed = typed_words(self, "slates", {"most_slots": "--slots"})
        return [*typed_paths(paths, "slates"), *typed]

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

    @property
    def columns(self) -> tuple[str | None, ...]:
        """The columns that policies read."""
        words = [word.removeprefix("column:") for word in self.policy or []]
        lists = (self.target_propensities, self.target_marginals, self.target_slate_propensity)
        return (*words, *lists)

    def words(self) -> list[str]:
        """Return the policies as a user would type them."""
        words: list[str] = []
        if settings_of("slates").get("--policy") != ",".join(self.policy or []):
            for one in self.policy or []:
                words += ["--policy", without_secrets(one)]
        return words + typed_words(replace(self, policy=None), "slates")

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
