"""How files are written: whole or not at all; and what stands in them as text."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa

__all__ = ["PARTIAL", "csv_text", "markdown", "replace", "visible", "write"]

PARTIAL = ".partial"
"""Ends the name of a file that is being written."""


def write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all."""
    replace(path, lambda file: file.write(content))


def replace(path: Path, write_to: Callable[[IO[bytes]], object]) -> None:
    """Write a file completely or not at all, even if the process is killed or the disk is full.

    Args:
        path: the file; what it held before stays until the new content is on the disk.
        write_to: writes the content to the open file that it is given.
    """
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("wb") as file:
            write_to(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if (
            isinstance(error, OSError) and error.filename is None
        ):  # a full disk does not say where it is
            error.filename = str(path)
        raise


def csv_text(table: pa.Table) -> str:
    r"""Return a table as CSV, floats with as many digits as it takes to read the same number back.

    >>> csv_text(pa.table({"h": [1e-10, 0.1], "set": ["good", "bad"]}))
    'h,set\n1e-10,good\n0.1,bad\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # writes floats by repr
    writer.writerow(table.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return text.getvalue()


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""Return the lines of a table; a bar or a line break in a cell would end it.

    >>> markdown(["h", "set"], [["0.1", "a|b"]])
    ['| h | set |', '| --- | --- |', '| 0.1 | a\\|b |']
    """
    lines = [head, ["---"] * len(head), *rows]
    return [
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |"
        for line in lines
    ]


def visible(text: str) -> str:
    r"""Return a text with unprintable characters escaped: names come from the data.

    >>> print(visible("\u03b3 \x1b[31mred"))
    γ \x1b[31mred
    """
    return "".join(
        x if x.isprintable() else x.encode("unicode_escape").decode("ascii") for x in text
    )
