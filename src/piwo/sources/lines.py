"""Text files in pieces of whole lines, and the lines of them that break a rule."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from piwo.errors import DataError, FileError
from piwo.sources.gzip_files import opened
from piwo.sources.paths import states_of_files

__all__ = ["BrokenLineError", "Faults", "RowLines", "lines_of", "number_of"]

_CHUNK = 1 << 24
"""Bytes of a file that are read at once."""
_SHOWN = 5
"""Lines that an error names for each broken rule."""


class BrokenLineError(Exception):
    """A line breaks a rule, which is the argument; a reader counts it in its `Faults`."""


def lines_of(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield pieces of a text file: the number of the first line, from 1, and the lines.

    Args:
        path: of the file; one that ends in .gz is unpacked.

    Raises:
        FileError: if it cannot be read.
        DataError: for text that is not UTF-8, with the number of the line.
    """
    number, rest = 1, b""
    try:
        with opened(path) as file:
            while block := file.read(_CHUNK):
                head, newline, rest_of_block = block.rpartition(b"\n")
                if not newline:
                    rest += block
                    continue
                lines = _text(rest + head, path, number).split("\n")
                yield number, lines
                number, rest = number + len(lines), rest_of_block
    except (OSError, EOFError, zlib.error) as cause:
        raise FileError(f"{path!r} cannot be read ({cause}); write or copy it again") from None
    if rest:
        yield number, [_text(rest, path, number)]


def number_of(text: str) -> float:
    """Return the number that a text is.

    >>> number_of("1e-3")
    0.001

    Raises:
        ValueError: for other texts, and for what only Python takes for a number: `1_0`, or digits
            of other scripts.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _text(data: bytes, path: str, number: int) -> str:
    try:
        # Only the start of a file may have a byte order mark.
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as cause:
        line = number + data.count(b"\n", 0, cause.start)
        raise DataError(
            f"{path!r}, line {line}: not UTF-8 ({cause.reason}); convert the file to UTF-8"
        ) from None


@dataclass(frozen=True)
class RowLines:
    """The lines that rows were read from, found by reading the files once more.

    Args:
        files: their paths.
        numbered: yields the file and the line of each row, in order, from these paths.

    >>> with open("one.vw", "w") as file:
    ...     print("1:0:0.5 | a", file=file)
    >>> RowLines(("one.vw",), lambda files: ((file, 1) for file in files)).of([0])
    {0: 'one.vw, line 1'}
    """

    files: tuple[str, ...]
    numbered: Callable[[tuple[str, ...]], Iterator[tuple[str, int]]]
    _states: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_states", self._now())

    def of(self, rows: Collection[int]) -> dict[int, str]:
        """Return the file and line of some rows; nothing if the files have changed since.

        Args:
            rows: their numbers, from 0.
        """
        found: dict[int, str] = {}
        if self._states is None or self._now() != self._states:
            return found
        last = max(rows, default=-1)
        for row, (file, number) in enumerate(self.numbered(self.files)):
            if row in rows:
                found[row] = f"{file}, line {number}"
            if row >= last:
                break
        return found

    def _now(self) -> Any:
        try:
            return states_of_files(self.files)
        except OSError:
            return None


class Faults:
    """The broken rules of text files: how many lines break each, and the first of them.

    >>> faults = Faults("vw: an event")
    >>> faults.add("has no cost", "log.vw", [3])
    >>> faults.refuse()
    Traceback (most recent call last):
    piwo.errors.DataError: vw: an event has no cost in 1 line (log.vw, line 3)
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.counts: Counter[str] = Counter()
        self._lines: dict[str, list[str]] = defaultdict(list)

    def add(self, rule: str, file: str, numbers: Iterable[Any]) -> None:
        """Count lines of a file that break a rule, which is put as what it is when broken."""
        found = sorted(numbers)
        if found:
            self.counts[rule] += len(found)
            missing = _SHOWN - len(self._lines[rule])
            self._lines[rule] += [f"{file}, line {x}" for x in found[:missing]]

    def refuse(self, hint: str = "") -> None:
        """Raise if a rule is broken, naming all broken rules and the first lines of each.

        Raises:
            DataError: with the hint at its end.
        """
        if not self.counts:
            return
        broken = []
        for rule, count in self.counts.items():
            lines = f"{count:,} lines"
            if count == 1:
                lines = "1 line"
            broken.append(f"{rule} in {lines} ({'; '.join(self._lines[rule])})")
        # "vw: an event" -> "an event", for the rules after the first.
        again = self.subject.rpartition(": ")[2]
        raise DataError(f"{self.subject} {f' | {again} '.join(broken)}{hint}")
