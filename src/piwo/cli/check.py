"""`piwo check`: is the log fit for use?"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer
from piwo.cli.explain import ExplainOption
from piwo.cli.log_options import (
    DEFAULT_COLUMNS,
    LogOptions,
    LogPaths,
    log_facts,
)
from piwo.cli.next_steps import after_check
from piwo.cli.shared_options import (
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    OutputOptions,
    RunOptions,
    named_policy,
)
from piwo.health.record import health_text

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
    following = after_check(health, rows, log, policy, columns)
    return Answer(
        text="\n".join([text, "", *following]),
        document={"log": log_facts(rows, health.rows), **health.to_dict()},
        code=int(not health.fit),
    )
