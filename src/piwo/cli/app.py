"""The commands of `piwo`, and how words become a call of one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import BoundArguments
from typing import Any

from cyclopts import App, Parameter
from cyclopts.config import Env

from piwo import __version__
from piwo.cli.check import check
from piwo.cli.demo import demo
from piwo.cli.evaluate import evaluate
from piwo.cli.learn import learn
from piwo.cli.policy import act, show
from piwo.cli.report import report
from piwo.cli.settings import from_files

__all__ = ["HELP_ALL", "make_app", "parse"]

HELP_ALL = "--help-all"
HELP = """Evaluate, learn and certify policies from logged decisions.

Exit codes: 0 done; 1 it ran and the answer is no (an unfit log, or --gate without a certificate);
2 wrong usage, or data or files that cannot be used; 130 interrupted.

Every option can be set in piwo.toml, in [tool.piwo] of pyproject.toml, or by a variable such as
PIWO_REWARD.
"""


def make_app(all_options: bool = False) -> App:
    """Return the command line.

    Args:
        all_options: whether help lists every option, or only those declared with `show=True`.
    """
    app = App(
        name="piwo",
        help=HELP,
        version=__version__,
        help_format="plaintext",
        default_parameter=Parameter(negative=(), env_var_split=_one_word, show_env_var=False),
        config=[
            Env("PIWO_", command=False),
            lambda command, commands, arguments: from_files(app, command, commands, arguments),
        ],
    )
    app.command(demo, sort_key=0)
    commands: tuple[Callable[..., Any], ...] = (check, evaluate, learn, report)
    for place, function in enumerate(commands, start=1):
        more = f"More options: piwo {function.__name__} {HELP_ALL}"
        app.command(
            function,
            sort_key=place,
            default_parameter=Parameter(show=all_options),
            help_epilogue=None if all_options else more,
        )
    policy = App(name="policy", help="Inspect a policy file, or act with it.", sort_key=9)
    policy.command(show)
    policy.command(act)
    app.command(policy)
    return app


def parse(words: Sequence[str]) -> tuple[Callable[..., Any], BoundArguments]:
    """Return the function of the command that was typed, and its arguments.

    Raises:
        cyclopts.CycloptsError: for words that no command understands.
    """
    app = make_app(all_options=HELP_ALL in words)
    words = ["--help" if word == HELP_ALL else word for word in words]
    command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False, verbose=False)
    return command, bound


def _one_word(_: Any, text: str, delimiter: str | None = None) -> list[str]:  # noqa: ARG001
    """Take a variable as one word, even of a repeatable option: queries and globs hold spaces."""
    return [text]
