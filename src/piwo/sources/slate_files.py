"""Whether files of Vowpal Wabbit hold slates, by the first decision in them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from piwo.sources.lines import lines_of
from piwo.sources.paths import kind_of_name

__all__ = ["holds_slates"]


def holds_slates(paths: Sequence[str]) -> bool:
    """Whether the first decision of files is one of several slots: ccb, or slates.

    Only .dsjson and .vw say so themselves; of other files the answer is no.

    Args:
        paths: the files.

    Raises:
        FileError: if one cannot be read.

    >>> with open("page.vw", "w") as file:
    ...     print("ccb shared |user age:30", file=file)
    >>> holds_slates(["page.vw"])
    True
    """
    for path in paths:
        kind = kind_of_name(path)
        if kind not in {"dsjson", "vw"}:
            return False
        for _, lines in lines_of(path):
            for line in lines:
                found = _by_event(line) if kind == "dsjson" else _by_word(line)
                if found is not None:
                    return found
    return False


def _by_event(line: str) -> bool | None:
    """Return whether a line of dsjson has slots; None: it is no decision."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    inside = event.get("c") if isinstance(event, dict) else None
    if not isinstance(inside, dict) or "_multi" not in inside:
        return None
    return "_slots" in inside or "_outcomes" in event


def _by_word(line: str) -> bool | None:
    """Return whether a line of text is of a slate, by its first word; None: it is blank."""
    words = line.split(maxsplit=1)
    if not words:
        return None
    return words[0] in {"ccb", "slates"}
