"""References to arguments inside messages: Python callers read names, users of the command read options.

A message that names an argument holds a reference to it, not its name. Python renders the
reference as `name` or `name=value`, the command as the option of the same meaning. So the library
never mentions an option, and the command never parses the library's English.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Self

__all__ = ["Note", "argument", "as_options", "as_python"]

# Control characters: nothing that piwo prints holds one, as `piwo.visible` escapes those in data.
_START, _VALUE, _END = "\x02", "\x1f", "\x03"
_REFERENCE = re.compile(f"{_START}([^{_VALUE}{_END}]*)(?:{_VALUE}([^{_END}]*))?{_END}")


def argument(name: str, value: object = None) -> str:
    """Return a reference to an argument, to be put into the text of an error, a warning or a note.

    Args:
        name: the argument's name in Python.
        value: what it is or should be, as Python writes it; None: the name alone.

    >>> as_python(f"pass {argument('actions', '[...]')}, or leave {argument('normalize')} out")
    'pass actions=[...], or leave normalize out'
    """
    end = "" if value is None else f"{_VALUE}{value}"
    return f"{_START}{name}{end}{_END}"


def as_python(text: str) -> str:
    """Return a message for a caller from Python.

    >>> as_python(f"{argument('delta')} is 2")
    'delta is 2'
    """
    return _rendered(text, lambda name, value: name if value is None else f"{name}={value}")


def as_options(text: str, options: Mapping[str, str]) -> str:
    """Return a message for a user of the command.

    Args:
        text: with references.
        options: name of the argument -> option, such as "--delta"; an option that ends in "=" is
            followed by the value, a name that is not listed is shown as Python's.

    >>> as_options(f"declare {argument('reward_range', '(lo, hi)')}", {"reward_range": "--range"})
    'declare --range'
    >>> as_options(f"use {argument('interval', 'mixture')}", {"interval": "--interval="})
    'use --interval=mixture'
    """

    def option(name: str, value: str | None) -> str:
        if name not in options:
            return name if value is None else f"{name}={value}"
        if not options[name].endswith("="):
            return options[name]
        return options[name][:-1] if value is None else options[name] + value

    return _rendered(text, option)


def _rendered(text: str, shown: Callable[[str, str | None], str]) -> str:
    return _REFERENCE.sub(lambda found: shown(found[1], found[2]), text)


class Note(str):
    """One caveat of a result: its text, as Python renders it, and what kind of caveat it is.

    Code asks for the kind and never looks into the text.

    >>> note = Note(f"pass {argument('actions', '[...]')}", kind="inferred-actions")
    >>> note, note.kind, note.template == note
    ('pass actions=[...]', 'inferred-actions', False)
    """

    kind: str
    template: str
    """The text with its references, for the command."""

    def __new__(cls, text: str, kind: str = "note") -> Self:
        """Return a note of some kind."""
        made = super().__new__(cls, as_python(text))
        made.kind, made.template = kind, text
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Keep the kind and the references when pickled."""
        return type(self), (self.template, self.kind)
