"""What goes to standard error: warnings, one line each, and errors, one line in all."""

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

__all__ = ["as_option", "complain", "heard_warnings", "on_stderr", "warn_line"]

_OTHER_NAMES = {
    "baseline": "--baseline",
    "epsilon": "--epsilon",
    "incumbent": "--baseline",
    "q": "--reward-model",
    "random_state": "--seed",
}
"""Arguments of Python whose option is not a field of a class of options, or is called otherwise."""


@cache
def _options() -> Mapping[str, str]:
    """Return the option of each argument that has one."""
    # here, as importing them takes a while
    from piwo.cli.learn_options import LearnOptions
    from piwo.cli.log_options import LogOptions
    from piwo.cli.shared_options import EstimateOptions, PolicyOptions, RunOptions
    from piwo.scores import SCORES

    found = {str(kind.parameter): "--gamma" for kind in SCORES.values()}
    for options in (LogOptions, EstimateOptions, LearnOptions, PolicyOptions, RunOptions):
        found |= {x.name: "--" + x.name.replace("_", "-") for x in fields(options)}
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
    typed = str(value).strip("()[]").replace("'", "").replace(", ", ",")
    return f"{option}={typed}"


def on_stderr(text: str) -> None:
    """Print to standard error; one that cannot be written to is no reason to fail."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # the interpreter flushes once more at its end, and would change the exit code then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def warn_line(text: str) -> None:
    """Print one warning."""
    on_stderr(f"piwo: warning: {visible(_one_line(text))}")


def complain(text: str) -> None:
    """Print why the command failed."""
    on_stderr(f"piwo: error: {visible(_one_line(text))}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def heard_warnings(quiet: bool = False) -> Iterator[list[str]]:
    """Print one warning of each kind, as one line, and collect them; ignore those of libraries.

    Args:
        quiet: collect only.
    """
    heard: list[str] = []
    kinds: set[str | None] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:  # noqa: ARG001
        if not isinstance(message, PiwoWarning) or message.kind in kinds:
            return
        kinds.add(message.kind)
        text = _one_line(str(message))
        heard.append(text)
        if not quiet:
            warn_line(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PiwoWarning)
        warnings.showwarning = show
        yield heard
