"""Tables of databases: `duckdb:FILE#TABLE`, `postgresql://...#TABLE` or a query after the #."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from piwo.errors import FileError, UsageError
from piwo.sources.postgres import is_postgres, postgres_source
from piwo.sources.query import QuerySource, first_row, quoted
from piwo.sources.source import Source
from piwo.visible import without_secrets

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
        FileError: if there is no such file, server or table.
        UsageError: if no table is named.
    """
    if is_postgres(text):
        return postgres_source(text)
    return _duckdb_source(text)


def _duckdb_source(text: str) -> QuerySource:
    """Return a table or view of a DuckDB file, opened read-only, and only while it is read."""
    file, mark, asked = _parted(text.removeprefix(_DUCKDB))
    if not mark or not file or not asked:
        raise UsageError(
            f"got {without_secrets(text)!r}, expected duckdb:FILE#TABLE, or "
            "duckdb:FILE#SCHEMA.TABLE"
        )
    path = Path(file).expanduser()
    if not path.is_file():
        raise FileError(
            f"no file {without_secrets(file)!r}, expected a DuckDB database; see "
            f"{_DUCKDB}FILE#TABLE"
        )
    setup = (f"attach {quoted(str(path), chr(39))} as piwo_log (type duckdb, read_only)",)
    schema, table, kind = _table(asked, file, setup)
    place = f"piwo_log.{quoted(schema)}.{quoted(table)}"
    rows = None
    if kind == "table":
        (rows,) = first_row(f"select count(*) from {place}", file, setup)
    return QuerySource(
        f"select * from {place}",
        f"{file}#{asked}",
        steady=kind == "table",
        files=[str(path)],
        setup=setup,
        rows=rows,
    )


def _parted(text: str) -> tuple[str, str, str]:
    """Return file, # and table.

    Either may hold a #: the longest name of a file that exists is meant.
    """
    for at in range(len(text) - 1, -1, -1):
        if text[at] == "#" and Path(text[:at]).expanduser().is_file():
            return text[:at], "#", text[at + 1 :]
    return text.rpartition("#")


def _table(asked: str, file: str, setup: Sequence[str]) -> tuple[str, str, str]:
    """Return schema, name and kind of the one table or view with a name; case does not matter."""
    tables: list[tuple[str, str, str]] = []
    for kind in ("table", "view"):
        (found,) = first_row(
            f"select list({{'schema': schema_name, 'name': {kind}_name}}) from "
            f"duckdb_{kind}s() where database_name = 'piwo_log' and not internal",
            file,
            setup,
        )
        tables += [(x["schema"], x["name"], kind) for x in found or ()]
    plain = asked.casefold()
    names: dict[str, tuple[str, str, str]] = {}
    other_fits = []
    for table in tables:
        schema, name, _ = table
        full = f"{schema}.{name}"
        short = full
        if schema == "main":
            short = name
        names[short] = table
        if plain in {name.casefold(), full.casefold()}:
            # A name without its schema, or with "main".
            other_fits.append(table)
    fits = [table for name, table in names.items() if name.casefold() == plain] or other_fits
    if len(fits) != 1:
        near = difflib.get_close_matches(asked, names, n=3, cutoff=0.0)
        what = "no table"
        if fits:
            what = f"{len(fits)} tables are called"
        raise FileError(
            f"{what} {asked!r} in {file!r}, expected one of its tables, such as "
            f"{', '.join(map(repr, near)) or 'none'}"
        )
    return fits[0]
