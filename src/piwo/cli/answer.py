"""What a command has to say, before anything is printed: as text, as a JSON document, as an exit code."""

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
from piwo.visible import visible

__all__ = ["Answer", "document", "say", "standard_streams", "table", "typed"]


@dataclass(frozen=True)
class Answer:
    """What a command found."""

    text: str
    document: Mapping[str, Any] = field(default_factory=dict)
    """The same for `--json`: plain data, no NaN."""
    code: int = 0
    """0: done; 1: it ran, and the answer is no."""


def document(answer: Answer, heard: Iterable[str]) -> str:
    """Return the JSON document of an answer; warnings stand among its notes, so that `--quiet` hides none.

    >>> document(Answer("", {"rows": 2, "notes": ["a"]}), ["b"]).splitlines()[-1]
    '}'
    """
    notes = [*answer.document.get("notes", ()), *heard]
    page = {"piwo": __version__, **answer.document, "notes": notes}
    text = json.dumps(page, indent=2, ensure_ascii=False, allow_nan=False)
    # line breaks inside names are escapes by now; JSON escapes no other character that a terminal
    # obeys
    return "".join(x if x.isprintable() or x == "\n" else json.dumps(x)[1:-1] for x in text)


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a table: first column to the left, the others to the right; no text is markup.

    >>> table(["name", "value"], [["a", "0.25"], ["long name", "1"]])
    ['name       value', 'a           0.25', 'long name      1']
    """
    cells = [[visible(cell) for cell in row] for row in [list(header), *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            x.rjust(w) if i else x.ljust(w)
            for i, (x, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def standard_streams() -> None:
    """Write UTF-8 to files and pipes whatever the locale is; a terminal gets escapes for what it lacks.

    A stream that was closed before we began (`2>&-`) swallows what is said.
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
    """Print to standard output. A reader that went away (`| head`) has seen enough: nothing is said then."""
    try:
        print(text, flush=True)
    except OSError as cause:
        # the interpreter flushes once more at its end, and would complain then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(cause, BrokenPipeError):
            raise


def typed(words: Iterable[str]) -> str:
    """Return a command as it would be typed, on one line whatever the names hold.

    >>> typed(["piwo", "check", "my log.csv"])
    "piwo check 'my log.csv'"
    """
    return visible(shlex.join(words))
