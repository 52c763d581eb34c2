"""Warnings and errors on standard error, one line each."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache

from piwo.errors import PiwoWarning
from piwo.visible import visible

__all__ = ["as_option", "collected_warnings", "error_line", "on_stderr", "warning_line"]

_OTHER_NAMES = {
    "also": "--context",
    "all_new": "--all-new",
    "baseline": "--baseline",
    "date": "--date",
    "deadline": "--deadline",
    "epsilon": "--epsilon",
    "incumbent": "--baseline",
    "on": "--id",
    "port": "--port",
    "q": "--reward-model",
    "above": "--target-propensities",
    "marginal": "--target-marginals",
    "random_state": "--seed",
    "segments": "--by",
    "estimators": "--estimator",
    "piwo.estimate_propensities": "--estimate-propensities",
    "slates.adapt": "--estimator adapt",
    "slates.check": "--check",
    "slates.choose": "--estimator choose",
    "slates.learn": "--learn",
    "slots": "--slots",
    "uncertified": "--uncertified",
}
"""Arguments of Python whose option has another name, or is not a field of a class of options."""


@cache
def _options() -> Mapping[str, str]:
    """Return the option of each argument of Python that has one."""
    # Importing these takes a while, and most commands print no argument.
    from piwo.cli.gain_options import GainOptions
    from piwo.cli.join import JoinOptions
    from piwo.cli.learn_options import LearnOptions
    from piwo.cli.log_options import LogOptions
    from piwo.cli.shared_options import EstimateOptions, PolicyOptions, RunOptions
    from piwo.cli.slate_options import SlateOptions
    from piwo.cli.terms import TermOptions
    from piwo.scores import SCORES

    # Scores call their parameter lam, beta, threshold, ...; the command calls each --gamma.
    found = {str(kind.parameter): "--gamma" for kind in SCORES.values()}
    classes = (
        JoinOptions,
        GainOptions,
        SlateOptions,
        LogOptions,
        EstimateOptions,
        LearnOptions,
        PolicyOptions,
        RunOptions,
        TermOptions,
    )
    for options in classes:
        for one in fields(options):
            found[one.name] = "--" + one.name.replace("_", "-")
    return {**found, **_OTHER_NAMES}


def as_option(name: str, value: str | None) -> str:
    """Return an argument of a message as the user of the command would type it.

    >>> as_option("reward_range", "(-1, 0)"), as_option("missing", "'indicator'")
    ('--reward-range=-1,0', '--missing=indicator')
    >>> as_option("actions", "[...]"), as_option("normalize", "True"), as_option("refit", "False")
    ('--actions', '--normalize', '--no-refit')
    >>> as_option("features", "...")
    'features=...'
    """
    option = _options().get(name)
    if option is None:
        if value is None:
            return name
        return f"{name}={value}"
    if value in {None, "[...]", "...", "True"}:
        return option
    if value == "False":
        return option.replace("--", "--no-", 1)
    text = str(value).strip("()[]").replace("'", "").replace(", ", ",")
    return f"{option}={text}"


def on_stderr(text: str) -> None:
    """Print to standard error. The command does not fail if this is impossible."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # The interpreter flushes once more at exit, and would change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def warning_line(text: str) -> None:
    """Print one warning."""
    on_stderr(f"piwo: warning: {visible(_one_line(text))}")


def error_line(text: str) -> None:
    """Print why the command failed."""
    on_stderr(f"piwo: error: {visible(_one_line(text))}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def collected_warnings(quiet: bool = False) -> Iterator[list[str]]:
    """Yield the warnings of piwo, one of each kind; print each as it comes.

    Warnings of other libraries are ignored.

    Args:
        quiet: collect only.
    """
    collected: list[str] = []
    kinds: set[str | None] = set()

    # `warnings` passes the file and the line, too; users of the command have no use for them.
    def show(message: Warning | str, *_: object, **__: object) -> None:
        if not isinstance(message, PiwoWarning) or message.kind in kinds:
            return
        kinds.add(message.kind)
        text = _one_line(str(message))
        collected.append(text)
        if not quiet:
            warning_line(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PiwoWarning)
        warnings.showwarning = show
        yield collected
