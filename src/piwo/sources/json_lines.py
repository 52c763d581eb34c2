"""JSON: one object a row. A string is text whatever it says, a number is a number.

Lines and arrays of objects are read by DuckDB as streams. A file of columns is written as lines
first.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from piwo.errors import DataError, FileError
from piwo.sources.column_types import TypedQuery, known_number, tallied
from piwo.sources.gzip_files import gzip_options, opened
from piwo.sources.hive import Partition, hive_options, partitions_of
from piwo.sources.json_shapes import parsed_columns, require_closed
from piwo.sources.names import place_of_rows, without_links
from piwo.sources.query import ColumnType, file_list, quoted, refuse_doubled, rows_of

__all__ = ["JsonFiles", "json_columns", "json_files", "json_query", "refuse_merged_labels"]

_NUMBERS = {"BIGINT", "UBIGINT", "DOUBLE", "BOOLEAN"}
_WIDE = {"HUGEINT", "UHUGEINT"}
"""Whole numbers of which some have no place in BIGINT; their digits are looked at."""
_OBJECTS = ("STRUCT", "MAP")
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
_HEAD = 2**20
"""Characters in which the first object of an array is looked for."""
_OUT_OF_OBJECTS = "read a query, select *, [x.LABEL for x in COLUMN] as could from 'FILE'"
"""How labels inside of listed objects become lists of labels."""


@dataclass(frozen=True)
class JsonFiles:
    """JSON files of one kind, as DuckDB reads them."""

    paths: tuple[str, ...]
    """Lines or arrays of objects."""
    name: str
    """The first file as it was given, for messages."""
    partitions: tuple[Partition, ...]
    """The columns in the names of folders."""
    format: str
    """DuckDB's name of the format."""

    @property
    def reader(self) -> str:
        """The call of DuckDB's reader, without its closing parenthesis."""
        options = f"format='{self.format}', {gzip_options(self.paths)}"
        options += hive_options(self.partitions)
        return f"read_json({file_list(self.paths)}, {options}"


def json_files(paths: Sequence[str], kind: str) -> JsonFiles:
    """Return files of a kind that `json_kind` gave.

    Raises:
        FileError: for an array that is not closed, and if the rows of a file of columns, which are
            written to the folder for temporary files, do not fit there.
    """
    made = JsonFiles(tuple(paths), paths[0], partitions_of(paths), "newline_delimited")
    if kind == "json array":
        for path in paths:
            require_closed(path)
        return replace(made, format="array")
    if kind == "json columns":
        return replace(made, paths=tuple(map(_written_as_lines, paths)))
    return made


def _written_as_lines(path: str) -> str:
    """Return a file with the rows of a file of columns, one object a line."""
    state = Path(path).stat()
    # Unpacked; the ending says so.
    plain = re.sub(r"\.gz$", "", path, flags=re.IGNORECASE)
    target = place_of_rows(plain, f"{state.st_size}-{state.st_mtime_ns}")
    if target.exists():
        return str(target)
    columns = parsed_columns(path)
    half = target.with_name(f"{target.name}.half")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with half.open("w") as file:
            for row in zip(*columns.values(), strict=True):
                file.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")
        half.replace(target)
    except OSError as cause:
        raise FileError(
            f"the rows of {path!r} do not fit on disk at {str(half)!r} ({cause}); make room, or "
            "set TMPDIR"
        ) from None
    return str(target)


def json_columns(files: JsonFiles) -> dict[str, str]:
    """Return the columns of JSON files, and the types that DuckDB finds in all their values."""
    for path in files.paths:
        refuse_doubled(_first_keys(path, files.format), f"the first row of {without_links(path)!r}")
    # Without the threshold, many columns that few lines have would become one.
    options = "sample_size=-1, map_inference_threshold=-1"
    try:
        rows = rows_of(f"describe select * from {files.reader}, {options})", files.name)
    except DataError as cause:
        # Labels may differ in case at most, as fields of a struct cannot. What is broken is
        # reported when rows are read.
        if "Duplicate name" not in str(cause):
            raise
        options += ", ignore_errors=true"
        rows = rows_of(f"describe select * from {files.reader}, {options})", files.name)
    return {name: kind for name, kind, *_ in rows}


def json_query(
    files: JsonFiles,
    columns: Mapping[str, str],
    texts: Collection[str] = (),
    decided: Collection[str] = (),
    *,
    seen: Collection[str] = (),
    types: Mapping[str, ColumnType] | None = None,
    vector: str | None = None,
    labels: str | None = None,
    lists: bool = False,
) -> TypedQuery:
    """Return the query for the rows of JSON files.

    Args:
        files: the files.
        columns: what `json_columns` gave.
        texts: columns that are read as text.
        decided: columns that have the type of all their values: numbers, true/false, lists, times,
            or else text.
        seen: columns of a condition, likewise.
        types: column -> its type, for columns of `decided` that a policy was made from.
        vector: a column of `decided` that may hold objects {label: probability}.
        labels: a column of `decided` that holds lists of labels.
        lists: whether lists have the type of their entries, as those of slates; else they are
            numbers.

    Raises:
        DataError: for a column that does not have its type.
    """
    known = types or {}
    chosen: dict[str, str] = {}
    unclear: list[str] = []
    # The folder gives the value and its type.
    folders = {x.name for x in files.partitions}
    for name in dict.fromkeys((*texts, *decided, *seen)):
        if name in folders:
            continue
        found = columns[name]
        chosen[name] = _sql_type(found, labels=name == labels, lists=lists)
        if name in texts:
            chosen[name] = "VARCHAR"
        elif name == vector and found.startswith(_OBJECTS):
            chosen[name] = "MAP(VARCHAR, DOUBLE)"
        elif name in known:
            if known[name] == "text":
                _refuse_nested(name, found)
                chosen[name] = "VARCHAR"
            elif chosen[name] not in _NUMBERS:
                unclear.append(name)
        elif found in _WIDE:
            unclear.append(name)
    chosen |= dict.fromkeys(unclear, "VARCHAR")
    sql = f"select * from {files.reader}, columns={_struct(chosen)})"
    if unclear:
        tallies = tallied(sql, files.name, unclear, zeros=unclear)
        numbers = [known_number(name, tally) for name, tally in tallies.items()]
        sql = f"select * replace ({', '.join(numbers)}) from ({sql})"
    return TypedQuery(sql)


def _first_keys(path: str, form: str) -> list[str]:
    """Return the keys of the first JSON object, with repeated ones; none if it is not an object."""
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            text = file.read(_HEAD).lstrip()[1:] if form == "array" else file.readline()
        pairs, _ = json.JSONDecoder(object_pairs_hook=list).raw_decode(text.lstrip())
        return [str(x[0]) for x in pairs]
    except (OSError, EOFError, ValueError, TypeError, IndexError, RecursionError, zlib.error):
        # DuckDB reads the file next and reports the error.
        return []


def _sql_type(found: str, labels: bool = False, lists: bool = False) -> str:
    """Return the type as which a column is read, given the one that DuckDB finds.

    Args:
        found: by DuckDB.
        labels: whether lists hold labels, and not numbers.
        lists: whether lists have the type of their entries.
    """
    if found in _NUMBERS:
        return found
    if found in _TIMES:
        return _TIMES[found]
    if found.startswith("STRUCT(") and found.endswith(")[]"):
        # Features of eligible actions.
        return found
    if found.endswith("[]"):
        if lists:
            # Eligible labels of slots are lists of lists.
            entry = found.rstrip("[]")
            return found if entry in _NUMBERS else f"VARCHAR{found.removeprefix(entry)}"
        if labels:
            # of each slot
            return "VARCHAR[][]" if found.endswith("[][]") else "VARCHAR[]"
        return "DOUBLE[]"
    return "VARCHAR"


def _refuse_nested(name: str, found: str) -> None:
    if found.endswith("]") or found.startswith(_OBJECTS):
        raise DataError(
            f"context column {name!r} holds lists or objects, expected text as when the policy was "
            "made; correct the column, or learn the policy again"
        )


def _struct(types: Mapping[str, str]) -> str:
    """Return a DuckDB struct of column types."""
    fields = [f"{quoted(name, chr(39))}: '{kind}'" for name, kind in types.items()]
    return "{" + ", ".join(fields) + "}"


def refuse_merged_labels(
    files: JsonFiles,
    columns: Mapping[str, str],
    labels: Collection[str],
    lists: str | None = None,
) -> None:
    """Raise if JSON values that differ would have the same text as labels, such as 1 and "1".

    Args:
        files: the files.
        columns: what `json_columns` gave.
        labels: columns of labels or keys.
        lists: the one of them that holds lists of labels, or lists of such lists.

    Raises:
        DataError: for labels of several kinds, and for those that are not text, whole numbers, or
            true and false.
    """
    for name in labels:
        found_type = columns.get(name, "VARCHAR")
        in_lists = name == lists and found_type.endswith("[]")
        nested = in_lists and found_type.endswith("[][]")
        if in_lists:
            found_type = found_type.removesuffix("[]").removesuffix("[]")
        elif name == lists:
            # Not lists: the next reader reports it.
            continue
        # Strings alone, or whole numbers alone, have texts of their own.
        clear = {"VARCHAR", "BIGINT", "UBIGINT", "BOOLEAN", "UUID", "TIME", *_WIDE, *_TIMES}
        if found_type in clear or name in {x.name for x in files.partitions}:
            continue
        column = quoted(name)
        holds, token = "", "JSON"
        if in_lists:
            holds, token = "lists of ", "JSON[][]" if nested else "JSON[]"
        values = f"{files.reader}, columns={_struct({name: token})})"
        if in_lists:
            entries = f"flatten({column})" if nested else column
            values = f"(select unnest({entries}) as {column} from {values})"
        # DuckDB calls numbers of more than 64 bits DOUBLE, and keeps their digits.
        kind = (
            f"case when regexp_full_match(cast({column} as VARCHAR), '-?[0-9]+') then 'BIGINT' "
            f"else json_type({column}) end"
        )
        found = rows_of(
            f"select {kind} as kind, any_value(cast({column} as VARCHAR)) from {values} "
            f"where {column} is not null group by kind order by kind",
            files.name,
        )
        examples = {_TOKENS[token]: example for token, example in found if token in _TOKENS}
        refused = examples.keys() & {"floating-point numbers", "lists", "objects"}
        if len(examples) > 1 or refused:
            listed = ", ".join(f"{what} (such as {x})" for what, x in examples.items())
            instead = "write them as text"
            if in_lists and "objects" in examples:
                instead = f"take them out of the objects: {_OUT_OF_OBJECTS}"
            raise DataError(
                f"column {name!r} of {files.name!r} holds {holds}{listed}, expected text alone, "
                "whole numbers alone, or true and false alone, as labels are compared as text; "
                f"{instead}"
            )
