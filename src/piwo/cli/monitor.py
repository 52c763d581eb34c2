"""`piwo monitor`: one look more at policies on a log that grows, run daily."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import piwo
from piwo.certificates.terms import check_at_least
from piwo.cli.answer import Answer, next_lines
from piwo.cli.gain_options import DEFAULT_GAINS, GainOptions
from piwo.cli.log_options import (
    DEFAULT_COLUMNS,
    LogOptions,
    LogPaths,
    log_facts,
    typed_words,
)
from piwo.cli.next_steps import acting
from piwo.cli.shared_options import (
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    NO_POLICY,
    NamedPolicy,
    OutputOptions,
    PolicyOptions,
    RunOptions,
    horizon_of,
)
from piwo.decision import Units
from piwo.errors import UsageError
from piwo.evaluation import WatchHistory, WatchLook
from piwo.evaluation.watch import Watch
from piwo.files import locked
from piwo.logs.columns import Columns
from piwo.policies import Policy
from piwo.report import write_looks
from piwo.visible import number, table, visible

__all__ = ["monitor"]

_LOOKS_SHOWN = 10


@Parameter(name="*")
@dataclass(frozen=True)
class WatchOptions:
    """What is fixed before the first look."""

    deadline: Annotated[
        str | None,
        Parameter(
            help="When to stop: 30d, or a number of rows. [default: never]",
            show=True,
        ),
    ] = None
    at_least: Annotated[
        float | None,
        Parameter(
            help="The least value that must be certified, too, in the reward's unit.",
            allow_leading_hyphen=True,
        ),
    ] = None
    delta: Annotated[
        float, Parameter(help="Joint error probability of all policies and looks.")
    ] = 0.05
    horizon: Annotated[
        str | None,
        Parameter(
            help="About how many rows will come, for the bets; or universal. [default: the "
            "deadline if it is a number of rows, else universal]"
        ),
    ] = None
    interval: Annotated[
        Literal["mixture", "deadline"],
        Parameter(
            help="mixture; or deadline: narrower near the horizon, if contexts and rewards do not "
            "drift."
        ),
    ] = "mixture"


DEFAULT_WATCH = WatchOptions()


@dataclass(frozen=True)
class _Others:
    """Options that other commands on the log take, too."""

    policies: PolicyOptions
    columns: LogOptions
    read: Columns = field(default_factory=Columns)
    """The columns of the log, as they were read."""


def monitor(
    log: LogPaths | None = None,
    *,
    state: Annotated[
        Path,
        Parameter(
            help="File with the sums and all looks, replaced by each look.",
            show=True,
        ),
    ],
    date: Annotated[
        str | None,
        Parameter(help="Day of this look, such as 2026-11-29. [default: today, UTC]", show=True),
    ] = None,
    html: Annotated[
        Path | None,
        Parameter(help="Also write a page with the bounds over time.", show=True),
    ] = None,
    all_new: Annotated[
        bool,
        Parameter(
            help="LOG holds new rows alone, although one of this name was counted before: a file "
            "that is overwritten each day."
        ),
    ] = False,
    shown: GainOptions = DEFAULT_GAINS,
    settings: WatchOptions = DEFAULT_WATCH,
    policies: PolicyOptions = NO_POLICY,
    columns: LogOptions = DEFAULT_COLUMNS,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Add the new rows of LOG to a state, and say: certified, not yet, or stop.

    LOG has grown, or is new rows; without it, the last look is shown. Exit code 1: not certified.
    """
    # Checked before anything is counted.
    units = shown.units
    if not log:
        history = WatchHistory.load(state)
        _require_same(history, state, date, all_new, settings, policies)
        facts = {"state": str(state), **_facts(history, units)}
        nothing = _Others(policies, columns)
        return _answer(history, facts, html, units, _next_lines(history, state, [], [], nothing))
    with locked(state):
        named = _named(policies, state)
        rows = _read(log, named, policies, columns, state)
        made: dict[str, Policy] = {}
        for name, one in named.items():
            made[name] = one.make(rows.actions)
        if settings.at_least is not None:
            check_at_least(settings.at_least, rows)
        watch = Watch.start(
            made,
            delta=settings.delta,
            deadline=_deadline_of(settings.deadline),
            horizon=horizon_of(settings.horizon),
            at_least=settings.at_least,
            interval=settings.interval,
        )
        if state.exists():
            watch = _resumed(watch, made, state)
        watch = watch.update(
            rows, date=date, all_new=all_new, independent_rows=columns.independent_rows
        )
        watch.save(state)
    history = watch.history
    facts = {"log": log_facts(rows, history.last.added), "state": str(state)}
    again = ["piwo", "monitor", *columns.words(log, "monitor"), "--state", str(state)]
    again += policies.words("monitor")
    for options in (settings, shown):
        again += typed_words(options, "monitor")
    if all_new:
        again.append("--all-new")
    if html is not None:
        again += ["--html", str(html)]
    following = _next_lines(history, state, log, again, _Others(policies, columns, rows.columns))
    return _answer(history, {**facts, **_facts(history, units)}, html, units, following)


def _require_same(
    history: WatchHistory,
    state: Path,
    date: str | None,
    all_new: bool,
    settings: WatchOptions,
    policies: PolicyOptions,
) -> None:
    """Raise for options that say something else than a state that is shown without a log."""
    if date is not None or all_new:
        raise UsageError(
            f"{'--all-new' if date is None else '--date'} is of a look, which takes rows; name the "
            "log, or leave it out to see the last look"
        )
    watched = [one.name for one in history.last.policies]
    for name in [*(policies.policy or []), *policies.columns]:
        if name not in watched:
            raise UsageError(
                f"{visible(state)} is of the policies {', '.join(map(visible, watched))}, got "
                f"{visible(name)}; leave out what is not of it"
            )
    pairs = {
        "deadline": (history.deadline, _deadline_of(settings.deadline)),
        "at-least": (history.at_least, settings.at_least),
        "delta": (history.delta, None if settings.delta == DEFAULT_WATCH.delta else settings.delta),
    }
    for option, (was, given) in pairs.items():
        if given not in (None, was):
            raise UsageError(
                f"{visible(state)}: --{option} was {'none' if was is None else was}, got {given}; "
                "settings are fixed before the first look: leave it out"
            )


def _named(policies: PolicyOptions, state: Path) -> dict[str, NamedPolicy]:
    """Return the policies by the words that name them; a state says which it was started with.

    Raises:
        UsageError: as `PolicyOptions.named` does.
    """
    if state.exists() and not (policies.policy or policies.columns):
        names = ", ".join(visible(one.name) for one in WatchHistory.load(state).last.policies)
        raise UsageError(
            f"no policy was named, and {visible(state)} was started with {names}; name the same "
            "again (--policy, --policy-column)"
        )
    return policies.named()


def _read(
    log: list[str],
    named: Mapping[str, NamedPolicy],
    policies: PolicyOptions,
    columns: LogOptions,
    state: Path,
) -> piwo.Log:
    """Return the log, with the action list of the first look."""
    context: dict[str, None] = {}
    for policy in named.values():
        context |= dict.fromkeys(policy.columns)
    labels: list[int | str] | None = None
    # What the command line declares comes first, and must agree with the state.
    if columns.actions is None and state.exists():
        labels = list(Watch.labels(state)) or None
    return columns.read(log, policies.columns, context=tuple(context), labels=labels)


def _resumed(watch: Watch, policies: Mapping[str, Policy], state: Path) -> Watch:
    """Return the watch in a file, if it has the settings of a watch that was just started.

    Raises:
        UsageError: naming the first setting that differs.
    """
    saved = Watch.load(state, policies)
    for one in saved.differences(watch):
        raise UsageError(
            f"{visible(state)}: {one}; settings are fixed before the first look: keep them, or "
            "start another state"
        )
    return saved


def _facts(history: WatchHistory, units: Units) -> dict[str, Any]:
    """Return what JSON says of a watch."""
    return {
        "answer": history.answer,
        "headline": visible(history.headline(units)),
        "certified": list(history.certified),
        "delta": history.delta,
        "deadline": history.deadline,
        "deadline_passed": history.over,
        "terms": dict(history.terms(units)),
        "units": asdict(units),
        "looks": [one.to_dict() for one in history.looks],
        "notes": list(history.notes),
    }


def _answer(
    history: WatchHistory,
    facts: Mapping[str, Any],
    html: Path | None,
    units: Units,
    following: list[str],
) -> Answer:
    """Return the answer of the last look, which is the same with and without a log."""
    if html is not None:
        write_looks(history, html, units=units)
    lines = [facts["headline"], "", *_look_lines(history.looks, units), ""]
    lines += [visible(f"{name:<10}{words}") for name, words in history.terms(units)]
    lines += [visible(f"note: {note}") for note in history.notes]
    lines.append("")
    if html is not None:
        lines.append(f"wrote {visible(html)}; open it in a browser")
    lines += following
    return Answer(text="\n".join(lines), document=facts, code=int(history.answer != "certified"))


def _look_lines(looks: tuple[WatchLook, ...], units: Units) -> list[str]:
    """Return the table of the last looks, in which unit it is, and how many looks were before."""
    header = [
        "day",
        "policy",
        units.decisions,
        "value",
        "lower",
        "upper",
        "improvement, at least",
        "certified",
    ]
    cells = []
    for look in looks[-_LOOKS_SHOWN:]:
        for each in look.policies:
            one = each.scaled(units.per)
            ends = (one.value, one.lower, one.upper, one.improvement_lower)
            proved = "yes" if one.name in look.certified else "no"
            cells.append([look.date, one.name, f"{look.rows:,}", *map(number, ends), proved])
    lines = table(header, cells)
    cost = any(one.cost for one in looks[-1].policies)
    if cost or units != Units():
        lines.append(visible(f"({units.legend(cost=cost)})"))
    if len(looks) > _LOOKS_SHOWN:
        lines.append(f"({len(looks) - _LOOKS_SHOWN} earlier looks are in the state)")
    return lines


def _next_lines(
    history: WatchHistory, state: Path, log: list[str], again: list[str], others: _Others
) -> list[str]:
    """Return what to do next: a command, and why. Without a log, the look is shown again.

    Args:
        history: of the looks.
        state: its file.
        log: its paths, as typed; empty: none was given.
        again: the command for the next look, if there is a log.
        others: options for other commands on the log.
    """
    look = again or ["piwo", "monitor", "--state", str(state)]
    if history.answer == "not yet":
        if log:
            return next_lines(look, "when new rows have come, with the file that holds them")
        return next_lines(look, "with the log and its options when new rows have come")
    if history.answer == "certified":
        best = history.best or history.certified[0]
        run = f"run {best}, keep exploring a little, and log the propensities"
        if log and Path(best).is_file():
            return next_lines(acting(Path(best), log[0], others.read), run)
        if not log:
            return next_lines(look, f"{run}; or look again with the log when new rows have come")
        return next_lines(look, f"{run}; or look again, at no cost, when new rows have come")
    keep = "keep today's system"
    if not log:
        return next_lines(look, f"{keep}; with the log, a look says which command tells more")
    if history.contradicted:
        words = ["piwo", "check", *others.columns.words(log, "check")]
        return next_lines(words, f"{keep}; check says what is wrong with the log")
    words = ["piwo", "evaluate", *others.columns.words(log, "evaluate")]
    words += others.policies.words("evaluate")
    return next_lines(words, f"{keep}; evaluate says more of these rows")


def _deadline_of(text: str | None) -> Any:
    """Return the value of --deadline: None, a number of rows, or days as they were typed.

    >>> _deadline_of("30d"), _deadline_of("1000")
    ('30d', 1000)
    """
    if text is not None and text.isascii() and text.isdecimal():
        return int(text)
    return text
