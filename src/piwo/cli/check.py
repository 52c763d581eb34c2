"""`piwo check`: is the log fit for use?"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer, typed
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, LogPaths, log_facts
from piwo.cli.settings import settings_of
from piwo.cli.shared_options import (
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    OutputOptions,
    RunOptions,
    named_policy,
)

__all__ = ["check"]


def check(
    log: LogPaths,
    *,
    policy: Annotated[
        str | None,
        Parameter(
            help="Policy to be evaluated on the log: uniform, logging, constant:LABEL or a file. "
            "[default: uniform]",
            show=True,
        ),
    ] = None,
    columns: LogOptions = DEFAULT_COLUMNS,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Is the log fit for use? The exit code is 1 if it is not."""
    named = None
    if policy is not None:
        named = named_policy(policy)
    rows = columns.read(log, context=() if named is None else named.columns)
    health = piwo.check(rows, None if named is None else named.make(rows.actions))
    if health.fit:
        refused = any(gap.missing + gap.nan and not gap.indicated for gap in health.context_gaps)
        if refused:
            columns = replace(columns, missing="indicator")
        words = ["piwo", "evaluate", *columns.words(log, "evaluate")]
        if policy is not None or "--policy" not in settings_of("evaluate"):
            words += ["--policy", policy or "uniform"]
        step = typed(words)
    elif all(x.kind == "effective-sample" for x in health.findings if x.severity == "unfit"):
        step = "value policies nearer to the logger, for which more rows count"
    else:
        step = "repair the log first: what is computed from it now would mislead"
    return Answer(
        text=f"{health}\n\nnext: {step}",
        document={"log": log_facts(rows, health.rows), **health.to_dict()},
        code=int(not health.fit),
    )
