"""CSV files: DuckDB gets header and dialect, so that it guesses nothing and drops no row."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from piwo.errors import DataError, FileError
from piwo.sources.column_types import TypedQuery, typed_query
from piwo.sources.gzip_files import gzip_options, is_packed, opened
from piwo.sources.hive import Partition, hive_options
from piwo.sources.query import ColumnType, file_list, quoted, refuse_doubled

__all__ = ["Header", "csv_query", "header_of"]

_DELIMITERS = ",;\t|"
_DIALECT = (
    "header=true, nullstr='', quote='\"', escape='\"', comment='', skip=0, "
    "null_padding=false, ignore_errors=false, strict_mode=true, auto_detect=false"
)


@dataclass(frozen=True)
class Header:
    """The first line of a CSV file: its column names and the delimiter between them."""

    names: tuple[str, ...]
    delimiter: str


def header_of(path: str) -> Header:
    """Return the header of a CSV file.

    The delimiter is a tab in files that end in .tsv, else the one of , ; tab | that splits the
    header into most names. A column without a name gets its position as one, such as
    "column0".

    Raises:
        DataError: for a missing header, names that differ in case at most, or text that is not
            UTF-8.
    """
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            line = file.readline()
            delimiter = _delimiter(path, line)
            # From the start: a quoted name may go over several lines.
            file.seek(0)
            listed = next(csv.reader(file, delimiter=delimiter), [])
    except UnicodeDecodeError:
        raise DataError(
            f"the header of {path!r} is not UTF-8 text; write the file as UTF-8"
        ) from None
    except csv.Error as cause:
        raise DataError(
            f"the header of {path!r} cannot be read ({cause}); its first line must name columns"
        ) from None
    except (OSError, EOFError, zlib.error) as cause:
        raise FileError(f"{path!r} cannot be read ({cause}); write or copy it again") from None
    if not any(x.strip() for x in listed):
        raise DataError(f"the first line of {path!r} is blank, expected the names of the columns")
    names = tuple(x.strip() or f"column{i}" for i, x in enumerate(listed))
    refuse_doubled(names, f"the header of {path!r}")
    return Header(names, delimiter)


def _delimiter(path: str, line: str) -> str:
    """Return the delimiter of a file with this first line."""
    if ".tsv" in map(str.lower, Path(path).suffixes[-2:]):
        return "\t"
    best, most = _DELIMITERS[0], -1
    for delimiter in _DELIMITERS:
        names = next(csv.reader([line], delimiter=delimiter), [])
        if len(names) > most:
            best, most = delimiter, len(names)
    return best


def csv_query(
    paths: Sequence[str],
    texts: Collection[str] = (),
    decided: Collection[str] = (),
    *,
    seen: Collection[str] = (),
    types: Mapping[str, ColumnType] | None = None,
    partitions: Sequence[Partition] = (),
) -> TypedQuery:
    """Return the query for the rows of CSV files: columns are text unless their values decide.

    Args:
        paths: files with the same columns, in whatever order.
        texts: columns that stay text.
        decided: columns whose type is decided by all their values: numbers, true/false, times, or
            else text.
        seen: columns of a condition, likewise.
        types: column -> its type, for columns of `decided` that a policy was made from.
        partitions: columns in the names of folders.

    Raises:
        DataError: for files with different columns; for a column that does not have its type; and,
            when rows are read, for a row with another number of fields than its header, naming file
            and line.
    """
    headers = {path: header_of(path) for path in paths}
    _refuse_other_columns(headers)
    first = headers[paths[0]]
    written = {x.casefold() for x in first.names}
    # A column in the file hides a folder of the same name.
    added = [x for x in partitions if x.name.casefold() not in written]
    names = list(first.names)
    names += [x.name for x in added]
    listed = ", ".join(map(quoted, names))
    parts = []
    for (header, _), group in groupby(paths, lambda path: (headers[path], is_packed(path))):
        files = list(group)
        parts.append(
            f"select {listed} from read_csv({file_list(files)}, {gzip_options(files)}"
            f"delim={quoted(header.delimiter, chr(39))}, "
            f"columns={_texts(header.names)}, {hive_options(added)}, {_DIALECT})"
        )
    asked = {*decided, *seen}
    undecided = [x for x in first.names if x in asked and x not in texts]
    return typed_query(
        " union all ".join(parts),
        paths[0],
        names,
        undecided=undecided,
        seen=seen,
        types=types or {},
    )


def _refuse_other_columns(headers: Mapping[str, Header]) -> None:
    """Raise unless all files have the columns of the first, in whatever order."""
    paths = list(headers)
    first = headers[paths[0]]
    for path, header in headers.items():
        odd = set(header.names) ^ set(first.names)
        if odd:
            name = min(odd)
            where, other = paths[0], path
            if name in header.names:
                where, other = path, paths[0]
            raise DataError(
                f"column {name!r} is in {where!r} and not in {other!r}; read them as two logs"
            )


def _texts(names: Sequence[str]) -> str:
    return "{" + ", ".join(f"{quoted(x, chr(39))}: 'VARCHAR'" for x in names) + "}"
