"""The `piwo` command: what its exit codes are, and how errors are told."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import BoundArguments
from typing import Any

import piwo
from piwo.cli.answer import Answer, document, say, standard_streams
from piwo.cli.interrupts import INTERRUPTED, interruptible
from piwo.cli.notices import as_option, complain, heard_warnings, on_stderr
from piwo.cli.progress import progress, spark_starts
from piwo.cli.shared_options import DEFAULT_OUTPUT, DEFAULT_RUN, OutputOptions, RunOptions
from piwo.errors import PiwoError
from piwo.messages import arguments_shown

__all__ = ["main"]

DONE, UNUSABLE = 0, 2
NARROWEST = 20
"""Columns of a terminal; text does not flow on fewer, and COLUMNS is not believed then."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after `piwo`; None: those that were typed.

    Returns:
        The exit code.
    """
    standard_streams()
    _sensible_width()
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    with arguments_shown(as_option), interruptible() as interrupted:
        try:
            command, bound = _parsed(words)
            output = _output_of(bound)
            debug = debug or output.debug
            return _ran(command, bound, output)
        except BaseException as cause:  # noqa: BLE001 (the last line of defence: every exception is told in one line)
            if debug:
                on_stderr(traceback.format_exc().rstrip())
            return _told(cause, interrupted.is_set())


def _sensible_width() -> None:
    width = os.environ.get("COLUMNS", "")
    if width and not (width.isdecimal() and int(width[:9]) >= NARROWEST):
        del os.environ["COLUMNS"]


def _parsed(words: list[str]) -> tuple[Callable[..., Any], BoundArguments]:
    from piwo.cli.app import parse  # here, as it takes a while, and Ctrl-C is listened to by now

    return parse(words)


def _output_of(bound: BoundArguments) -> OutputOptions:
    return next(
        (x for x in bound.arguments.values() if isinstance(x, OutputOptions)), DEFAULT_OUTPUT
    )


def _kept(bound: BoundArguments) -> AbstractContextManager[None]:
    """Give the checkpoint that was asked for, or none."""
    run = next((x for x in bound.arguments.values() if isinstance(x, RunOptions)), DEFAULT_RUN)
    return nullcontext() if run.checkpoint is None else piwo.engines.checkpointing(run.checkpoint)


def _ran(command: Callable[..., Any], bound: BoundArguments, output: OutputOptions) -> int:
    if not output.quiet and spark_starts(bound.arguments.get("log", ())):
        on_stderr(
            "piwo: starting Spark, which takes a while; every pass over the log is then a job of "
            "its own"
        )
    with heard_warnings(output.quiet) as heard, progress(output.quiet), _kept(bound):
        answer = command(*bound.args, **bound.kwargs)
    if not isinstance(answer, Answer):  # help, version, demo: they print for themselves
        return int(answer or DONE)
    say(document(answer, heard) if output.json else answer.text)
    return answer.code


def _told(cause: BaseException, interrupted: bool) -> int:
    """Say in one line what went wrong, and return the exit code."""
    from cyclopts import CycloptsError

    if interrupted or isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(cause, BrokenPipeError) or isinstance(cause.__context__, BrokenPipeError):
        return DONE  # a reader of the help that went away has seen enough
    if isinstance(cause, SystemExit):
        return (
            cause.code if isinstance(cause.code, int) else DONE if cause.code is None else UNUSABLE
        )
    if isinstance(cause, PiwoError):
        complain(str(cause))
    elif isinstance(cause, CycloptsError):
        complain(f"{str(cause).rstrip().rstrip('.')}; --help tells more")
    elif isinstance(cause, MemoryError):
        complain(
            "there is not enough memory for this; read fewer columns, or use fewer policies at once"
        )
    elif isinstance(cause, ValueError) and "null byte" in str(cause):
        complain("a path holds a NUL character, expected the name of a file; check the paths")
    elif isinstance(cause, OSError):
        place = "" if cause.filename is None else f": {cause.filename!r}"
        complain(f"{cause.strerror or cause}{place}; check the path")
    else:
        complain(
            f"unexpected {type(cause).__name__}: {cause}; this is a fault of piwo, --debug shows "
            "where"
        )
    return UNUSABLE
