"""The commands of `piwo`, and how the typed words become a call of one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import BoundArguments
from itertools import pairwise
from typing import Any

from cyclopts import App, Parameter
from cyclopts.argument import ArgumentCollection
from cyclopts.config import Env

from piwo import __version__
from piwo.cli.check import check
from piwo.cli.completion import add_completion
from piwo.cli.convert import convert
from piwo.cli.demo import demo
from piwo.cli.evaluate import evaluate
from piwo.cli.join import join
from piwo.cli.learn import learn
from piwo.cli.monitor import monitor
from piwo.cli.policy import act, show
from piwo.cli.report import report
from piwo.cli.serve import serve
from piwo.cli.settings import from_files
from piwo.cli.slates import slates

__all__ = ["HELP_ALL", "make_app", "parse", "with_option"]

HELP_ALL = "--help-all"
HELP = """Evaluate, learn and certify policies from logged decisions.

Exit codes: 0 done; 1 done, but the log is unfit, --gate refused a policy, or
monitor certifies none; 2 wrong usage, or
unusable data or files; 130 interrupted without an answer, 143 terminated.

Every option can also be set in piwo.toml, in [tool.piwo] of pyproject.toml, or by an environment
variable such as PIWO_REWARD.
"""


def make_app(all_options: bool = False) -> App:
    """Return the command line.

    Args:
        all_options: whether help lists every option, or only those declared with `show=True`.
    """

    def settings(command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
        from_files(app, command, names, arguments)

    app = App(
        name="piwo",
        help=HELP,
        version=__version__,
        help_format="plaintext",
        # Negative forms only for options that declare one, as --no-refit.
        default_parameter=Parameter(negative=(), env_var_split=_unsplit, show_env_var=False),
        # The first that gives an option its value counts: variables come before files.
        config=[Env("PIWO_", command=False), settings],
    )
    app.command(demo, sort_key=0)
    commands: tuple[Callable[..., Any], ...] = (
        check,
        evaluate,
        learn,
        monitor,
        report,
        convert,
        join,
        slates,
        serve,
    )
    for place, function in enumerate(commands, start=1):
        hint = None
        if not all_options:
            hint = f"More options: piwo {function.__name__} {HELP_ALL}"
        app.command(
            function,
            sort_key=place,
            default_parameter=Parameter(show=all_options),
            help_epilogue=hint,
        )
    policy = App(name="policy", help="Inspect a policy file, or act with it.", sort_key=10)
    policy.command(show)
    policy.command(act)
    app.command(policy)
    add_completion(app, lambda: make_app(all_options=True))
    return app


def parse(words: Sequence[str]) -> tuple[Callable[..., Any], BoundArguments]:
    """Return the function of the typed command, and its arguments.

    Raises:
        cyclopts.CycloptsError: for unknown commands or options, and values of the wrong type.
    """
    app = make_app(all_options=HELP_ALL in words)
    words = ["--help" if word == HELP_ALL else word for word in _gate_words(words)]
    # `main` prints errors, in one line.
    command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False, verbose=False)
    return command, bound


def with_option(option: str) -> list[str]:
    """Return the commands that have an option.

    >>> with_option("--unit-name"), with_option("--nothing")
    (['monitor', 'report'], [])
    """
    app = make_app()
    found = []
    for name in app:
        command = app[name]
        if name.startswith("-") or command.default_command is None:
            continue
        arguments = command.assemble_argument_collection()
        if any(option in one.names for one in arguments):
            found.append(name)
    return found


def _gate_words(words: Sequence[str]) -> list[str]:
    """Return words in which --gate P, where P is a policy that was named, is --gate-policy P.

    >>> _gate_words(["evaluate", "log", "--policy", "a.piwo", "--gate", "a.piwo"])[-3:]
    ['--gate', '--gate-policy', 'a.piwo']
    >>> _gate_words(["evaluate", "--policy", "uniform", "--gate", "log"])[-2:]
    ['--gate', 'log']
    """
    named = set()
    for option, value in pairwise(words):
        if option in ("--policy", "--policy-column"):
            named.add(value)
    for word in words:
        option, sign, value = word.partition("=")
        if sign and option in ("--policy", "--policy-column"):
            named.add(value)
    found: list[str] = []
    for place, word in enumerate(words):
        follows = place > 0 and words[place - 1] == "--gate" and word in named
        if follows and words[0] in ("evaluate", "slates"):
            found.append("--gate-policy")
        if word.startswith("--gate=") and word.partition("=")[2] in named:
            found += ["--gate", "--gate-policy", word.partition("=")[2]]
        else:
            found.append(word)
    return found


def _unsplit(_: Any, text: str, delimiter: str | None = None) -> list[str]:  # noqa: ARG001
    """Take a variable as one value, even of a repeatable option: queries and globs hold spaces."""
    return [text]
