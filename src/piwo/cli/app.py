"""Which commands there are."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from cyclopts import App, Parameter
from cyclopts.config import Env

from piwo import __version__
from piwo.cli.check import check
from piwo.cli.evaluate import evaluate
from piwo.cli.learn import learn
from piwo.cli.policy import act, show
from piwo.cli.report import report
from piwo.cli.settings import from_files

__all__ = ["make_app"]

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
    stories = (
        [import_module("piwo.cli.demo").demo] if find_spec("piwo.cli.demo") is not None else []
    )
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
