"""What a JSON file holds: objects a line, one array of them, columns, dsjson, or something else."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from piwo.checks import each_once
from piwo.errors import DataError, FileError, UsageError
from piwo.sources.gzip_files import is_packed, opened
from piwo.visible import visible

__all__ = ["Content", "json_kind", "parsed_columns", "require_closed"]

Content: TypeAlias = Literal["decisions", "contexts", "slates"]
"""What the rows of a log are."""
_HEAD = 2**16
"""Characters that are looked at."""
_MOST = 2**28
"""Characters of a file of columns, which is parsed in memory."""
_DSJSON = (
    {"_label_cost", "_label_probability", "a", "p", "c"},
    {"_label_cost", "_labelIndex"},
    {"c", "_outcomes"},
)
_NESTED = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:\s*[\[{]')
"""The start of an object whose first value is a list or an object."""
_BLANK = " \t\r\n"
_ADVICE = (
    "expected one object a row and line; write it so (pandas: "
    'to_json(..., orient="records", lines=True))'
)


def json_kind(
    paths: Sequence[str], content: Content = "decisions", slate: str | None = None
) -> str:
    """Return how files hold rows: "json" (lines), "json array", "json columns" or "dsjson".

    Args:
        paths: the files.
        content: what a row is. A line in which every value is a list of numbers is columns of
            decisions, and a row of contexts. One in which every value is a list is a row of slates,
            unless its slate is a list of lists.
        slate: the column of slates; None: not known, so that any list of lists says the same.

    Raises:
        DataError: for a file of lists, of several objects of columns, or of objects over several
            lines, which DuckDB would report as broken or read as other rows.
        UsageError: for files of several kinds.
    """
    kinds = {_kind(path, content, slate) for path in paths}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {"json", "dsjson"}:
        return "json"
    raise UsageError(
        f"files of several types in one log ({', '.join(sorted(kinds))}); read one type at a time"
    )


def _kind(path: str, content: Content, slate: str | None) -> str:
    head = _head(path).removeprefix("\ufeff").lstrip()
    if head.startswith("["):
        _require_objects(path, head)
        return "json array"
    line = head.partition("\n")[0]
    if "\n" not in head:
        line = _first_line(path)
    first = _parsed(line)
    if isinstance(first, dict):
        if any(x <= first.keys() for x in _DSJSON):
            return "dsjson"
        if _as_columns(first, content, slate) is None and not _is_index(first):
            return "json"
        if _as_columns(first, content, slate) is not None and _is_single(path):
            return "json columns"
        raise DataError(f"{visible(path)!r} holds JSON objects of columns, {_ADVICE}")
    if "\n" in head and line.rstrip().endswith(("{", "[", ",")):
        whole = _whole(path) if _NESTED.match(head) else None
        if isinstance(whole, dict) and _as_columns(whole, content, slate) is not None:
            return "json columns"
        raise DataError(
            f"{visible(path)!r} has an object that goes over several lines, expected one object a "
            "line; write each on a line of its own, without indents"
        )
    return "json"


def require_closed(path: str) -> None:
    """Raise unless an array ends: DuckDB takes one that was cut after a comma for whole.

    Raises:
        FileError: naming the file.
    """
    last = ""
    try:
        with opened(path) as file:
            if not is_packed(path):
                file.seek(max(0, file.seek(0, 2) - _HEAD))
            while block := file.read(_HEAD):
                last = block.decode("utf-8", "replace").rstrip(_BLANK)[-1:] or last
    except (OSError, EOFError, zlib.error) as cause:
        raise FileError(f"{visible(path)!r} cannot be read ({cause}); copy it again") from None
    if last != "]":
        raise FileError(
            f"{visible(path)!r} ends before its JSON array does, expected ] at the end; write or "
            "copy it again"
        )


def parsed_columns(path: str) -> dict[str, list[Any]]:
    """Return name -> values of a file of columns.

    Raises:
        DataError: for columns of different lengths, and for names that a file has twice.
    """
    columns = _as_columns(_whole(path, once=True) or {}, "decisions")
    if columns is None:
        raise DataError(f"{visible(path)!r} does not hold JSON columns any more; read it again")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{visible(name)}: {count}" for name, count in lengths.items())
        raise DataError(
            f"{visible(path)!r} has columns of different lengths ({shown}); every column needs one "
            "entry a row"
        )
    return columns


def _head(path: str) -> str:
    """Return the first characters of a file; none if it cannot be read, which is reported later."""
    try:
        with opened(path) as file:
            head: bytes = file.read(_HEAD)
        return head.decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error):
        return ""


def _first_line(path: str) -> str:
    """Return the first line that is not blank."""
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            while line := file.readline(_MOST):
                if line.strip():
                    return str(line)
    except (OSError, EOFError, ValueError, zlib.error):
        pass
    return ""


def _is_single(path: str) -> bool:
    """Whether nothing follows the first line."""
    with opened(path, "rt", encoding="utf-8-sig") as file:
        return sum(1 for _, line in zip(range(2), filter(str.strip, file), strict=False)) == 1


def _whole(path: str, once: bool = False) -> Any:
    """Return a whole file as a value; None if it is not one JSON value.

    Args:
        path: of the file.
        once: whether to refuse names that an object has twice.
    """
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            text = file.read(_MOST)
            if file.read(1):
                return None
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return _parsed(text, each_once if once else None)


def _parsed(text: str, pairs: Any = None) -> Any:
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None


def _require_objects(path: str, head: str) -> None:
    """Raise for a file that starts with an array of something else than objects."""
    inside = head[1:].lstrip()
    if inside.startswith("]"):
        raise DataError(
            f"no rows in {path!r}: its JSON array is empty, expected at least one logged decision"
        )
    if not inside.startswith("{"):
        raise DataError(
            f"{visible(path)!r} holds lists, expected JSON objects, such as "
            '{"action": "a", "reward": 1, "propensity": 0.5}; write one object a row'
        )


def _as_columns(
    first: dict[str, Any], content: Content, slate: str | None = None
) -> dict[str, list[Any]] | None:
    """Return name -> values if an object holds columns; None if it is a row or unclear.

    These are pandas' orients "list", "columns" (an object a column, whose keys are row numbers) and
    "split".
    """
    values = list(first.values())
    if {"columns", "data"} == first.keys() - {"index"}:
        names, rows = first["columns"], first["data"]
        if not isinstance(names, list) or not isinstance(rows, list):
            return None
        if not rows or len(set(map(str, names))) < len(names):
            return None
        if not all(isinstance(x, list) and len(x) == len(names) for x in rows):
            return None
        columns = map(list, zip(*rows, strict=True))
        return dict(zip(map(str, names), columns, strict=True))
    if values and all(isinstance(x, list) for x in values) and content == "slates":
        # A row may hold a list of eligible labels for each slot.
        known = [first[slate]] if slate in first else values
        nested = any(isinstance(x[0], list) for x in known if x)
        return first if nested else None
    if values and all(isinstance(x, list) for x in values):
        # A row may hold lists of numbers, such as propensities. A row of a log has an action, too.
        if content == "decisions" or any(isinstance(x[0], str) for x in values if x):
            return first
        return None
    if values and all(isinstance(x, dict) for x in values):
        keys = list(values[0])
        same = all(list(x) == keys for x in values)
        # Rows are numbered; columns have names.
        if same and all(map(str.isdecimal, keys)) and not all(map(str.isdecimal, first)):
            return {name: list(x.values()) for name, x in first.items()}
    return None


def _is_index(first: dict[str, Any]) -> bool:
    """Whether an object may have an object for each row (pandas' orient "index")."""
    values = list(first.values())
    if not values or not all(isinstance(x, dict) for x in values):
        return False
    return all(x.keys() == values[0].keys() for x in values)
