"""The answer of a command: text, JSON document and exit code; and how these are printed."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from piwo import __version__
from piwo.visible import visible, visible_lines

__all__ = ["Answer", "document", "say", "standard_streams", "typed"]


@dataclass(frozen=True)
class Answer:
    """What a command found."""

    text: str
    document: Mapping[str, Any] = field(default_factory=dict)
    """The same for `--json`: plain data, no NaN."""
    code: int = 0
    """0: done; 1: done, and the answer is no."""


def document(answer: Answer, heard: Iterable[str]) -> str:
    """Return the JSON document of an answer. Warnings are added to its notes, even with --quiet.

    >>> document(Answer("", {"rows": 2, "notes": ["a"]}), ["b"]).splitlines()[-1]
    '}'
    """
    notes = [*answer.document.get("notes", ()), *heard]
    page = {"piwo": __version__, **answer.document, "notes": notes}
    text = json.dumps(page, indent=2, ensure_ascii=False, allow_nan=False)
    # JSON escapes line breaks inside names, but not all characters that control a terminal
    return "".join(x if x.isprintable() or x == "\n" else json.dumps(x)[1:-1] for x in text)


def standard_streams() -> None:
    """Write UTF-8 to files and pipes in any locale; a terminal gets escapes for what it lacks.

    A stream that was closed before the start (`2>&-`) discards what is printed.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 (as long as we run)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if not stream.isatty():
                stream.reconfigure(encoding="utf-8")
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print to standard output. A reader that has closed it (`| head`) is not an error.

    On a terminal, labels from the data are printed without power over it; files and pipes get them
    exactly.
    """
    if sys.stdout.isatty():
        text = visible_lines(text.split("\n"))
    try:
        print(text, flush=True)
    except OSError as cause:
        # the interpreter flushes once more at its end, and would complain then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(cause, BrokenPipeError):
            raise


def typed(words: Iterable[str]) -> str:
    """Return a command as typed, on one line, whatever characters names hold.

    >>> typed(["piwo", "check", "my log.csv"])
    "piwo check 'my log.csv'"
    """
    return visible(shlex.join(words))
