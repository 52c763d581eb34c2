"""What can go wrong, in three kinds. A message says what was received, what was expected and what to do next."""

import inspect
import warnings

from piwo.messages import as_python
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
    """Root of every error that piwo raises on purpose.

    Its first argument is the message as a template: arguments that it names are references
    (`piwo.messages.argument`), which `str` renders for callers from Python.
    """

    def __str__(self) -> str:
        return visible(as_python(self.template))

    @property
    def template(self) -> str:
        """The message with its references to arguments."""
        return super().__str__()


class DataError(PiwoError):
    """The data of a log cannot be used as it stands."""


class NothingToLearnError(DataError):
    """No row has a reward above the lowest, so that an oracle has nothing to learn from."""


class UsageError(PiwoError, ValueError):
    """The arguments do not go together, or one of them is out of its range."""


class FileError(PiwoError):
    """A file is missing, damaged, from a newer version, or made for something else."""


class PiwoWarning(UserWarning):
    """The result is usable but carries a caveat. The message is a template, as in `PiwoError`."""

    def __str__(self) -> str:
        return visible(as_python(self.template))

    @property
    def template(self) -> str:
        """The message with its references to arguments."""
        return super().__str__()


def warn(text: str) -> None:
    """Issue a `PiwoWarning` that points to the line outside of piwo from which it was called.

    Python 3.12 has `skip_file_prefixes` for that.

    Args:
        text: what the reader must know.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("half of the rows are gone")
    >>> str(caught[0].message)
    'half of the rows are gone'
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, PiwoWarning, stacklevel=level)


def _inside(module: str) -> bool:
    """Whether a module is ours, or stands between ours and a caller: cached properties, context managers."""
    return module.partition(".")[0] in {"piwo", "functools", "contextlib"}
