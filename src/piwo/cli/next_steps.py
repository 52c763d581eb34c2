"""What to do next: the last line of `check`, `evaluate` and `learn`, by what they found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from piwo.cli.answer import command_line
from piwo.cli.log_options import LogOptions, certificate_obstacle
from piwo.cli.settings import settings_of
from piwo.errors import FileError
from piwo.evaluation import Evaluation
from piwo.health.record import Health
from piwo.health.rules import FEWEST
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.sources.paths import files_of, kind_of
from piwo.visible import visible, without_secrets

__all__ = ["after_check", "after_evaluate", "after_learn"]


def after_check(
    health: Health, rows: Log, log: list[str], policy: str | None, columns: LogOptions
) -> str:
    """Return what comes after `piwo check`: the command to run, or what to do first.

    Args:
        health: what the check found.
        rows: the log.
        log: its paths, as typed.
        policy: the policy of the check, as typed; None: none.
        columns: the options on columns.
    """
    obstacle = certificate_obstacle(rows)
    if rows.chosen_by and obstacle is not None:
        # The condition may be what makes the log unfit, and such rows give no interval.
        return obstacle
    unfit = [one.kind for one in health.findings if one.severity == "unfit"]
    if any(kind != "effective-sample" for kind in unfit):
        return "repair the log first: results computed from it now would be wrong"
    if unfit and health.count < FEWEST:
        # No policy has an effective sample that is larger than the log.
        return f"collect more {health.counted}: {health.count:,} say too little about any policy"
    if unfit:
        # The log itself is sound: only this policy differs too much from the logger.
        return "evaluate policies closer to the logger, for which more rows count"
    if any(gap.missing + gap.nan and not gap.indicated for gap in health.context_gaps):
        # By default, such rows are refused.
        columns = replace(columns, missing="indicator")
    words = ["piwo", "evaluate", *columns.words(log, "evaluate")]
    if policy is not None or "--policy" not in settings_of("evaluate"):
        words += ["--policy", policy or "uniform"]
    return command_line(words)


def after_evaluate(
    found: Iterable[Evaluation], rows: Log, log: list[str], columns: LogOptions
) -> str:
    """Return what comes after `piwo evaluate`: the command that learns, or what to do first.

    Args:
        found: the evaluations.
        rows: the log.
        log: its paths, as typed.
        columns: the options on columns.
    """
    obstacle = certificate_obstacle(rows)
    if obstacle is not None:
        return obstacle
    evaluations = tuple(found)
    if all(one.in_sample for one in evaluations):
        return "evaluate on other rows than those that the policy was learned from"
    reasons = (one.no_interval for one in evaluations)
    if any(why is not None and why.kind == "contradicted" for why in reasons):
        return command_line(["piwo", "check", *columns.words(log, "check")])
    first = evaluations[0]
    count, counted = first.rows, "rows"
    if first.units is not None:
        count, counted = first.units, "units"
    if count < FEWEST:
        return f"collect more {counted}: {count:,} say too little about any policy"
    if columns.eligible is not None and columns.items is None:
        return "to learn from changing actions, give their features: --items FILE"
    settings = settings_of("learn")
    words, before = ["piwo", "learn", *columns.words(log, "learn")], ""
    if not columns.context and "--context" not in settings:
        free = _free(rows)
        if not free:
            return "to learn, log context: columns known before the decision (this log has none)"
        words += ["--context", ",".join(_short(free))]
        before = "  # of these columns, keep those that are known before the decision"
    if "--out" not in settings:
        words += ["--out", "policy.piwo"]
    return f"{command_line(words)}{before}"


def _free(log: Log) -> list[str]:
    """Return the columns of a log without a role, which may be context."""
    columns = log.columns
    taken = {*columns.used(), columns.position}
    return [name for name in log.source.schema.names if name not in taken]


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
    eligible: str | None,
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
        eligible: its column of eligible actions.
        policy: the one that was learned.
        saved: the line on the file, for a policy that the gate did not refuse.
        refused: whether the gate refused it.
        proved: whether anything is; what is not proved better is shown, rather than run.
    """
    if refused and out.exists():
        return [f"the gate did not pass: kept the old {visible(out)}"]
    if refused:
        return [f"the gate did not pass: {visible(out)} was not written"]
    show = f"next: {command_line(['piwo', 'policy', 'show', str(out)])}"
    if not policy.gives_full_distribution:
        # The policy to keep is the logging policy, which is known by its logged rows alone.
        records = f"{visible(out)} records this, and cannot be used to act"
        return [f"no policy was certified better; keep the current one ({records})", "", show]
    # `piwo policy act` reads tables, and not those of a cluster.
    if not proved or log.startswith("spark:") or not _is_table(log):
        return [saved, "", show]
    act = ["piwo", "policy", "act", str(out), without_secrets(log)]
    if eligible is not None:
        act += ["--eligible", eligible]
    act += ["--epsilon", "0.05"]
    return [saved, "", f"next: {command_line(act)}"]


def _is_table(log: str) -> bool:
    """Return whether the rows are those of a table, not lines of Vowpal Wabbit."""
    try:
        return kind_of(files_of(log)) not in {"vw", "dsjson"}
    except FileError:
        # A query.
        return True
