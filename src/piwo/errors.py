"""Errors and warnings. A message is one line: what was received, what was expected, what to do.

A message may hold references to arguments (`piwo.messages.argument`), which `str` renders.
"""

import inspect
import warnings

from piwo.messages import rendered
from piwo.visible import visible

__all__ = [
    "DataError",
    "FileError",
    "NothingToLearnError",
    "PiwoError",
    "PiwoWarning",
    "UsageError",
    "warn",
]


class PiwoError(Exception):
    """Base of all errors that piwo raises on purpose."""

    def __str__(self) -> str:
        return visible(rendered(super().__str__()))


class DataError(PiwoError):
    """The data of a log cannot be used as it is."""

    policy: object = None
    """The policy of a user whose output cannot be used, if that is the reason."""
    kinds: tuple[str, ...] = ()
    """The kinds of the broken rules, if these are the reason: "range", or "" for others."""


class NothingToLearnError(DataError):
    """No row has a reward above the lowest, so an oracle has nothing to learn from."""


class UsageError(PiwoError, ValueError):
    """An argument is out of its range, or arguments do not fit together."""


class FileError(PiwoError):
    """A file is missing, damaged, from a newer version, or of another kind than expected."""


class PiwoWarning(UserWarning):
    """The result is usable but carries a caveat.

    Args:
        text: the caveat, one line.
        kind: the command shows one warning of a kind; None: the text is its own kind.
    """

    def __init__(self, text: str, kind: str | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        if kind is None:
            self.kind = text

    def __str__(self) -> str:
        return visible(rendered(super().__str__()))


def warn(text: str, kind: str | None = None) -> None:
    """Issue a `PiwoWarning` that points to the caller's line, the first one outside of piwo.

    Python 3.12 has `skip_file_prefixes` for that.

    Args:
        text: what the caller needs to know.
        kind: see `PiwoWarning`.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("half of the rows are gone")
    >>> str(caught[0].message)
    'half of the rows are gone'
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_internal(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(PiwoWarning(text, kind), stacklevel=level)


def _is_internal(module: str) -> bool:
    """Whether a module is piwo's, or one that stands between piwo and its caller."""
    # cached properties and context managers put a frame of the standard library in between
    return module.partition(".")[0] in {"piwo", "functools", "contextlib"}
