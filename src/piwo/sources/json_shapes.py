"""What a JSON file holds: one object a line, dsjson, or something else, which is named."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from piwo.errors import DataError
from piwo.sources.gzip_files import opened
from piwo.visible import visible

__all__ = ["json_kind"]

_HEAD = 2**16
"""Characters that are looked at."""
_DSJSON = ({"_label_cost", "_label_probability", "a", "p", "c"}, {"_label_cost", "_labelIndex"})


def json_kind(paths: Sequence[str]) -> str:
    """Return "dsjson" if the first event of every file is one, else "json".

    Raises:
        DataError: for a file that is one array, one object of columns, or one object over several
            lines, which DuckDB would report as broken or read as other rows.
    """
    kinds = set()
    for path in paths:
        head = _head(path).removeprefix("\ufeff").lstrip()
        _require_object(path, head)
        first = _parsed(head.partition("\n")[0])
        _require_row(path, head, first)
        is_event = isinstance(first, dict) and any(x <= first.keys() for x in _DSJSON)
        kinds.add("dsjson" if is_event else "json")
    if kinds == {"dsjson"}:
        return "dsjson"
    return "json"


def _head(path: str) -> str:
    """Return the first characters of a file; none if it cannot be read, which is reported later."""
    try:
        with opened(path) as file:
            head: bytes = file.read(_HEAD)
        return head.decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error):
        return ""


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _require_object(path: str, head: str) -> None:
    """Raise for a file that starts with an array."""
    if not head.startswith("["):
        return
    if not head[1:].lstrip().startswith("{"):
        raise DataError(
            f"{visible(path)!r} holds lists, expected one JSON object a line, such as "
            '{"action": "a", "reward": 1, "propensity": 0.5}; write one object a row'
        )
    name = path.replace("'", "''")
    raise DataError(
        f"{visible(path)!r} is one JSON array, expected one object a line; write it so (pandas: "
        'to_json(..., orient="records", lines=True)), or read it by a query: '
        f"select * from read_json('{visible(name)}', format='array')"
    )


def _require_row(path: str, head: str, first: Any) -> None:
    """Raise for a file that is one object of columns, or one over several lines."""
    line = head.partition("\n")[0].rstrip()
    is_split = isinstance(first, dict) and {"columns", "data"} == first.keys() - {"index"}
    if is_split or _is_columns(first) or _is_batch(first):
        raise DataError(
            f"{visible(path)!r} is one JSON object of columns, expected one object a row and line; "
            'write it so (pandas: to_json(..., orient="records", lines=True))'
        )
    if first is None and "\n" in head and line.endswith(("{", "[", ",")):
        raise DataError(
            f"{visible(path)!r} has an object that goes over several lines, expected one object a "
            "line; write each on a line of its own, without indents"
        )


def _is_columns(first: Any) -> bool:
    """Whether an object has an object for each column, as pandas writes columns."""
    if not isinstance(first, dict) or not first:
        return False
    values = list(first.values())
    if not all(isinstance(x, dict) for x in values):
        return False
    return all(x.keys() == values[0].keys() for x in values)


def _is_batch(first: Any) -> bool:
    """Whether an object has a list for each column, one of them with texts: no row has those."""
    if not isinstance(first, dict) or not first:
        return False
    values = list(first.values())
    if not all(isinstance(x, list) and len(x) == len(values[0]) for x in values):
        return False
    return any(isinstance(x[0], str) for x in values if x)
