"""Checks of output files: not a file that the command reads, not one file twice, not a device."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import BoundArguments
from pathlib import Path
from typing import Any

from piwo.errors import FileError, UsageError
from piwo.sources.paths import files_of
from piwo.visible import without_secrets

__all__ = ["check_outputs", "files_named", "outputs_and_inputs"]

_INPUTS = ("log", "policy", "baseline", "incumbent", "file", "contexts", "actions", "items")
"""Arguments and options that may name files to read."""
_TABLES = ("decisions", "outcomes")
"""Arguments of join; the option --outcomes of others is a list of columns."""
_TEXT_IN_QUERY = re.compile(r"'((?:[^']|'')*)'")
"""A quoted text in a query, which may be the name of a file that it reads."""


def outputs_and_inputs(bound: BoundArguments) -> tuple[dict[str, Path], list[str]]:
    """Return the files that a command writes, by option, and the words that name its inputs.

    A value of the type `Path` is a file to write; inputs are text, as they may be queries.
    """
    outputs: dict[str, Path] = {}
    inputs: list[str] = []
    for name, value in _options(bound):
        if isinstance(value, Path):
            outputs["--" + name.replace("_", "-")] = value
        elif name in (*_INPUTS, *_TABLES) and isinstance(value, str):
            inputs.append(value)
        elif name in _INPUTS and isinstance(value, list):
            inputs += value
    return outputs, inputs


def _options(bound: BoundArguments) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each argument and of each option."""
    for name, value in bound.arguments.items():
        if is_dataclass(value):
            for one in fields(value):
                yield one.name, getattr(value, one.name)
        else:
            yield name, value


def check_outputs(outputs: Mapping[str, Path], inputs: Iterable[str] = ()) -> None:
    """Raise if an output file cannot be written or must not be; called before any work is done.

    Args:
        outputs: option -> path; an ordinary file there is replaced.
        inputs: words that may name inputs: files, globs, databases and queries; others are ignored.

    Raises:
        FileError: for a folder, a device, a pipe, or a parent folder that does not exist.
        UsageError: for a file that the command reads, and for the same file under two options.

    >>> check_outputs({"--out": Path("result.piwo")}, ["log.csv", "select 1"])
    >>> check_outputs({"--out": Path("a"), "--checkpoint": Path("./b/../a")})
    Traceback (most recent call last):
    piwo.errors.UsageError: --out and --checkpoint are the same file 'a'; give each its own
    """
    earlier: dict[str, Path] = {}
    input_files = files_named(_with_files_inside(inputs))
    for option, out in outputs.items():
        _check_writable(option, out)
        for other, known in earlier.items():
            if _same_file(out, known):
                raise UsageError(
                    f"{other} and {option} are the same file {str(known)!r}; give each its own"
                )
        for path in input_files:
            if _same_file(out, path):
                raise UsageError(
                    f"{option}: {str(out)!r} is what the command reads ({path!r}); "
                    "choose another file"
                )
        earlier[option] = out


def _check_writable(option: str, out: Path) -> None:
    shown = without_secrets(out)
    if "\0" in shown:
        raise FileError(
            f"{option} got {shown!r}, which holds a NUL character; expected the name of a file"
        )
    try:
        target = Path(os.path.realpath(out))
        ordinary = target.is_file() or (not target.exists() and target.parent.is_dir())
    except OSError:
        # A name that is too long, or a folder without permission to search.
        ordinary = False
    if not ordinary:
        raise FileError(
            f"{option}: {shown!r} cannot be written, "
            "expected an ordinary file in a folder that exists"
        )


def _same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two paths are the same file, also through links; it need not exist yet."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    # Hard links, and letter case on file systems that ignore it.
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False


def _with_files_inside(words: Iterable[str]) -> Iterator[str]:
    """Yield the words and the files named inside them: @FILE, duckdb:FILE#TABLE, 'FILE'."""
    for word in words:
        yield word
        yield word.removeprefix("@")
        yield word.removeprefix("duckdb:").rpartition("#")[0]
        for text in _TEXT_IN_QUERY.findall(word):
            # In SQL, a doubled quote is one quote.
            yield text.replace("''", "'")


def files_named(words: Iterable[str]) -> list[str]:
    """Return the files that words name; a query, or the word uniform, names none.

    >>> files_named(["uniform", "select 1"])
    []
    """
    found = []
    for word in words:
        try:
            found += files_of(word)
        except (FileError, OSError, ValueError):
            continue
    return found
