"""Watch files: monitors of several policies, their settings and their looks, with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from piwo._version import __version__
from piwo.checks import each_once
from piwo.errors import DataError, FileError
from piwo.evaluation.monitor_file import monitor_of_page, monitor_page
from piwo.files import read_file, write_file
from piwo.records import maybe, number, text, whole

__all__ = ["read_watch", "write_watch"]

FORMAT, FORMAT_VERSION = "piwo-watch", 1
Parts = tuple[str, str | None, dict[str, Any]]
_SETTINGS = ("delta", "deadline", "at_least", "columns", "actions", "looks")
_LOOK = {
    "log": text,
    "added": whole(1),
    "rows": whole(1),
    "digest": text,
    "answer": text,
}
_NUMBERS = ("value", "lower", "upper", "improvement_lower", "better_p", "logging_value")


def write_watch(path: Path, monitors: Sequence[Parts], facts: Mapping[str, Any]) -> None:
    """Write a watch as JSON, complete or not at all: after a crash, the old file is still there.

    Args:
        path: where to.
        monitors: the parts of each monitor.
        facts: settings and looks, as plain data.

    Raises:
        FileError: if the file cannot be written.
    """
    page = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "library": __version__,
        **facts,
        "monitors": [monitor_page(*one) for one in monitors],
    }
    page["checksum"] = _checksum(page)
    write_file(path, json.dumps(page, indent=1, allow_nan=False).encode())


def read_watch(path: Path) -> tuple[list[Parts], dict[str, Any]]:
    """Return what `write_watch` was given. Reading it executes no code.

    Raises:
        FileError: for a file that is missing, damaged, of another version, or not a watch.
    """
    page = _page(path)
    try:
        if page.pop("checksum", None) != _checksum(page):
            raise ValueError("it was changed after it was written")
        for look in page["looks"]:
            _check_look(look)
        monitors = [monitor_of_page(one, path) for one in page["monitors"]]
        if not monitors:
            raise ValueError("it has no monitors")
        facts = {name: page[name] for name in _SETTINGS}
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise FileError(
            f"{str(path)!r} is damaged: {cause}; restore a copy, or start again with all rows"
        ) from None
    facts["actions"] = tuple(facts["actions"])
    return monitors, facts


def _page(path: Path) -> dict[str, Any]:
    try:
        page = json.loads(read_file(path), parse_constant=_no_constant, object_pairs_hook=each_once)
    except (ValueError, RecursionError, DataError) as cause:
        raise FileError(
            f"{str(path)!r} is not the state of a monitored log ({cause}); give a file that "
            "piwo monitor wrote"
        ) from None
    if not isinstance(page, dict) or page.get("format") != FORMAT:
        raise FileError(
            f"{str(path)!r} is not the state of a monitored log; give a file that piwo monitor "
            "wrote"
        )
    if page.get("version") != FORMAT_VERSION:
        raise FileError(
            f"{str(path)!r} has version {page.get('version')!r:.80}, expected {FORMAT_VERSION}; "
            "update piwo"
        )
    return page


def _no_constant(found: str) -> None:
    raise ValueError(f"it holds {found}, expected finite numbers")


def _check_look(look: Mapping[str, Any]) -> None:
    """Raise for a look that no watch has, as in a file that was made by hand."""
    date.fromisoformat(look["date"])
    for name, fits in _LOOK.items():
        if not fits(look[name]):
            raise ValueError(f"{name} of a look is {look[name]!r:.80}")
    for one in look["policies"]:
        for name in _NUMBERS:
            if not maybe(number())(one[name]):
                raise ValueError(f"{name} of a look is {one[name]!r:.80}")
        # Looks of before have none.
        if not isinstance(one.get("cost", False), bool):
            raise ValueError(f"cost of a look is {one['cost']!r:.80}")


def _checksum(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()[:32]
