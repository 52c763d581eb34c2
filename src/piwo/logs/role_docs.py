"""The roles of columns in docstrings: written once, in the table of roles."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from piwo.logs.columns import Role

__all__ = ["documents_roles"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def documents_roles(
    texts: Mapping[str, Role | str],
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that lists roles in a docstring, after its `**` argument.

    Args:
        texts: role -> what it means.
    """

    def documented(function: FunctionT) -> FunctionT:
        if function.__doc__ is None:
            # Python runs with -OO.
            return function
        head, entry, rest = inspect.cleandoc(function.__doc__).partition("    **")
        first, _, after = rest.partition("\n")
        lines = [f"{head}{entry}{first}"]
        for name, text in texts.items():
            meaning = text
            if isinstance(text, Role):
                meaning = text.text
            lines += textwrap.wrap(
                f"{name}: {meaning}.",
                width=96,
                initial_indent=" " * 8,
                subsequent_indent=" " * 12,
            )
        function.__doc__ = "\n".join([*lines, after])
        return function

    return documented
