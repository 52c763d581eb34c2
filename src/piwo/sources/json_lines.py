"""JSON lines: one object a line. A string is text whatever it says, a number is a number."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence

from piwo.errors import DataError
from piwo.sources.column_types import TypedQuery, known_number, tallied
from piwo.sources.gzip_files import opened
from piwo.sources.hive import Partition, hive_options
from piwo.sources.query import ColumnType, file_list, quoted, refuse_doubled, rows_of

__all__ = ["json_columns", "json_query", "refuse_merged_labels"]

_NUMBERS = {"BIGINT", "UBIGINT", "DOUBLE", "BOOLEAN"}
_WIDE = {"HUGEINT", "UHUGEINT"}
"""Whole numbers of which some have no place in BIGINT; their digits are looked at."""
_TIMES = {
    "DATE": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
}
"""DuckDB's types of strings that are times -> those of the rows."""
_TOKENS = {
    "VARCHAR": "text",
    "BOOLEAN": "true or false",
    "BIGINT": "whole numbers",
    "UBIGINT": "whole numbers",
    "HUGEINT": "whole numbers",
    "UHUGEINT": "whole numbers",
    "DOUBLE": "floating-point numbers",
    "ARRAY": "lists",
    "OBJECT": "objects",
}


def json_columns(paths: Sequence[str], partitions: Sequence[Partition]) -> dict[str, str]:
    """Return the columns of JSON lines, and the types that DuckDB finds in all their values."""
    for path in paths:
        refuse_doubled(_first_keys(path), f"the first line of {path!r}")
    # Without the threshold, many columns that few lines have would become one.
    options = "sample_size=-1, map_inference_threshold=-1"
    rows = rows_of(f"describe select * from {_reader(paths, partitions)}, {options})", paths[0])
    return {name: kind for name, kind, *_ in rows}


def json_query(
    paths: Sequence[str],
    columns: Mapping[str, str],
    texts: Collection[str] = (),
    decided: Collection[str] = (),
    *,
    seen: Collection[str] = (),
    types: Mapping[str, ColumnType] | None = None,
    partitions: Sequence[Partition] = (),
) -> TypedQuery:
    """Return the query for the rows of JSON lines.

    Args:
        paths: the files.
        columns: what `json_columns` gave.
        texts: columns that are read as text.
        decided: columns that have the type of all their values: numbers, true/false, lists, times,
            or else text.
        seen: columns of a condition, likewise.
        types: column -> its type, for columns of `decided` that a policy was made from.
        partitions: columns in the names of folders.

    Raises:
        DataError: for a column that does not have its type.
    """
    known = types or {}
    chosen: dict[str, str] = {}
    unclear: list[str] = []
    # The folder gives the value and its type.
    folders = {x.name for x in partitions}
    for name in dict.fromkeys((*texts, *decided, *seen)):
        if name in folders:
            continue
        found = columns[name]
        chosen[name] = _sql_type(found)
        if name in texts:
            chosen[name] = "VARCHAR"
        elif name in known:
            if known[name] == "text":
                _refuse_nested(name, found)
                chosen[name] = "VARCHAR"
            elif chosen[name] not in _NUMBERS:
                unclear.append(name)
        elif found in _WIDE:
            unclear.append(name)
    chosen |= dict.fromkeys(unclear, "VARCHAR")
    sql = f"select * from {_reader(paths, partitions)}, columns={_struct(chosen)})"
    if unclear:
        tallies = tallied(sql, paths[0], unclear, zeros=unclear)
        numbers = [known_number(name, tally) for name, tally in tallies.items()]
        sql = f"select * replace ({', '.join(numbers)}) from ({sql})"
    return TypedQuery(sql)


def _reader(paths: Sequence[str], partitions: Sequence[Partition]) -> str:
    """Return the call of DuckDB's reader, without its closing parenthesis."""
    return f"read_json({file_list(paths)}, format='newline_delimited', {hive_options(partitions)}"


def _first_keys(path: str) -> list[str]:
    """Return the keys of the first JSON object, with repeated ones; none if it is not an object."""
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            pairs = json.loads(file.readline(), object_pairs_hook=list)
        return [str(x[0]) for x in pairs]
    except (OSError, EOFError, ValueError, TypeError, IndexError, RecursionError, zlib.error):
        # DuckDB reads the file next and reports the error.
        return []


def _sql_type(found: str) -> str:
    """Return the type as which a column is read, given the one that DuckDB finds."""
    if found in _NUMBERS:
        return found
    if found in _TIMES:
        return _TIMES[found]
    if found.endswith("[]"):
        return "DOUBLE[]"
    return "VARCHAR"


def _refuse_nested(name: str, found: str) -> None:
    if found.endswith("]") or found.startswith(("STRUCT", "MAP")):
        raise DataError(
            f"context column {name!r} holds lists or objects, expected text as when the policy was "
            "made; correct the column, or learn the policy again"
        )


def _struct(types: Mapping[str, str]) -> str:
    """Return a DuckDB struct of column types."""
    fields = [f"{quoted(name, chr(39))}: '{kind}'" for name, kind in types.items()]
    return "{" + ", ".join(fields) + "}"


def refuse_merged_labels(
    paths: Sequence[str],
    columns: Mapping[str, str],
    labels: Collection[str],
    partitions: Sequence[Partition],
) -> None:
    """Raise if JSON values that differ would have the same text as labels, such as 1 and "1".

    Args:
        paths: the files.
        columns: what `json_columns` gave.
        labels: columns of labels or keys.
        partitions: columns in the names of folders.

    Raises:
        DataError: for labels of several kinds, and for those that are not text, whole numbers, or
            true and false.
    """
    for name in labels:
        # Strings alone, or whole numbers alone, have texts of their own.
        clear = {"VARCHAR", "BIGINT", "UBIGINT", "BOOLEAN", "UUID", "TIME", *_WIDE, *_TIMES}
        if columns.get(name, "VARCHAR") in clear or name in {x.name for x in partitions}:
            continue
        column = quoted(name)
        values = f"{_reader(paths, partitions)}, columns={_struct({name: 'JSON'})})"
        # DuckDB calls numbers of more than 64 bits DOUBLE, and keeps their digits.
        kind = (
            f"case when regexp_full_match(cast({column} as VARCHAR), '-?[0-9]+') then 'BIGINT' "
            f"else json_type({column}) end"
        )
        found = rows_of(
            f"select {kind} as kind, any_value(cast({column} as VARCHAR)) from {values} "
            f"where {column} is not null group by kind order by kind",
            paths[0],
        )
        examples = {_TOKENS[token]: example for token, example in found if token in _TOKENS}
        refused = examples.keys() & {"floating-point numbers", "lists", "objects"}
        if len(examples) > 1 or refused:
            listed = ", ".join(f"{what} (such as {x})" for what, x in examples.items())
            raise DataError(
                f"column {name!r} of {paths[0]!r} holds {listed}, expected text alone, whole "
                "numbers alone, or true and false alone, as labels are compared as text; write "
                "them as text"
            )
