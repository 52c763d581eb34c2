"""The `piwo` command: parse, run, print; exit codes and error lines."""

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
from piwo.cli.output_path import check_outputs, outputs_and_inputs
from piwo.cli.progress import progress, spark_starts
from piwo.cli.shared_options import DEFAULT_OUTPUT, DEFAULT_RUN, OutputOptions, RunOptions
from piwo.errors import PiwoError
from piwo.messages import arguments_shown
from piwo.visible import visible_lines, without_secrets

__all__ = ["main"]

DONE, UNUSABLE = 0, 2
NARROWEST = 20
"""Columns of a terminal. Help cannot be laid out on fewer, so that COLUMNS is then ignored."""


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
        except BaseException as cause:  # noqa: BLE001 (any exception becomes one line and a code)
            if debug:
                on_stderr(visible_lines(traceback.format_exc().rstrip().split("\n")))
            return _exit_code(cause, words, interrupted.is_set())


def _sensible_width() -> None:
    width = os.environ.get("COLUMNS", "")
    if width and not (width.isdecimal() and int(width[:9]) >= NARROWEST):
        del os.environ["COLUMNS"]


def _parsed(words: list[str]) -> tuple[Callable[..., Any], BoundArguments]:
    # imported here, as that takes a while and Ctrl-C is handled by now
    from piwo.cli.app import parse

    return parse(words)


def _output_of(bound: BoundArguments) -> OutputOptions:
    return next(
        (x for x in bound.arguments.values() if isinstance(x, OutputOptions)), DEFAULT_OUTPUT
    )


def _checkpoint(bound: BoundArguments) -> AbstractContextManager[None]:
    """Return the context of the checkpoint that was asked for, if any."""
    run = next((x for x in bound.arguments.values() if isinstance(x, RunOptions)), DEFAULT_RUN)
    if run.checkpoint is None:
        return nullcontext()
    return piwo.engines.checkpointing(run.checkpoint)


def _ran(command: Callable[..., Any], bound: BoundArguments, output: OutputOptions) -> int:
    if not output.quiet and spark_starts(bound.arguments.get("log", ())):
        on_stderr(
            "piwo: starting Spark, which takes a while; every pass over the log is a job of its own"
        )
    check_outputs(*outputs_and_inputs(bound))
    with heard_warnings(output.quiet) as heard, progress(output.quiet), _checkpoint(bound):
        answer = command(*bound.args, **bound.kwargs)
    if not isinstance(answer, Answer):
        # help and version print by themselves
        return int(answer or DONE)
    say(document(answer, heard) if output.json else answer.text)
    return answer.code


def _exit_code(cause: BaseException, words: Sequence[str], interrupted: bool) -> int:
    """Return the exit code for an exception; an error is explained in one line."""
    if interrupted or isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(cause, BrokenPipeError) or isinstance(cause.__context__, BrokenPipeError):
        # the reader of the help has closed it, which is not an error
        return DONE
    if isinstance(cause, SystemExit) and isinstance(cause.code, int | None):
        return cause.code or DONE
    if not isinstance(cause, SystemExit):
        complain(_explained(cause, words))
    return UNUSABLE


def _explained(cause: BaseException, words: Sequence[str]) -> str:
    """Return what went wrong with the words that were typed."""
    from cyclopts import CycloptsError

    if isinstance(cause, PiwoError):
        return str(cause)
    if isinstance(cause, CycloptsError):
        text = str(cause)
        for word in words:
            text = text.replace(word, without_secrets(word))
        return f"{without_secrets(text).rstrip().rstrip('.')}; see --help"
    if isinstance(cause, MemoryError):
        return "not enough memory; read fewer columns, or use fewer policies at once"
    if isinstance(cause, RecursionError):
        return "what was read is nested too deeply; flatten the file, the query or the condition"
    if isinstance(cause, ValueError) and "null byte" in str(cause):
        return "a path holds a NUL character, expected the name of a file; check the paths"
    if isinstance(cause, OSError):
        place = ""
        if cause.filename is not None:
            place = f": {without_secrets(cause.filename)!r}"
        return f"{cause.strerror or cause}{place}; check the path"
    fault = f"{type(cause).__name__}: {without_secrets(cause)}"
    return f"unexpected {fault}; this is a bug in piwo, --debug shows where"
