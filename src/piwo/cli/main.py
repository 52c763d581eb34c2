"""The `piwo` command: which commands there are, what their exit codes are, and how errors are told."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from inspect import BoundArguments
from typing import Any

from cyclopts import App, CycloptsError, Parameter
from cyclopts.config import Env

from piwo import __version__
from piwo.cli.answer import Answer, document, say, utf8_streams
from piwo.cli.check import check
from piwo.cli.evaluate import evaluate
from piwo.cli.interrupts import INTERRUPTED, interruptible
from piwo.cli.learn import learn
from piwo.cli.notices import complain, heard_warnings
from piwo.cli.policy import act, show
from piwo.cli.progress import progress
from piwo.cli.report import report
from piwo.cli.settings import from_files
from piwo.cli.shared_options import OutputOptions
from piwo.errors import PiwoError

__all__ = ["main", "make_app"]

DONE, UNUSABLE = 0, 2
HELP = """Evaluate, learn and certify policies from logged decisions.

Exit codes: 0 done; 1 it ran and the answer is no (an unfit log, or --gate without a certificate);
2 wrong usage, or data or files that cannot be used; 130 interrupted.

Every option can be set in piwo.toml, in [tool.piwo] of pyproject.toml, or by a variable: PIWO_REWARD.
"""


def make_app() -> App:
    """Return the command line."""
    app = App(
        name="piwo",
        help=HELP,
        version=__version__,
        help_format="plaintext",
        default_parameter=Parameter(negative=(), env_var_split=_one_word, show_env_var=False),
        config=[
            Env("PIWO_", command=False),
            lambda _, commands, arguments: from_files(app, commands, arguments),
        ],
    )
    stories = [import_module("piwo.cli.demo").demo] if find_spec("piwo.cli.demo") is not None else []
    for place, command in enumerate((*stories, check, evaluate, learn, report)):
        app.command(command, sort_key=place)
    policy = App(name="policy", help="Look into a policy file, or act with it.", sort_key=9)
    policy.command(show)
    policy.command(act)
    app.command(policy)
    return app


def _one_word(_: Any, text: str, delimiter: str | None = None) -> list[str]:  # noqa: ARG001 (cyclopts names it)
    """Take a variable as one word, also where an option can be repeated: queries and globs hold spaces."""
    return [text]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after `piwo`; None: those that were typed.

    Returns:
        The exit code.
    """
    utf8_streams()
    output = OutputOptions(debug="--debug" in (sys.argv if argv is None else argv))
    with interruptible() as interrupted:
        try:
            command, bound = _parsed(argv)
            output = _output_of(bound) or output
            return _ran(command, bound, output)
        except BaseException as cause:  # noqa: BLE001 (the last line of defence: every exception is told in one line)
            if output.debug:
                traceback.print_exc()
            return _told(cause, interrupted.is_set())


def _parsed(argv: Sequence[str] | None) -> tuple[Callable[..., Any], BoundArguments]:
    words = list(sys.argv[1:] if argv is None else argv)
    command, bound, _ = make_app().parse_args(words, print_error=False, exit_on_error=False, verbose=False)
    return command, bound


def _output_of(bound: BoundArguments) -> OutputOptions | None:
    return next((x for x in bound.arguments.values() if isinstance(x, OutputOptions)), None)


def _ran(command: Callable[..., Any], bound: BoundArguments, output: OutputOptions) -> int:
    with heard_warnings(output.quiet) as heard, progress(output.quiet):
        answer = command(*bound.args, **bound.kwargs)
    if not isinstance(answer, Answer):  # help, version, demo: they print for themselves
        return int(answer or DONE)
    say(document(answer, heard) if output.json else answer.text)
    return answer.code


def _told(cause: BaseException, interrupted: bool) -> int:
    """Say in one line what went wrong, and return the exit code."""
    if interrupted or isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(cause, BrokenPipeError):
        return DONE
    if isinstance(cause, SystemExit):
        return cause.code if isinstance(cause.code, int) else DONE if cause.code is None else UNUSABLE
    if isinstance(cause, PiwoError):
        complain(str(cause))
    elif isinstance(cause, CycloptsError):
        complain(f"{str(cause).rstrip().rstrip('.')}; --help tells more")
    elif isinstance(cause, MemoryError):
        complain("there is not enough memory for this; read fewer columns, or use fewer policies at once")
    elif isinstance(cause, OSError):
        place = "" if cause.filename is None else f": {cause.filename!r}"
        complain(f"{cause.strerror or cause}{place}; check the path")
    else:
        complain(f"unexpected {type(cause).__name__}: {cause}; this is a fault of piwo, --debug shows where")
    return UNUSABLE
