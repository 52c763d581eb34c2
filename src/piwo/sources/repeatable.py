"""Queries that give the same rows at every pass: random functions are refused, clocks are stopped.

A log is read several times, and rows are held out by their numbers. A condition such as random() <
0.9 picks other rows each time: a policy would be learned from held-out rows, and its certificate
would be invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from piwo.errors import UsageError

__all__ = ["chance", "reads_checksums", "refuse_chance", "stopped_clocks", "words_of"]

_HARMLESS = frozenset({"error"})
"""Functions that DuckDB calls volatile although they choose no rows."""
_WRITTEN_AS = {
    "current_timestamp": "get_current_timestamp",
    "current_time": "get_current_time",
    "localtime": "current_localtime",
    "localtimestamp": "current_localtimestamp",
}
"""SQL's words for the time -> DuckDB's functions."""
_CLOCKS = {
    "now": "TIMESTAMPTZ",
    "transaction_timestamp": "TIMESTAMPTZ",
    "get_current_timestamp": "TIMESTAMPTZ",
    "today": "DATE",
    "current_date": "DATE",
    "get_current_time": "TIMETZ",
    "current_localtime": "TIME",
    "current_localtimestamp": "TIMESTAMP",
}
"""Functions that give the time -> their types."""

_PARQUET = frozenset({"read_parquet", "parquet_scan"})
_PACKED = re.compile(r"\.(parquet|pq|gz)\b", re.IGNORECASE)
"""Names of files that may carry checksums."""

Node = dict[str, Any]


def refuse_chance(sql: str, name: str, cursor: Any, own: bool) -> None:
    """Raise if a query may give other rows at each pass.

    Such are volatile functions (DuckDB knows which) and samples without a seed, also in views and
    macros.

    Args:
        sql: the query.
        name: of the source in the message.
        cursor: of a DuckDB connection that knows what the query names.
        own: whether the connection has only DuckDB's own functions.

    Raises:
        UsageError: naming the function, and what to do.

    >>> import duckdb
    >>> refuse_chance(
    ...     "select range as x from range(9) where random() < 0.9",
    ...     "the query",
    ...     duckdb.connect(),
    ...     own=True,
    ... )
    Traceback (most recent call last):
    piwo.errors.UsageError: random() in the query gives other rows at every pass, ...
    """
    nodes = list(_nodes(sql, cursor, own))
    called = _called(nodes)
    if called:
        volatile = called & (_built_in() if own else _volatile(cursor)) - _HARMLESS
        if volatile:
            raise UsageError(chance(f"{min(volatile)}()", name))
    if any("sample_size" in x and x.get("seed", -1) in (-1, None) for x in nodes):
        raise UsageError(chance("a sample without a seed", name))


def chance(what: str, name: str, instead: str = "hash(id) % 10 < 9") -> str:
    """Return the message about a random choice of rows; `instead` is a condition on their values.

    >>> chance("random()", "the query")
    'random() in the query gives other rows at every pass, and a log is ...'
    """
    return (
        f"{what} in {name} gives other rows at every pass, and a log is read several "
        f"times; choose rows by what is in them, such as {instead}, or write the rows "
        "to a file once and read that"
    )


def stopped_clocks(sql: str, cursor: Any, own: bool, setup: Sequence[str] = ()) -> tuple[str, ...]:
    """Return statements that stop the clocks which a query reads at the time of this call.

    Args:
        sql: the query.
        cursor: of a DuckDB connection that knows what the query names.
        own: whether the connection has only DuckDB's own functions.
        setup: statements that were run already; clocks that they stopped are left out.

    >>> import duckdb
    >>> stopped_clocks("select 1 where current_date > '2026-01-01'", duckdb.connect(), own=True)
    ("create or replace temp macro current_date() as cast('...' as DATE)",)
    """
    words = _words(list(_nodes(sql, cursor, own)))
    named = {_WRITTEN_AS.get(x, x) for x in words}
    running = []
    for clock in _CLOCKS:
        stopped = any(f" macro {clock}() " in statement for statement in setup)
        if clock in named and not stopped:
            running.append(clock)
    if not running:
        return ()
    asked = ", ".join(f"cast({x}() as varchar)" for x in running)
    times = cursor.execute(f"select {asked}").fetchall()[0]
    made = []
    for name, time in zip(running, times, strict=True):
        value = f"cast('{time}' as {_CLOCKS[name]})"
        made.append(f"create or replace temp macro {name}() as {value}")
    return tuple(made)


def reads_checksums(sql: str, cursor: Any, own: bool) -> bool:
    """Whether a query reads files that may carry checksums: Parquet, or packed by gzip.

    Args:
        sql: the query.
        cursor: of a DuckDB connection that knows what the query names.
        own: whether the connection has only DuckDB's own functions.

    >>> import duckdb
    >>> reads_checksums("from 'log.csv.gz'", duckdb.connect(), own=True)
    True
    """
    for node in _nodes(sql, cursor, own):
        if node.get("function_name") in _PARQUET:
            return True
        # Texts have other keys in other versions of DuckDB.
        if any(isinstance(x, str) and _PACKED.search(x) for x in node.values()):
            return True
    return False


def words_of(sql: str) -> list[str]:
    """Return the words and signs of an SQL text, comments among them.

    >>> words_of("day > 3")
    ['day', '>', '3']
    """
    return [word for word, _ in _tokens(sql)]


def _tokens(sql: str) -> Iterator[tuple[str, int]]:
    """Yield the words and signs of an SQL text, and the byte at which each ends."""
    import duckdb

    data = sql.encode()
    starts = [at for at, _ in duckdb.tokenize(sql)]
    for at, end in zip(starts, [*starts[1:], len(data)], strict=True):
        yield data[at:end].decode().strip(), end


def _called(nodes: Sequence[Node]) -> set[str]:
    """Return the functions that are called, without those that read files."""
    found = set()
    for node in nodes:
        if "function_name" in node and not node.get("is_operator"):
            name = node["function_name"].casefold()
            if not name.startswith("read_"):
                found.add(name)
    return found


def _words(nodes: Sequence[Node]) -> set[str]:
    """Return called functions and plain column names, as which current_date is parsed."""
    found = _called(nodes)
    for node in nodes:
        names = node.get("column_names", ())
        if len(names) == 1:
            found.add(names[0].casefold())
    return found


def _nodes(sql: str, cursor: Any, own: bool) -> Iterator[Node]:
    """Yield the nodes of the syntax tree of a query, and of the views and macros that it uses."""
    known = {} if own else _definitions(cursor)
    waiting = [sql]
    while waiting:
        found = list(_tree(waiting.pop(), cursor))
        yield from found
        tables = {x["table_name"].casefold() for x in found if "table_name" in x}
        for name in _called(found) | tables:
            waiting += known.pop(name, ())


def _tree(sql: str, cursor: Any) -> Iterator[Node]:
    """Yield the nodes of DuckDB's syntax tree of one query."""
    answer = cursor.execute("select json_serialize_sql(?)", [sql]).fetchall()[0][0]
    parsed = json.loads(answer)
    if parsed["error"]:
        # PIVOT and some other statements have no tree: words that look like calls stand in.
        for name in re.findall(r'(\w+)"?\s*\(', sql):
            yield {"function_name": name}
        for sample in re.findall(r"\b(?:using\s+sample|tablesample)\b", sql, re.IGNORECASE):
            yield {"sample_size": sample}
        return
    waiting: list[Any] = [parsed["statements"]]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _definitions(cursor: Any) -> dict[str, list[str]]:
    """Return the queries behind the views and macros of a connection, by name."""
    made: dict[str, list[str]] = {}
    macros = (
        "select function_name, function_type, macro_definition from "
        "duckdb_functions() where not internal"
    )
    for name, kind, text in cursor.execute(macros).fetchall():
        if text is not None:
            query = text if kind == "table_macro" else f"select {text}"
            made.setdefault(name.casefold(), []).append(query)
    views = "select view_name, sql from duckdb_views() where not internal and sql is not null"
    for name, text in cursor.execute(views).fetchall():
        made.setdefault(name.casefold(), []).append(_query_of(text))
    return made


def _query_of(view: str) -> str:
    """Return the query of a CREATE VIEW statement: what follows the first AS."""
    for word, end in _tokens(view):
        if word.lower() == "as":
            return view.encode()[end:].decode()
    return view


@cache
def _built_in() -> frozenset[str]:
    import duckdb

    with duckdb.connect() as connection:
        return _volatile(connection)


def _volatile(cursor: Any) -> frozenset[str]:
    """Return the functions that DuckDB calls volatile."""
    rows = cursor.execute(
        "select distinct function_name from duckdb_functions() where stability = 'VOLATILE'"
    )
    return frozenset(x.casefold() for (x,) in rows.fetchall())
