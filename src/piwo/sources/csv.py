"""CSV files: the header is read here and the dialect is stated, so that DuckDB guesses nothing and drops no row."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from piwo.errors import DataError, FileError
from piwo.sources.hive import Partition, hive_options
from piwo.sources.query import QuerySource, file_list, first_row, quoted, refuse_doubled

__all__ = ["Header", "csv_source", "header_of"]

_DELIMITERS = ",;\t|"
_MOSTLY = 0.99
"""Share of numbers from which on a column was meant to hold nothing else."""
_DIALECT = (
    "header=true, nullstr='', quote='\"', escape='\"', comment='', skip=0, null_padding=false, "
    "ignore_errors=false, strict_mode=true, auto_detect=false"
)


@dataclass(frozen=True)
class Header:
    """The first line of a CSV file: its column names and what stands between them."""

    names: tuple[str, ...]
    delimiter: str


def header_of(path: str) -> Header:
    """Return the header of a CSV file. The delimiter is the one of , ; tab | that splits the header most.

    A file that ends in .tsv has tabs. A column without a name gets its position as one, such as
    "column0".

    Raises:
        DataError: for no header, doubled names (case does not tell them apart), or text that is not
            UTF-8.
    """
    try:
        opened = gzip.open if path.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            line = file.readline()
            tabs = ".tsv" in (x.lower() for x in Path(path).suffixes[-2:])
            widths = {x: len(next(csv.reader([line], delimiter=x), [])) for x in _DELIMITERS}
            delimiter = "\t" if tabs else max(widths, key=lambda x: widths[x])
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
    except (OSError, EOFError) as cause:
        raise FileError(f"{path!r} cannot be read ({cause}); write or copy it again") from None
    if not any(x.strip() for x in listed):
        raise DataError(f"the first line of {path!r} is blank, expected the names of the columns")
    names = tuple(x.strip() or f"column{i}" for i, x in enumerate(listed))
    refuse_doubled(names, f"the header of {path!r}")
    return Header(names, delimiter)


def csv_source(
    paths: Sequence[str],
    texts: Collection[str],
    numbers: Collection[str],
    partitions: Sequence[Partition] = (),
) -> QuerySource:
    """Return the rows of CSV files, every column as text but for those that turn out to hold numbers.

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
    first = headers[paths[0]]
    for path, header in headers.items():
        if sorted(header.names) != sorted(first.names):
            odd = min(set(header.names) ^ set(first.names))
            where, other = (path, paths[0]) if odd in header.names else (paths[0], path)
            raise DataError(
                f"column {odd!r} is in {where!r} and not in {other!r}; read them as two logs"
            )
    written = {x.casefold() for x in first.names}
    added = [x for x in partitions if x.name.casefold() not in written]
    names = [*first.names, *(x.name for x in added)]
    listed = ", ".join(quoted(x) for x in names)
    parts = [
        f"select {listed} from read_csv({file_list(list(group))}, "
        f"delim={quoted(header.delimiter, chr(39))}, columns={_texts(header.names)}, "
        f"{hive_options(added)}, {_DIALECT})"
        for header, group in groupby(paths, lambda path: headers[path])
    ]
    sql = " union all ".join(parts)
    open_types = [x for x in first.names if x in numbers and x not in texts]
    kinds = _kinds(sql, paths[0], open_types)
    if kinds:
        chosen = (
            f"cast({quoted(x)} as {kinds[x]}) as {quoted(x)}" if x in kinds else quoted(x)
            for x in names
        )
        sql = f"select {', '.join(chosen)} from ({sql})"
    return QuerySource(sql, name=paths[0], steady=True, files=paths)


def _texts(names: Sequence[str]) -> str:
    return "{" + ", ".join(f"{quoted(x, chr(39))}: 'VARCHAR'" for x in names) + "}"


def _kinds(sql: str, file: str, names: Sequence[str]) -> dict[str, str]:
    """Return the type that every value of a column has, for the columns that are not plain text.

    Raises:
        DataError: for a column of numbers but for a few values.
    """
    if not names:
        return {}
    kinds = ("DOUBLE", "BOOLEAN", "TIMESTAMP")
    asked = []
    for x in map(quoted, names):
        # DuckDB takes 1_000 for a number
        fits = [
            f"(try_cast({x} as {kind}) is not null and not contains({x}, '_'))" for kind in kinds
        ]
        asked += [
            f"count({x})",
            *(f"count(*) filter ({test})" for test in fits),
            f"min({x}) filter (not {fits[0]})",
        ]
    answer = first_row(f"select {', '.join(asked)} from ({sql})", file)
    found: dict[str, str] = {}
    for i, name in enumerate(names):
        count, *fitting, other = answer[5 * i : 5 * i + 5]
        if _MOSTLY * count < fitting[0] < count:
            raise DataError(
                f"context column {name!r} holds numbers in all but {count - fitting[0]} of {count} "
                f"rows, which hold text such as {other!r}; correct or drop such rows yourself, or "
                "make the column text in a query"
            )
        # a column without any value counts as numbers that are missing
        kind = next(
            (kind for kind, fits in zip(kinds, fitting, strict=True) if fits == count), None
        )
        if kind is not None:
            found[name] = kind
    return found
