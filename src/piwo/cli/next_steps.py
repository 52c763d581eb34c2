"""What to do next: the last lines of `check`, `evaluate` and `learn`, by what they found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from piwo.cli.answer import next_lines
from piwo.cli.log_options import LogOptions
from piwo.cli.settings import settings_of
from piwo.errors import FileError
from piwo.evaluation import Evaluation
from piwo.health.record import Health, policy_text
from piwo.health.rules import FEWEST
from piwo.logs.columns import Columns
from piwo.logs.items import has_items
from piwo.logs.log import Log
from piwo.logs.served import is_served
from piwo.policies import Policy
from piwo.sources.paths import files_of, kind_of
from piwo.visible import visible, without_secrets

__all__ = [
    "KNOWN_BEFORE",
    "acting",
    "after_check",
    "after_evaluate",
    "after_in_sample",
    "after_learn",
    "free_columns",
]

KNOWN_BEFORE = "of these columns, keep those that are known before the decision"
"""On columns without a role that a command proposes as context."""
_OF_ROWS = re.compile(r"(^|_)(id|uuid|key|ts|time|timestamp|date|datetime)$", re.IGNORECASE)
"""Names of ids and times: known before the decision, and no context."""


def after_check(
    health: Health, rows: Log, log: list[str], policy: str | None, columns: LogOptions
) -> list[str]:
    """Return what comes after `piwo check`: the command to run, and why if it needs a reason.

    Args:
        health: what the check found.
        rows: the log.
        log: its paths, as typed.
        policy: the policy of the check, as typed; None: none.
        columns: the options on columns.
    """
    if rows.chosen_by:
        # The condition may be what makes the log unfit, and such rows give no interval.
        return _without_condition(rows, log, columns)
    named = [] if policy is None else ["--policy", policy]
    unfit = [one.kind for one in health.findings if one.severity == "unfit"]
    if any(kind != "effective-sample" for kind in unfit):
        again = ["piwo", "check", *columns.words(log, "check"), *named, "--explain"]
        return next_lines(
            again, "once the log is repaired; results computed from it now would be wrong"
        )
    if unfit and health.count < FEWEST:
        # No policy has an effective sample that is larger than the log.
        return _with_more(health.count, health.counted, log, columns)
    if unfit:
        # The log itself is sound: only this policy differs too much from the logger.
        words = ["piwo", "evaluate", *columns.words(log, "evaluate"), "--policy", "logging"]
        return next_lines(
            words,
            f"few rows count for the {policy_text(health.policy)}: evaluate policies closer to the "
            "logger, or log more exploration",
        )
    if any(gap.missing + gap.nan and not gap.indicated for gap in health.context_gaps):
        # By default, such rows are refused.
        columns = replace(columns, missing="indicator")
    words = ["piwo", "evaluate", *columns.words(log, "evaluate")]
    if policy is not None or "--policy" not in settings_of("evaluate"):
        words += ["--policy", policy or "uniform"]
    return next_lines(words)


def after_evaluate(
    found: Iterable[Evaluation],
    rows: Log,
    log: list[str],
    columns: LogOptions,
    named: Sequence[str],
) -> list[str]:
    """Return what comes after `piwo evaluate`: the command, and why if it needs a reason.

    Args:
        found: the evaluations.
        rows: the log.
        log: its paths, as typed.
        columns: the options on columns.
        named: the policies, and what they are compared with, as typed.
    """
    if rows.chosen_by:
        return _without_condition(rows, log, columns)
    check = ["piwo", "check", *columns.words(log, "check")]
    if rows.unprovable is not None:
        return next_lines(check, f"no certificate can be given: {rows.unprovable}")
    evaluations = tuple(found)
    if all(one.in_sample for one in evaluations):
        return after_in_sample(named)
    reasons = (one.no_interval for one in evaluations)
    if any(why is not None and why.kind == "contradicted" for why in reasons):
        return next_lines(check)
    first = evaluations[0]
    count, counted = first.rows, "rows"
    if first.units is not None:
        count, counted = first.units, "units"
    if count < FEWEST:
        return _with_more(count, counted, log, columns)
    return _learning(rows, log, columns)


def _learning(rows: Log, log: list[str], columns: LogOptions) -> list[str]:
    """Return the command that learns, or what it lacks."""
    # A folder that `piwo serve` writes says itself what is eligible, and what is context.
    if rows.columns.eligible is not None and not has_items(rows):
        objects = _objects(rows)
        if not objects:
            return next_lines(
                ["piwo", "learn", "--help"],
                "to learn from changing actions, give their features: --items FILE, or a column of "
                "lists with an object for each eligible action",
            )
        columns = replace(columns, items=objects[0])
    settings = settings_of("learn")
    words, before = ["piwo", "learn", *columns.words(log, "learn")], ""
    if not rows.columns.context and "--context" not in settings:
        taken = {*rows.columns.used(), rows.columns.position, *_joined(rows.columns.reward)}
        taken.add(columns.items)
        # Its other columns are about decisions: ids, times, which policy decided.
        names = [] if is_served(log[0]) else rows.source.schema.names
        context = free_columns(names, taken)
        if not context:
            return next_lines(
                ["piwo", "learn", "--help"],
                "to learn, log context: columns known before the decision, and name them",
            )
        words += ["--context", context]
        before = KNOWN_BEFORE
    if "--out" not in settings:
        words += ["--out", "policy.piwo"]
    return next_lines(words, before)


def _objects(rows: Log) -> list[str]:
    """Return the columns that hold a list of objects in each row, without a role."""
    found = []
    for column in rows.source.schema:
        nested = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        if nested and pa.types.is_struct(column.type.value_type):
            found.append(column.name)
    return [name for name in found if name not in rows.columns.used()]


def after_in_sample(named: Iterable[str]) -> list[str]:
    """Return what comes after policies that were learned from the rows at hand.

    Args:
        named: the policies, as typed; those that are files have certificates of their own.
    """
    files = [word for word in named if Path(word).is_file()]
    return next_lines(
        ["piwo", "policy", "show", *files[:1]] if files else ["piwo", "policy", "show", "--help"],
        "it says what was proved of the policy on rows held out from learning; to evaluate it, "
        "take other rows than those that it was learned from",
    )


def _without_condition(rows: Log, log: list[str], columns: LogOptions) -> list[str]:
    """Return the check of all rows, where a condition chose some by what was decided or earned."""
    everything = replace(columns, where=None)
    chosen = ", ".join(map(repr, rows.chosen_by))
    return next_lines(
        ["piwo", "check", *everything.words(log, "check")],
        f"read the log without --where, which chooses rows by {chosen}",
    )


def _with_more(count: int, counted: str, log: list[str], columns: LogOptions) -> list[str]:
    """Return the check again, for a log that has too few rows."""
    return next_lines(
        ["piwo", "check", *columns.words(log, "check")],
        f"when there are more {counted}: {count:,} say too little about any policy",
    )


def free_columns(names: Iterable[str], taken: Collection[str | None]) -> str:
    """Return the columns of a log without a role, which may be context, as --context takes them.

    Args:
        names: all columns.
        taken: those with a role.

    >>> free_columns(["id", "user_id", "hour", "shop", "ts", "reward"], {"reward"})
    'hour,shop'
    """
    found = [name for name in names if name not in taken and not _OF_ROWS.search(name)]
    return ",".join(_short(found))


def _joined(reward: str) -> list[str]:
    """Return the columns that `piwo join` makes of an outcome; they are known after the decision.

    >>> _joined("click_low")[:2]
    ['click', 'click_low']
    """
    ends = ("_low", "_high", "_state", "_closed")
    name = reward
    for end in ends:
        name = name.removesuffix(end)
    return [name, *(f"{name}{end}" for end in ends)]


def _short(names: Sequence[str]) -> list[str]:
    """Return names of columns; numbered ones as a glob, such as pixel_* for pixel_0, pixel_1.

    >>> _short(["hour", "pixel_0", "pixel_1"]), _short(["x1"])
    (['hour', 'pixel_*'], ['x1'])
    """
    starts = [re.sub(r"[0-9]+$", "", name) for name in names]
    found = []
    for name, start in zip(names, starts, strict=True):
        several = start and starts.count(start) > 1
        found.append(f"{start}*" if several else name)
    return list(dict.fromkeys(found))


def after_learn(
    out: Path,
    log: str,
    columns: Columns,
    policy: Policy,
    saved: str,
    *,
    refused: bool,
    proved: bool,
) -> list[str]:
    """Return what was saved, and the command to run next.

    Args:
        out: the file.
        log: the first of the inputs, as it was typed.
        columns: its columns, as they were read.
        policy: the one that was learned.
        saved: the line on the file, for a policy that the gate did not refuse.
        refused: whether the gate refused it.
        proved: whether anything is; what is not proved better is shown, rather than run.
    """
    if refused and out.exists():
        return [f"the gate did not pass: kept the old {visible(out)}"]
    if refused:
        return [f"the gate did not pass: {visible(out)} was not written"]
    show = next_lines(["piwo", "policy", "show", str(out)])
    if not policy.gives_full_distribution:
        # The policy to keep is the logging policy, which is known by its logged rows alone.
        records = f"{visible(out)} records this, and cannot be used to act"
        return [f"no policy was certified better; keep the current one ({records})", "", *show]
    if not proved:
        return [saved, "", *show]
    return [saved, "", *next_lines(acting(out, log, columns))]


def acting(policy: Path, log: str, columns: Columns) -> list[str]:
    """Return the command that decides with a policy and explores; else the one that shows it.

    Args:
        policy: its file.
        log: the first of the inputs, as it was typed.
        columns: its columns, as they were read.
    """
    if is_served(log):
        folder = without_secrets(log).rstrip("/\\")
        # It is the log of another policy, so it gets a folder of its own.
        return ["piwo", "serve", str(policy), "--log", f"{folder}-next", "--epsilon", "0.05"]
    # `piwo policy act` reads tables, and not those of a cluster.
    if log.startswith("spark:") or not _is_table(log):
        return ["piwo", "policy", "show", str(policy)]
    act = ["piwo", "policy", "act", str(policy), without_secrets(log)]
    if columns.eligible is not None:
        act += ["--eligible", columns.eligible]
    # Features inside the log change by row; those of a file are in the policy.
    if columns.item_features is not None:
        act += ["--items", columns.item_features]
    return [*act, "--epsilon", "0.05"]


def _is_table(log: str) -> bool:
    """Return whether the rows are those of a table, not lines of Vowpal Wabbit."""
    try:
        return kind_of(files_of(log)) not in {"vw", "dsjson"}
    except FileError:
        # A query.
        return True
