"""What the commands of this folder share: words in, exit codes out, one line for what is wrong.

The command `piwo` has more of this for itself; it is not among the public names, and nothing here
reaches for it.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, TextIO

from cyclopts import App, CycloptsError, Parameter

from experiments.files import visible
from piwo.errors import PiwoError

__all__ = ["DONE", "INTERRUPTED", "UNUSABLE", "Command", "say"]

DONE, UNUSABLE, INTERRUPTED = 0, 2, 130
"""Exit codes."""


@dataclass(frozen=True)
class Command:
    """A function that is run with words from the command line."""

    name: str
    """As it is typed."""
    help: str
    function: Callable[..., int]
    """Prints what it found, and returns the exit code."""
    resumes: bool = False
    """Whether the same words go on where an earlier run stopped."""

    def run(self, argv: Sequence[str] | None) -> int:
        """Run the function, tell in one line what is wrong, and return the exit code.

        Args:
            argv: the words after the name; None: those that were typed.
        """
        _standard_streams()
        words = list(sys.argv[1:] if argv is None else argv)
        pressed = False

        def stop(number: int, frame: FrameType | None) -> None:
            nonlocal pressed
            pressed = True
            signal.signal(
                signal.SIGINT, signal.SIG_DFL
            )  # pressed again, it ends at once; nothing is lost
            signal.default_int_handler(number, frame)

        before = signal.signal(signal.SIGINT, stop)
        try:
            return self._ran(words)
        except BaseException as cause:  # noqa: BLE001 (the last line of defence: every exception is told in one line)
            if "--debug" in words:
                traceback.print_exc()
            if pressed or isinstance(
                cause, KeyboardInterrupt
            ):  # a library may have made another exception of it
                _complain(
                    f"interrupted{'; the same command goes on from here' if self.resumes else ''}"
                )
                return INTERRUPTED
            return self._told(cause)
        finally:
            signal.signal(signal.SIGINT, before)

    def _ran(self, words: list[str]) -> int:
        app = App(
            name=f"python -m {self.name}",
            help=self.help,
            help_format="plaintext",
            default_parameter=Parameter(negative=()),
            version_flags=(),
        )
        app.default(self.function)
        command, bound, _ = app.parse_args(
            words, print_error=False, exit_on_error=False, verbose=False
        )
        answer: Any = command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
        return int(answer or DONE)

    def _told(self, cause: BaseException) -> int:
        """Say in one line what went wrong, and return the exit code."""
        if isinstance(cause, BrokenPipeError):  # whoever read the help has seen enough
            _swallow(sys.stdout)
            return DONE
        if isinstance(cause, SystemExit):
            if cause.code is None:
                return DONE
            return cause.code if isinstance(cause.code, int) else UNUSABLE
        if isinstance(cause, PiwoError):
            _complain(f"error: {cause}")
        elif isinstance(cause, CycloptsError):
            _complain(f"error: {str(cause).rstrip().rstrip('.')}; --help tells more")
        elif isinstance(cause, MemoryError):
            _complain("error: there is not enough memory for this; try --quick")
        elif isinstance(cause, ValueError) and "null byte" in str(cause):
            _complain(
                "error: a path holds a NUL character, expected the name of a file; check the paths"
            )
        elif isinstance(cause, OSError):
            place = "" if cause.filename is None else f": {str(cause.filename)!r}"
            next_step = "when that is mended, the same command goes on from what was finished"
            _complain(
                f"error: {cause.strerror or cause}{place}; "
                f"{next_step if self.resumes else 'check the path'}"
            )
        else:
            fault = "this is a fault of the program, --debug shows where"
            _complain(f"error: unexpected {type(cause).__name__}: {cause}; {fault}")
        return UNUSABLE


def say(lines: Sequence[str]) -> None:
    """Print to standard output; a reader that went away (`| head`) is not an error."""
    try:
        print("\n".join(visible(line) for line in lines), flush=True)
    except BrokenPipeError:
        _swallow(sys.stdout)


def _complain(text: str) -> None:
    """Print to standard error if that can be written to; the exit code carries the result."""
    try:
        print(visible(" ".join(text.split())), file=sys.stderr, flush=True)
    except OSError:
        _swallow(sys.stderr)


def _swallow(stream: TextIO) -> None:
    """Discard what is left; otherwise the interpreter's last flush would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _standard_streams() -> None:
    """Write UTF-8 to files and pipes in any locale; a terminal gets escapes for what it lacks.

    A stream that was closed before we began (`2>&-`) swallows what is said.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 (as long as we run)
        elif isinstance(stream, io.TextIOWrapper):
            if not stream.isatty():
                stream.reconfigure(encoding="utf-8")
            stream.reconfigure(errors="backslashreplace")
