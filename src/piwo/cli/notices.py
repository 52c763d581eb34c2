"""What goes to standard error: warnings, one line each, and errors, one line in all."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from piwo.errors import PiwoWarning
from piwo.report.visible import visible

__all__ = ["complain", "heard_warnings", "warn_line"]


def warn_line(text: str) -> None:
    """Print one warning."""
    print(f"piwo: warning: {visible(_one_line(text))}", file=sys.stderr)


def complain(text: str) -> None:
    """Print why the command could not do its work."""
    print(f"piwo: error: {visible(_one_line(text))}", file=sys.stderr)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def heard_warnings(quiet: bool = False) -> Iterator[list[str]]:
    """Print each warning of piwo as one line, once, and collect them; those of libraries are left out.

    Args:
        quiet: collect only.
    """
    heard: list[str] = []

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text = _one_line(str(message))
        if issubclass(category, PiwoWarning) and text not in heard:
            heard.append(text)
            if not quiet:
                warn_line(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PiwoWarning)
        warnings.showwarning = show
        yield heard
