"""Tables of databases: `duckdb:FILE#TABLE`, and `postgresql://...#TABLE`, or a query in place of the table."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from piwo.errors import FileError, UsageError
from piwo.sources.postgres import is_postgres, postgres_source
from piwo.sources.query import QuerySource, first_row, quoted
from piwo.sources.source import Source

__all__ = ["database_source", "is_database"]

_DUCKDB = "duckdb:"


def is_database(text: str) -> bool:
    """Whether a text names a table of a database.

    >>> (
    ...     is_database("duckdb:logs.db#clicks"),
    ...     is_database("postgresql://host/db#clicks"),
    ...     is_database("clicks.csv"),
    ... )
    (True, True, False)
    """
    return text.startswith(_DUCKDB) or is_postgres(text)


def database_source(text: str) -> Source:
    """Return the rows of a table.

    Raises:
        FileError: where there is no such file, server or table.
        UsageError: where no table is named.
    """
    return postgres_source(text) if is_postgres(text) else _duckdb_source(text)


def _duckdb_source(text: str) -> QuerySource:
    """Return a table or view of a DuckDB file, opened read-only, and only while it is read."""
    file, mark, asked = _parted(text.removeprefix(_DUCKDB))
    if not mark or not file or not asked:
        raise UsageError(f"got {text!r}, expected duckdb:FILE#TABLE, or duckdb:FILE#SCHEMA.TABLE")
    path = Path(file).expanduser()
    if not path.is_file():
        raise FileError(f"no file {file!r}, expected a DuckDB database; see {_DUCKDB}FILE#TABLE")
    place = quoted(str(path), "'")
    setup = (f"attach {place} as piwo_log (type duckdb, read_only)",)
    schema, table, kind, rows = _table(asked, file, setup)
    sql = f"select * from piwo_log.{quoted(schema)}.{quoted(table)}"
    return QuerySource(
        sql, f"{file}#{asked}", steady=kind == "table", files=[str(path)], setup=setup, rows=rows
    )  # fmt: skip


def _parted(text: str) -> tuple[str, str, str]:
    """Return file, # and table; names of both may hold a #, and the longest name of a file that is there is meant."""
    at = [i for i, x in enumerate(text) if x == "#"]
    found = next((i for i in reversed(at) if Path(text[:i]).expanduser().is_file()), None)
    return text.rpartition("#") if found is None else (text[:found], "#", text[found + 1 :])


def _table(asked: str, file: str, setup: Sequence[str]) -> tuple[str, str, str, int | None]:
    """Return schema, name and kind of a table, and its number of rows where that is known; case does not count."""
    listed = "list({'schema': schema_name, 'name': NAME, 'kind': KIND})"
    parts = []
    for kind in ("table", "view"):
        columns = listed.replace("NAME", f"{kind}_name").replace("KIND", f"'{kind}'")
        parts.append(
            f"select {columns} as found from duckdb_{kind}s() where database_name = 'piwo_log' and "
            "not internal"
        )
    (tables,) = first_row(parts[0], file, setup)
    (views,) = first_row(parts[1], file, setup)
    known = [(x["schema"], x["name"], x["kind"]) for x in (*(tables or ()), *(views or ()))]
    names = {
        name if schema == "main" else f"{schema}.{name}": (schema, name, kind)
        for schema, name, kind in known
    }
    plain = asked.casefold()
    fits = [x for name, x in names.items() if name.casefold() == plain]
    fits = fits or [x for x in known if plain in {x[1].casefold(), f"{x[0]}.{x[1]}".casefold()}]
    if len(fits) != 1:
        near = difflib.get_close_matches(asked, names, n=3, cutoff=0.0)
        what = f"{len(fits)} tables are called" if fits else "no table"
        raise FileError(
            f"{what} {asked!r} in {file!r}, expected one of its tables, such as "
            f"{', '.join(map(repr, near)) or 'none'}"
        )
    schema, table, kind = fits[0]
    rows = None
    if kind == "table":
        (rows,) = first_row(
            f"select count(*) from piwo_log.{quoted(schema)}.{quoted(table)}", file, setup
        )
    return schema, table, kind, rows
