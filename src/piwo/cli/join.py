"""`piwo join`: outcomes that come later, joined to the decisions that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

import piwo
from piwo.cli.answer import Answer, next_lines
from piwo.cli.log_options import range_of
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions
from piwo.errors import UsageError
from piwo.formats.join import Joined
from piwo.logs.source_of import contexts_of

__all__ = ["JoinOptions", "join", "time_of"]


@Parameter(name="*", group=Group("Join", sort_key=1))
@dataclass(frozen=True)
class JoinOptions:
    """Which rows belong together, and what an outcome means."""

    on: Annotated[
        str | None,
        Parameter(
            name="--id", help="Column of the id in both; A,B if they have two names.", show=True
        ),
    ] = None
    window: Annotated[
        str | None,
        Parameter(
            help="How long after its decision an outcome counts: 48h, 7d, 30min, 90s; a number "
            "for times that are numbers.",
            show=True,
            allow_leading_hyphen=True,
        ),
    ] = None
    time: Annotated[
        str, Parameter(help="Column of the times in both; A,B if they have two names.", show=True)
    ] = "time"
    outcome: Annotated[str, Parameter(help="Column of the outcome.", show=True)] = "reward"
    several: Annotated[
        str,
        Parameter(
            help="What several outcomes of a decision mean: first, last, sum, max, or refuse.",
            show=True,
        ),
    ] = "first"
    absent: Annotated[
        float | None,
        Parameter(
            help="What a decision without an outcome earned. [default: LO of --reward-range]",
            show=True,
            allow_leading_hyphen=True,
        ),
    ] = None
    until: Annotated[
        str | None,
        Parameter(
            help="Time up to which outcomes are known, 2026-01-31T12:00 or a number. "
            "[default: that of the latest outcome]",
            show=True,
            allow_leading_hyphen=True,
        ),
    ] = None
    reward_range: Annotated[
        str,
        Parameter(help="Range LO,HI of the outcome.", show=True, allow_leading_hyphen=True),
    ] = "0,1"


NO_JOIN = JoinOptions()


def join(
    decisions: Annotated[
        str, Parameter(help="A file, a glob or a query, one row a decision.", show=True)
    ],
    outcomes: Annotated[
        str, Parameter(help="A file, a glob or a query, one row an outcome.", show=True)
    ],
    /,
    *,
    out: Annotated[
        Path,
        Parameter(help="The file to write, replaced: .parquet, .csv, .tsv, .jsonl.", show=True),
    ],
    options: JoinOptions = NO_JOIN,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
) -> Answer:
    """Join outcomes that come later to their decisions, and count what does not fit."""
    if options.on is None or options.window is None:
        lacking = "--id, the column of ids"
        if options.on is not None:
            lacking = "--window, how long an outcome counts"
        raise UsageError(f"expected {lacking}; give it")
    made = piwo.join(
        decisions,
        outcomes,
        on=_pair(options.on),
        window=options.window,
        time=_pair(options.time),
        outcome=options.outcome,
        several=options.several,  # type: ignore[arg-type] # (checked by the library)
        absent=options.absent,
        until=time_of(options.until),
        reward_range=range_of(options.reward_range, "--reward-range"),
        out=out,
    )
    return Answer(
        "\n".join(
            [f"{made}\nwrote {made.decisions:,} rows to {out}\n", *_next(made, out, options)]
        ),
        {"out": str(out), **made.to_dict()},
    )


def _next(made: Joined, out: Path, options: JoinOptions) -> list[str]:
    """Return the check of what was made, or what the command lacks."""
    names = contexts_of([str(out)], {}).schema.names
    roles = {"the action (--action)": "action", "its probability (--propensity)": "propensity"}
    lacking = [what for what, name in roles.items() if name not in names]
    if lacking:
        return next_lines(
            ["piwo", "check", "--help"],
            f"to check {out}, name its columns of {' and of '.join(lacking)}",
        )
    words = ["piwo", "check", str(out)]
    if options.outcome != "reward":
        words += ["--reward", options.outcome]
    if options.reward_range != "0,1":
        words.append(f"--reward-range={options.reward_range}")
    if made.open:
        words += ["--where", f"{options.outcome}_closed"]
    return next_lines(words)


def _pair(text: str) -> str | tuple[str, str]:
    """Return a column name, or the two of A,B."""
    first, comma, second = text.partition(",")
    if not comma:
        return text
    return first.strip(), second.strip()


def time_of(text: str | None) -> Any:
    """Return the value of --until: None, a number, or a time.

    Raises:
        UsageError: for other text.

    >>> time_of("17"), time_of("2026-01-31T12:00")
    (17.0, datetime.datetime(2026, 1, 31, 12, 0))
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--until got {text!r}, expected a date or time such as 2026-01-31 or "
            "2026-01-31T12:00+02:00, or a number"
        ) from None
