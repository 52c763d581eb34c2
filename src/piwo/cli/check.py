"""`piwo check`: is the log fit for use?"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer, command_line
from piwo.cli.explain import ExplainOption
from piwo.cli.log_options import (
    DEFAULT_COLUMNS,
    LogOptions,
    LogPaths,
    certificate_obstacle,
    log_facts,
)
from piwo.cli.settings import settings_of
from piwo.cli.shared_options import (
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    OutputOptions,
    RunOptions,
    named_policy,
)
from piwo.health.record import Health, health_text

__all__ = ["check"]


def check(
    log: LogPaths,
    *,
    policy: Annotated[
        str | None,
        Parameter(
            help="The policy to check for: uniform, logging, constant:LABEL or a file. "
            "[default: uniform]",
            show=True,
        ),
    ] = None,
    explain: ExplainOption = False,
    columns: LogOptions = DEFAULT_COLUMNS,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Is the log fit for use? The exit code is 1 if it is not."""
    if policy is None:
        rows = columns.read(log)
        health = piwo.check(rows)
    else:
        named = named_policy(policy)
        rows = columns.read(log, context=named.columns)
        health = piwo.check(rows, named.make(rows.actions))
    text = health_text(health, explain=explain)
    return Answer(
        text=f"{text}\n\nnext: {_next_step(health, rows, log, policy, columns)}",
        document={"log": log_facts(rows, health.rows), **health.to_dict()},
        code=int(not health.fit),
    )


def _next_step(
    health: Health, rows: piwo.Log, log: list[str], policy: str | None, columns: LogOptions
) -> str:
    """Return the command to run next, or what to do first."""
    obstacle = certificate_obstacle(rows)
    if rows.chosen_by and obstacle is not None:
        # The condition may be what makes the log unfit, and such rows give no interval.
        return obstacle
    unfit = [one.kind for one in health.findings if one.severity == "unfit"]
    if any(kind != "effective-sample" for kind in unfit):
        return "repair the log first: results computed from it now would be wrong"
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
