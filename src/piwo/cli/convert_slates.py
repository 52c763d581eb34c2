"""`piwo convert` of slate logs: the options that only they have, and the answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

import piwo
from piwo.cli.answer import Answer, next_lines
from piwo.cli.label_lists import can_be_listed, list_of
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, comma_list, whole
from piwo.cli.slate_answers import facts_of
from piwo.cli.slate_options import NO_COLUMNS, SlateOptions
from piwo.errors import UsageError
from piwo.logs.source_of import paths_of
from piwo.messages import argument
from piwo.slates import SlateLog
from piwo.slates.policies import FromColumns
from piwo.sources.paths import kind_of_name
from piwo.sources.slate_files import holds_slates
from piwo.visible import exact, visible

__all__ = ["NO_SLATES", "ConvertedSlates", "convert_slates"]


@Parameter(name="*", group=Group("Columns of a log of slates", sort_key=3))
@dataclass(frozen=True)
class ConvertedSlates:
    """The roles that slate logs have and others have not; `SlateOptions` says what they mean."""

    slate: Annotated[
        str | None,
        Parameter(
            help="List column of the labels shown: LOG has slates, as piwo slates reads them. "
            "Files of Vowpal Wabbit say so themselves.",
            show=True,
        ),
    ] = None
    rewards: Annotated[
        str | None, Parameter(help="List column: the reward of each slot.", show=True)
    ] = None
    marginals: Annotated[
        str | None, Parameter(help="List column: the logger's probability of each in its slot.")
    ] = None
    slate_propensity: Annotated[
        str | None, Parameter(help="Column: its probability of the whole slate.")
    ] = None
    independent: Annotated[
        bool, Parameter(help="The logger drew slots independently.", show_default=False)
    ] = False
    behavior: Annotated[
        Literal["uniform"] | None,
        Parameter(help="uniform: the logger ranked all --actions uniformly.", show_choices=False),
    ] = None
    position_weights: Annotated[
        str | None, Parameter(help="Weight of each slot in the value of a slate: 1,.5,.3.")
    ] = None
    user_behavior: Annotated[
        str | None, Parameter(help="Column of what a slot's reward depends on in this row.")
    ] = None
    most_slots: Annotated[
        int | None,
        Parameter(
            name="--slots",
            help="The most slots of a slate. [default: from the log]",
            converter=whole,
        ),
    ] = None

    def options(self, log: str, columns: LogOptions) -> SlateOptions | None:
        """Return the options of `piwo slates`; None: the log is none of slates.

        Args:
            log: the word for LOG.
            columns: the options that every log has.

        Raises:
            UsageError: for options that slates have not.
        """
        stated = False
        # a folder is one that piwo serve wrote, of other logs
        if not os.path.isdir(log):  # noqa: PTH112 - Path raises for a long query
            paths = paths_of(log)
            stated = paths is not None and holds_slates(paths)
        if self == NO_SLATES and not stated:
            return None
        known = {one.name for one in fields(SlateOptions)}
        shared: dict[str, Any] = {}
        for one in fields(columns):
            value = getattr(columns, one.name)
            if one.name in known:
                shared[one.name] = value
            elif value != getattr(DEFAULT_COLUMNS, one.name):
                raise UsageError(
                    f"{argument(one.name)} is no option of a log of slates; leave it out, or see "
                    "piwo slates --help-all"
                )
        # "reward" is what other logs call it unless another column is named
        if shared["reward"] == DEFAULT_COLUMNS.reward and (self.rewards is not None or stated):
            shared["reward"] = None
        shared["context"] = ",".join(comma_list(columns.context)) or None
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return SlateOptions(**{**shared, **own, "slate": self.slate or NO_COLUMNS.slate})


NO_SLATES = ConvertedSlates()


def convert_slates(log: str, out: Path, options: SlateOptions) -> Answer:
    """Return the answer after a slate log was written in another format.

    Args:
        log: the word for LOG.
        out: the file to write.
        options: how LOG is read.
    """
    rows = options.read([log])
    made = piwo.slates.write_log(rows, out)
    skipped: Mapping[str, int] = getattr(rows.source, "skipped", {})
    lines = [str(made)]
    if skipped:
        reasons = ", ".join(f"{reason} {count}" for reason, count in skipped.items())
        lines.append(f"lines that are not decisions: {reasons}")
    paths = paths_of(log)
    left_out = list(made.left_out)
    if paths is not None and kind_of_name(paths[0]) in {"dsjson", "vw"}:
        # these files have them, and no slate log has
        unread = "features of actions and slots, and of the context but --context"
        lines.append(f"not read: {unread}")
        left_out.append(unread)
    lines += ["", *_next(rows, options, out)]
    return Answer(
        "\n".join(map(visible, lines)),
        {
            "log": facts_of(rows, made.rows),
            "out": str(out),
            "rows": made.rows,
            "skipped": dict(skipped),
            "left_out": left_out,
        },
    )


def _next(log: SlateLog, typed: SlateOptions, out: Path) -> list[str]:
    """Return a command that reads the new file as the log was read, and values a policy."""
    same = SlateOptions(
        context=",".join(log.columns.context) or None,
        reward_range=f"0,{exact(log.largest)}",
        position_weights=typed.position_weights,
        logger=log.learning,
    )
    labels = log.actions.labels
    to_table = kind_of_name(str(out)) != "dsjson"
    if to_table:
        same = _columns(log, same)
    elif not log.by_slot or log.columns.eligible or labels != tuple(range(len(labels))):
        # its lines state the roles, and actions are their places there, or their names
        same = replace(same, items_label="_tag")
    words = ["piwo", "slates", *same.words([str(out)])]
    # each slot of slates may have its own list in dsjson, and a ranking leave none for a slot
    one_list = log.columns.eligible is None and (to_table or log.by_slot)
    if one_list and len(labels) >= log.slots:
        return next_lines([*words, "--policy", "uniform"], "to value a policy; put yours instead")
    named = [
        ("--target-propensities", same.propensities if to_table else "propensities"),
        ("--target-marginals", same.marginals),
        ("--target-slate-propensity", same.slate_propensity),
    ]
    for option, column in named:
        if column is not None:
            words += [option, column]
    if (to_table and same.independent) or not (to_table or log.by_slot):
        words.append("--target-independent")
    return next_lines(words, "to value the logger itself; put your policy instead")


def _columns(log: SlateLog, same: SlateOptions) -> SlateOptions:
    """Return options with the roles of the columns of a log, for a table."""
    columns, logger = log.columns, log.logger
    assert isinstance(logger, FromColumns)
    marginals = logger.marginal_column
    if logger.independent and marginals == logger.above_column:
        marginals = None
    actions = None
    if log.declared_actions is not None and can_be_listed(log.actions.labels):
        actions = list_of(log.actions.labels)
    return replace(
        same,
        slate=columns.slate,
        reward=columns.reward,
        rewards=columns.rewards,
        propensities=logger.above_column,
        marginals=marginals,
        slate_propensity=logger.slate_column,
        independent=logger.independent,
        eligible=columns.eligible,
        unit=columns.unit,
        weight=columns.weight,
        user_behavior=columns.user_behavior,
        most_slots=log.declared_slots,
        actions=actions,
    )
