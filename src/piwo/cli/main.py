"""The `piwo` command: parse the words, run one command, print; exit codes and error lines."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import BoundArguments
from typing import Any

import piwo
from piwo.cli.answer import Answer, document, on_stdout, standard_streams
from piwo.cli.interrupts import ending_of, interruptible
from piwo.cli.notices import as_option, collected_warnings, error_line, on_stderr
from piwo.cli.output_path import check_outputs, outputs_and_inputs
from piwo.cli.progress import progress, spark_starts
from piwo.cli.shared_options import DEFAULT_OUTPUT, DEFAULT_RUN, OutputOptions, RunOptions
from piwo.errors import PiwoError
from piwo.messages import arguments_shown
from piwo.visible import visible_lines, without_secrets

__all__ = ["main"]

DONE, UNUSABLE = 0, 2
NARROWEST = 20
"""Fewest columns of a terminal on which help can be laid out; a smaller COLUMNS is ignored."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after `piwo`; None: those that were typed.

    Returns:
        The exit code.
    """
    standard_streams()
    _ignore_unusable_width()
    if argv is None:
        argv = sys.argv[1:]
    words = list(argv)
    # Words that cannot be parsed give no options, and errors of parsing have a traceback, too.
    debug = "--debug" in words
    with arguments_shown(as_option), interruptible() as signals:
        try:
            command, bound = _parsed(words)
            output = _output_of(bound)
            debug = debug or output.debug
            return _run(command, bound, output)
        except BaseException as cause:  # noqa: BLE001 (each becomes one line and a code)
            if debug:
                on_stderr(visible_lines(traceback.format_exc().rstrip().split("\n")))
            return _exit_code(cause, words, signals)


def _ignore_unusable_width() -> None:
    width = os.environ.get("COLUMNS", "")
    # int() refuses very long numbers; nine digits are enough for the comparison.
    if width and not (width.isdecimal() and int(width[:9]) >= NARROWEST):
        del os.environ["COLUMNS"]


def _parsed(words: list[str]) -> tuple[Callable[..., Any], BoundArguments]:
    # This import takes a while; here, Ctrl-C is handled already.
    from piwo.cli.app import parse

    return parse(words)


def _output_of(bound: BoundArguments) -> OutputOptions:
    for value in bound.arguments.values():
        if isinstance(value, OutputOptions):
            return value
    return DEFAULT_OUTPUT


def _checkpoint(bound: BoundArguments) -> AbstractContextManager[None]:
    """Return the context of --checkpoint; one that does nothing without the option."""
    run = DEFAULT_RUN
    for value in bound.arguments.values():
        if isinstance(value, RunOptions):
            run = value
    if run.checkpoint is None:
        return nullcontext()
    return piwo.engines.checkpointing(run.checkpoint)


def _run(command: Callable[..., Any], bound: BoundArguments, output: OutputOptions) -> int:
    """Run a command and print its answer; return the exit code."""
    if not output.quiet and spark_starts(bound.arguments.get("log", ())):
        # Spark prints nothing while it starts.
        on_stderr("piwo: starting Spark, which takes a while; each pass over the log is one job")
    check_outputs(*outputs_and_inputs(bound))
    quiet = output.quiet
    with collected_warnings(quiet) as warnings, progress(quiet), _checkpoint(bound):
        answer = command(*bound.args, **bound.kwargs)
    if not isinstance(answer, Answer):
        # Cyclopts has printed the help or the version.
        return int(answer or DONE)
    text = answer.text
    if output.json:
        text = document(answer, warnings)
    on_stdout(text)
    return answer.code


def _exit_code(cause: BaseException, words: Sequence[str], signals: Sequence[int]) -> int:
    """Return the exit code for an exception; explain an error in one line."""
    # After a signal, a library may have raised something else.
    if signals or isinstance(cause, KeyboardInterrupt):
        code, message = ending_of((*signals, signal.SIGINT)[0])
        on_stderr(message)
        return code
    causes = (cause, cause.__context__)
    if any(isinstance(one, BrokenPipeError) for one in causes):
        # The reader of the help has closed it, which is not an error.
        return DONE
    if isinstance(cause, SystemExit) and isinstance(cause.code, int | None):
        return cause.code or DONE
    if not isinstance(cause, SystemExit):
        error_line(_explained(cause, words))
    return UNUSABLE


def _explained(cause: BaseException, words: Sequence[str]) -> str:
    """Return what went wrong, in one line and without passwords of addresses.

    Args:
        cause: the exception.
        words: the words after `piwo`, which messages of cyclopts quote.
    """
    # Not at the top, as the start of the command does without it: see `_parsed`.
    from cyclopts import CycloptsError

    if isinstance(cause, PiwoError):
        return str(cause)
    if isinstance(cause, CycloptsError):
        text = _of_usage(cause)
        for word in words:
            text = text.replace(word, without_secrets(word))
        return f"{without_secrets(text).rstrip().rstrip('.')}; see --help"
    if isinstance(cause, MemoryError):
        return "not enough memory; read fewer columns, or use fewer policies at once"
    if isinstance(cause, RecursionError):
        return "the input is nested too deeply; flatten the file, the query or the condition"
    if isinstance(cause, ValueError) and "null byte" in str(cause):
        return "a path holds a NUL character, expected the name of a file; check the paths"
    if isinstance(cause, OSError):
        place = ""
        if cause.filename is not None:
            place = f": {without_secrets(cause.filename)!r}"
        return f"{cause.strerror or cause}{place}; check the path"
    fault = f"{type(cause).__name__}: {without_secrets(cause)}"
    return f"unexpected {fault}; this is a bug in piwo, --debug shows where"


def _of_usage(cause: Exception) -> str:
    """Return what cyclopts says of the words, in piwo's words where they are clearer."""
    from cyclopts import MissingArgumentError, UnknownOptionError

    found = None
    if isinstance(cause, UnknownOptionError):
        found = _unknown_option(cause)
    if isinstance(cause, MissingArgumentError):
        found = _missing(cause)
    return found or str(cause)


def _missing(cause: Any) -> str | None:
    """Return what a command lacks, by the name that its help has, and what it is.

    Args:
        cause: a `MissingArgumentError` of cyclopts.
    """
    one = cause.argument
    if one is None:
        return None
    typed = " ".join(("piwo", *(cause.command_chain or ())))
    if cause.keyword is not None:
        return f"{typed}: there is no value after {cause.keyword}"
    name = one.name
    if one.index is not None:
        # It is typed without its name.
        name = name.lstrip("-").upper()
    about = one.parameter.help or ""
    return f"{typed} needs {name}: {about[:1].lower()}{about[1:]}"


def _unknown_option(cause: Exception) -> str | None:
    """Return that other commands have an option; None if none has it."""
    from piwo.cli.app import with_option

    token = getattr(cause, "token", None)
    option = str(getattr(token, "value", "")).partition("=")[0]
    others = ", ".join(f"piwo {name}" for name in with_option(option))
    if not others:
        return None
    typed = " ".join(("piwo", *(getattr(cause, "command_chain", None) or ())))
    return f"{typed} has no option {option}; it is one of {others}"
