"""Arguments that messages name: Python shows `actions=[...]`, the command shows `--actions`.

A message that names an argument holds a reference to it. The reference becomes text when the
message is shown. So the library never names an option, and the command never parses English.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeAlias

__all__ = ["Note", "Style", "argument", "arguments_shown", "rendered"]

# Control characters: `piwo.visible` escapes them in everything that piwo prints.
_START, _VALUE, _END = "\x02", "\x1f", "\x03"
_REFERENCE = re.compile(f"{_START}([^{_VALUE}{_END}]*)(?:{_VALUE}([^{_END}]*))?{_END}")

Style: TypeAlias = Callable[[str, str | None], str]
"""Returns an argument as text, from its name and, if there is one, its value."""


def argument(name: str, value: object = None) -> str:
    """Return a reference to an argument, for the text of an error, a warning or a note.

    Args:
        name: the argument's name in Python.
        value: what it is or should be; None: the name alone. Text is shown in quotes, unless it is
            a placeholder such as "[...]" or "(lo, hi)".

    >>> rendered(f"pass {argument('actions', '[...]')}, or leave {argument('normalize')} out")
    'pass actions=[...], or leave normalize out'
    >>> rendered(f"use {argument('interval', 'mixture')}, and {argument('refit', False)}")
    "use interval='mixture', and refit=False"
    """
    if value is None:
        return f"{_START}{name}{_END}"
    is_text = isinstance(value, str) and not value.startswith(("[", "(", "."))
    if is_text:
        return f"{_START}{name}{_VALUE}{value!r}{_END}"
    return f"{_START}{name}{_VALUE}{value}{_END}"


def in_python(name: str, value: str | None) -> str:
    """Return an argument as Python writes it.

    >>> in_python("delta", None), in_python("delta", "0.1")
    ('delta', 'delta=0.1')
    """
    if value is None:
        return name
    return f"{name}={value}"


# One for the whole process: an engine's threads may put errors into words, too.
_style: list[Style] = [in_python]


@contextmanager
def arguments_shown(style: Style) -> Iterator[None]:
    """Return a block inside which arguments are shown in another style; the command runs in one.

    >>> with arguments_shown(lambda name, value: f"--{name}"):
    ...     rendered(f"{argument('delta')} is 2")
    '--delta is 2'
    """
    _style.append(style)
    try:
        yield
    finally:
        _style.pop()


def rendered(text: str) -> str:
    """Return a message with its references as text.

    >>> rendered(f"{argument('delta')} is 2")
    'delta is 2'
    """
    style = _style[-1]
    return _REFERENCE.sub(lambda found: style(found[1], found[2]), text)


class Note(str):
    """One caveat of a result: its text, and the kind of caveat that it is.

    Code asks for the kind and never looks into the text.

    >>> note = Note(f"pass {argument('actions', '[...]')}", kind="inferred-actions")
    >>> note, note.kind
    ('pass actions=[...]', 'inferred-actions')
    """

    kind: str
    template: str
    """The text with its references: what is rendered again in another process."""

    def __new__(cls, text: str, kind: str = "note") -> Self:
        """Return a note of some kind."""
        made = super().__new__(cls, rendered(text))
        made.kind, made.template = kind, text
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Keep the kind and the references when pickled."""
        return type(self), (self.template, self.kind)
