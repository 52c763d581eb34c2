"""CSV files: DuckDB gets header and dialect, so that it guesses nothing and drops no row."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from piwo.errors import DataError, FileError
from piwo.sources.hive import Partition, hive_options
from piwo.sources.query import QuerySource, file_list, first_row, quoted, refuse_doubled

__all__ = ["Header", "csv_source", "header_of"]

_DELIMITERS = ",;\t|"
_MOSTLY = 0.99
"""A column with at least this share of numbers was meant to hold only numbers."""
_KINDS = ("DOUBLE", "BOOLEAN", "TIMESTAMP")
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
        opened = gzip.open if path.lower().endswith(".gz") else open
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


def csv_source(
    paths: Sequence[str],
    texts: Collection[str],
    numbers: Collection[str],
    partitions: Sequence[Partition] = (),
) -> QuerySource:
    """Return the rows of CSV files, every column as text unless it is found to hold numbers.

    Args:
        paths: files with the same columns, in whatever order.
        texts: columns that stay text.
        numbers: columns whose type is decided by all their values: numbers, true/false, times, or
            else text.
        partitions: columns in the names of folders.

    Raises:
        DataError: for files with different columns; and, when rows are read, for a row with another
            number of fields than its header, naming file and line.
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
    for header, group in groupby(paths, lambda path: headers[path]):
        parts.append(
            f"select {listed} from read_csv({file_list(list(group))}, "
            f"delim={quoted(header.delimiter, chr(39))}, "
            f"columns={_texts(header.names)}, {hive_options(added)}, {_DIALECT})"
        )
    sql = " union all ".join(parts)
    undecided = [x for x in first.names if x in numbers and x not in texts]
    kinds = _kinds(sql, paths[0], undecided)
    if kinds:
        chosen = []
        for name in map(quoted, names):
            kind = kinds.get(name)
            chosen.append(name if kind is None else f"cast({name} as {kind}) as {name}")
        sql = f"select {', '.join(chosen)} from ({sql})"
    return QuerySource(sql, name=paths[0], steady=True, files=paths)


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


def _kinds(sql: str, file: str, names: Sequence[str]) -> dict[str, str]:
    """Return the type that every value of a column has, for the columns that are not plain text.

    The keys are quoted names.

    Raises:
        DataError: for a column of numbers with a few other values.
    """
    if not names:
        return {}
    asked = []
    for name in map(quoted, names):
        # DuckDB takes 1_000 for a number.
        plain = f"not contains({name}, '_')"
        asked.append(f"count({name})")
        for kind in _KINDS:
            fits = f"try_cast({name} as {kind}) is not null and {plain}"
            asked.append(f"count(*) filter ({fits})")
        is_number = f"(try_cast({name} as {_KINDS[0]}) is not null and {plain})"
        asked.append(f"min({name}) filter (not {is_number})")
    answer = first_row(f"select {', '.join(asked)} from ({sql})", file)
    found: dict[str, str] = {}
    for i, name in enumerate(names):
        count, *fitting, other = answer[5 * i : 5 * i + 5]
        if _MOSTLY * count < fitting[0] < count:
            raise DataError(
                f"context column {name!r} holds numbers in all but "
                f"{count - fitting[0]} of {count} rows, which hold text such as "
                f"{other!r}; correct or drop such rows yourself, or make the column "
                "text in a query"
            )
        # The first kind that all values have; a column without any value counts as numbers.
        for kind, fits in zip(_KINDS, fitting, strict=True):
            if fits == count:
                found[quoted(name)] = kind
                break
    return found
