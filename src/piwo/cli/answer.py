"""The result of a command, and how it is printed: as text or as a JSON document."""

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

__all__ = ["Answer", "command_line", "document", "next_lines", "on_stdout", "standard_streams"]


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    text: str
    document: Mapping[str, Any] = field(default_factory=dict)
    """The result as plain data, for `--json`; it holds no NaN."""
    code: int = 0
    """The exit code. 0: done; 1: done, and the answer is no."""


def document(answer: Answer, warnings: Iterable[str]) -> str:
    """Return the JSON document of an answer. Its notes include the warnings, even with --quiet.

    >>> document(Answer("", {"rows": 2, "notes": ["a"]}), ["b"]).splitlines()[-1]
    '}'
    """
    notes = [*answer.document.get("notes", ()), *warnings]
    page = {"piwo": __version__, **answer.document, "notes": notes}
    text = json.dumps(page, indent=2, ensure_ascii=False, allow_nan=False)
    # json.dumps escapes line breaks inside names, but not all characters that control a terminal.
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return json.dumps(character)[1:-1]


def standard_streams() -> None:
    """Write UTF-8 to files and pipes in any locale; escape what a terminal cannot show.

    Output to a stream that was closed before the start (`2>&-`) is discarded.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Not closed again: the stream must last as long as the process.
            discarded = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
            setattr(sys, name, discarded)
    for stream in (sys.stdout, sys.stderr):
        # Tests and notebooks replace the streams by objects that cannot be reconfigured.
        if isinstance(stream, io.TextIOWrapper):
            if not stream.isatty():
                stream.reconfigure(encoding="utf-8")
            stream.reconfigure(errors="backslashreplace")


def on_stdout(text: str) -> None:
    """Print to standard output. A reader that has closed it (`| head`) is not an error.

    On a terminal, control characters in labels of the data are escaped; files and pipes get the
    labels as they are.
    """
    if sys.stdout.isatty():
        text = visible_lines(text.split("\n"))
    try:
        print(text, flush=True)
    except OSError as cause:
        # The interpreter flushes once more at exit, and would report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(cause, BrokenPipeError):
            raise


def command_line(words: Iterable[str]) -> str:
    """Return words as one line that a shell accepts, with control characters escaped.

    >>> command_line(["piwo", "check", "my log.csv"])
    "piwo check 'my log.csv'"
    """
    return visible(shlex.join(words))


def next_lines(words: Iterable[str], why: str = "") -> list[str]:
    """Return the last lines of an answer: a command that can be pasted, and a reason if any.

    The reason has a line of its own: not every shell takes what follows # for a comment.

    >>> next_lines(["piwo", "check", "log.csv"], "when there are more rows")
    ['next: piwo check log.csv', 'why:  when there are more rows']
    """
    lines = [f"next: {command_line(words)}"]
    if why:
        lines.append(f"why:  {visible(why)}")
    return lines
