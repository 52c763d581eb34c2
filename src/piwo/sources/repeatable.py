"""Whether a query gives the same rows at every pass: chance is refused, and clocks stand still.

A log is read several times, and what is held out goes by row numbers. A condition such as random()
< 0.9 picks other rows each time: those that were held out would be learned from, and noise would be
certified.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from piwo.errors import UsageError

__all__ = ["chance", "refuse_chance", "stopped_clocks"]

_HARMLESS = frozenset({"error"})
"""Functions that DuckDB calls volatile, and that choose no rows."""
_WRITTEN_AS = {
    "current_timestamp": "get_current_timestamp",
    "current_time": "get_current_time",
    "localtime": "current_localtime",
    "localtimestamp": "current_localtimestamp",
}
"""SQL's words for the time -> DuckDB's functions."""
_CLOCKS = {
    "now": "TIMESTAMPTZ", "transaction_timestamp": "TIMESTAMPTZ", "get_current_timestamp": "TIMESTAMPTZ",
    "today": "DATE", "current_date": "DATE", "get_current_time": "TIMETZ",
    "current_localtime": "TIME", "current_localtimestamp": "TIMESTAMP",
}  # fmt: skip
"""Functions that tell the time, and its type."""

Node = dict[str, Any]


def refuse_chance(sql: str, name: str, cursor: Any, own: bool) -> None:
    """Raise where a query may give other rows at each pass: random() and its kin, samples without a seed.

    Which functions are so, DuckDB knows itself. Views and macros are looked into.

    Args:
        sql: the query.
        name: of the log, for the message.
        cursor: of a DuckDB connection that knows what the query names.
        own: whether the connection has nothing but DuckDB's own functions.

    Raises:
        UsageError: naming what it is, and what to do.

    >>> import duckdb
    >>> refuse_chance(
    ...     "select range as x from range(9) where random() < 0.9",
    ...     "the query",
    ...     duckdb.connect(),
    ...     own=True,
    ... )
    Traceback (most recent call last):
    piwo.errors.UsageError: random() in the query gives other rows at every pass, and a log is read several times; ...
    """
    nodes = list(_nodes(sql, cursor, own))
    called = _called(nodes)
    volatile = called & (_built_in() if own else _volatile(cursor)) if called else called
    what = next((f"{x}()" for x in sorted(volatile - _HARMLESS)), None)
    if what is None and any("sample_size" in x and x.get("seed", -1) in (-1, None) for x in nodes):
        what = "a sample without a seed"
    if what is not None:
        raise UsageError(chance(what, name))


def chance(what: str, name: str, instead: str = "hash(id) % 10 < 9") -> str:
    """Return what to say of chance in a query; `instead` is a condition that goes by the rows.

    >>> chance("random()", "the query")
    'random() in the query gives other rows at every pass, and a log is read several times; choose rows by ...'
    """
    return (
        f"{what} in {name} gives other rows at every pass, and a log is read several times; choose "
        f"rows by what is in them, such as {instead}, or write the rows to a file once and read "
        "that"
    )


def stopped_clocks(sql: str, cursor: Any, own: bool, setup: Sequence[str] = ()) -> tuple[str, ...]:
    """Return statements after which the clocks that a query looks at tell, at every pass, the time of this call.

    Args:
        sql: the query.
        cursor: of a DuckDB connection that knows what the query names.
        own: whether the connection has nothing but DuckDB's own functions.
        setup: statements that were run already; clocks that stand still by them are left out.

    >>> import duckdb
    >>> stopped_clocks("select 1 where current_date > '2026-01-01'", duckdb.connect(), own=True)
    ("create or replace temp macro current_date() as cast('...' as DATE)",)
    """
    words = _words(list(_nodes(sql, cursor, own)))
    named = {_WRITTEN_AS.get(x, x) for x in words}
    running = [x for x in _CLOCKS if x in named and not any(f" macro {x}() " in y for y in setup)]
    if not running:
        return ()
    times = cursor.execute(
        f"select {', '.join(f'cast({x}() as varchar)' for x in running)}"
    ).fetchall()[0]
    return tuple(
        f"create or replace temp macro {x}() as cast('{time}' as {_CLOCKS[x]})"
        for x, time in zip(running, times, strict=True)
    )


def _called(nodes: Sequence[Node]) -> set[str]:
    """Return the functions that are called, without those that read files."""
    found = {
        x["function_name"].casefold()
        for x in nodes
        if "function_name" in x and not x.get("is_operator")
    }
    return {x for x in found if not x.startswith("read_")}


def _words(nodes: Sequence[Node]) -> set[str]:
    """Return the functions that are called, and the plain names of columns: current_date is written as one."""
    columns = (x["column_names"] for x in nodes if "column_names" in x)
    return _called(nodes) | {x[0].casefold() for x in columns if len(x) == 1}


def _nodes(sql: str, cursor: Any, own: bool) -> Iterator[Node]:
    """Yield the nodes of the syntax tree of a query, and of the views and macros that it uses."""
    known = {} if own else _definitions(cursor)
    waiting = [sql]
    while waiting:
        found = list(_tree(waiting.pop(), cursor))
        yield from found
        names = _called(found) | {x["table_name"].casefold() for x in found if "table_name" in x}
        waiting += [text for name in names for text in known.pop(name, ())]


def _tree(sql: str, cursor: Any) -> Iterator[Node]:
    told = json.loads(cursor.execute("select json_serialize_sql(?)", [sql]).fetchall()[0][0])
    if told["error"]:  # PIVOT and its kin have no tree
        yield from ({"function_name": x} for x in re.findall(r'(\w+)"?\s*\(', sql))
        yield from (
            {"sample_size": x}
            for x in re.findall(r"\b(?:using\s+sample|tablesample)\b", sql, re.IGNORECASE)
        )
        return
    waiting: list[Any] = [told["statements"]]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
        waiting += (
            part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        )


def _definitions(cursor: Any) -> dict[str, list[str]]:
    """Return the queries behind the views and macros that were made, by name."""
    macros = "select function_name, function_type, macro_definition from duckdb_functions() where not internal"
    made: dict[str, list[str]] = {}
    for name, kind, text in cursor.execute(macros).fetchall():
        if text is not None:
            made.setdefault(name.casefold(), []).append(
                text if kind == "table_macro" else f"select {text}"
            )
    views = "select view_name, sql from duckdb_views() where not internal and sql is not null"
    for name, text in cursor.execute(views).fetchall():
        made.setdefault(name.casefold(), []).append(_query_of(text))
    return made


def _query_of(view: str) -> str:
    """Return the query of a CREATE VIEW statement."""
    import duckdb

    data = view.encode()
    starts = [at for at, _ in duckdb.tokenize(view)]
    ends = [*starts[1:], len(data)]
    begin = next(
        (
            end
            for at, end in zip(starts, ends, strict=True)
            if data[at:end].strip().lower() == b"as"
        ),
        0,
    )
    return data[begin:].decode()


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
