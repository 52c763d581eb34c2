"""Write logs as tables: Parquet, CSV, JSON lines; and `write_log`, which takes any ending."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.files import writing
from piwo.formats.rows import (
    Written,
    require_fixed_actions,
    require_path,
    require_writable,
    rows_of,
    written_lines,
)
from piwo.formats.vowpal_wabbit import write_dsjson, write_vw
from piwo.logs.findings import Findings
from piwo.logs.items import has_items
from piwo.logs.log import Log
from piwo.logs.numbers import numbers_of
from piwo.messages import argument
from piwo.sources.paths import kind_of_name
from piwo.sources.source import BATCH_ROWS, type_family
from piwo.visible import visible

__all__ = ["write_log", "write_tables"]

_NESTED = {"list", "map", "struct"}


def write_log(log: Log, path: str | Path) -> Written:
    """Write the columns of a log that have a role to a file, completely or not at all.

    The ending says how: .parquet, .csv, .tsv, .jsonl, .dsjson or .vw, all but Parquet also with .gz
    behind it. Rows are validated as they are written, batch by batch, and are never all in memory.
    In tables the columns keep their names and values; numbers that a text file held are numbers,
    and rewards are as logged, without action costs. A .vw file has a line a decision, or, with
    eligible actions, a line an action. Parquet keeps types, too. CSV has none, so that
    a column of texts that all look like numbers, dates or true and false is read as these; in JSON
    lines times are texts and decimals float64.

    Args:
        log: the log.
        path: the file, replaced in one step.

    Returns:
        A `Written`: how many rows, and what the file does not hold, such as columns without a role.

    Raises:
        UsageError: for unknown endings, and for what a format cannot hold at all: lists or empty
            texts and eligible actions in CSV, sampling weights in .vw, one propensity a row in
            .dsjson; and for propensities that are computed, estimated or have an error.
        DataError: for rows that break a rule, with counts over the whole log.
        FileError: if the file cannot be written.

    >>> import piwo
    >>> log = piwo.read(
    ...     {"action": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5], "x": [3, 4]},
    ...     context="x",
    ... )
    >>> print(write_log(log, "log.jsonl"))
    wrote 2 rows to log.jsonl
    >>> print(Path("log.jsonl").read_text().splitlines()[0])
    {"action": "a", "reward": 0, "propensity": 0.5, "x": 3}
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    path = require_path(path)
    kind = kind_of_name(path)
    if kind == "vw":
        return write_vw(log, path, kind="cb" if log.columns.eligible is None else "cb_adf")
    if kind == "dsjson":
        return write_dsjson(log, path)
    require_writable(log, "a table")
    if kind == "csv":
        require_fixed_actions(log, "CSV")
    if log.behavior is not None:
        raise UsageError(
            f"the propensities of {log.name} are computed by {argument('behavior')}, and a table "
            "would not hold them; write dsjson, or a column of propensities"
        )
    rows = write_tables(_tables(log), path)
    known = log.columns.used()
    left_out = [f"column {x!r} (no role)" for x in log.source.schema.names if x not in known]
    if log.action_costs is not None and log.columns.action_cost is None:
        left_out.append("the costs of actions")
    if has_items(log) and log.columns.item_features is None:
        left_out.append("the features of actions")
    if len(left_out) > 8:
        left_out = [*left_out[:7], f"{len(left_out) - 7} more columns without a role"]
    return Written(path, rows, tuple(left_out))


def write_tables(tables: Iterator[pa.Table], path: str) -> int:
    """Write tables with the same columns to one file, by its ending; return how many rows.

    Raises:
        UsageError: for an ending that is not that of a table.

    >>> write_tables(iter([pa.table({"x": [1, 2]})]), "some.parquet")
    2
    """
    kind = kind_of_name(path)
    if kind not in _WRITERS:
        raise UsageError(f"{visible(path)!r} is {kind}, expected .parquet, .csv, .tsv or .jsonl")
    return _WRITERS[kind](tables, path)


def _tables(log: Log) -> Iterator[pa.Table]:
    """Yield the rows as they are written, a batch at a time."""
    names = log.columns.used()
    columns = log.columns
    numbers = {*columns.numbers().values(), *columns.policies, *columns.outcomes}
    for record, _ in rows_of(log, names, context=log.has_context):
        arrays = []
        for name in names:
            values = record[name]
            if name in numbers and type_family(values.type) == "text":
                findings = Findings(np.arange(len(values)))
                values = pa.array(numbers_of(values, name, findings), pa.float64())
            arrays.append(values)
        yield pa.table(arrays, names=list(names))


def _write_parquet(tables: Iterator[pa.Table], path: str) -> int:
    """Write row groups of some hundreds of thousands of rows; return how many rows."""
    import pyarrow.parquet as pq

    rows = 0
    with writing(Path(path)) as out:
        writer = None
        held: list[pa.Table] = []
        try:
            for table in tables:
                rows += table.num_rows
                held.append(table)
                if writer is None:
                    writer = pq.ParquetWriter(out, table.schema, write_page_checksum=True)
                if sum(len(x) for x in held) >= 4 * BATCH_ROWS:
                    writer.write_table(pa.concat_tables(held))
                    held = []
            if writer is not None and held:
                writer.write_table(pa.concat_tables(held))
        finally:
            if writer is not None:
                writer.close()
    return rows


def _write_csv(tables: Iterator[pa.Table], path: str) -> int:
    from pyarrow import csv

    delimiter = ","
    if ".tsv" in map(str.lower, Path(path).suffixes[-2:]):
        delimiter = "\t"
    rows = 0
    with written_lines(path) as out:
        for table in tables:
            _require_flat(table, path)
            # Only the first lines have the names of columns before them.
            options = csv.WriteOptions(include_header=not rows, delimiter=delimiter)
            csv.write_csv(table, out, options)
            rows += table.num_rows
    return rows


def _require_flat(table: pa.Table, path: str) -> None:
    """Raise for what CSV cannot hold: lists, objects, and texts without characters."""
    for name in table.column_names:
        family = type_family(table.schema.field(name).type)
        found = None
        if family in _NESTED:
            found = "holds lists or objects, and {} is CSV, which holds one value a field"
        elif family == "text" and pc.any(pc.equal(pc.binary_length(table[name]), 0)).as_py():
            found = "holds empty texts, and {} is CSV, in which they are missing values"
        if found is not None:
            place = repr(visible(path))
            raise UsageError(f"column {name!r} {found.format(place)}; write .parquet or .jsonl")


def _write_json(tables: Iterator[pa.Table], path: str) -> int:
    rows = 0
    with written_lines(path) as out:
        for table in tables:
            rows += table.num_rows
            out.write("".join(map(_json_line, _objects(table))).encode())
    return rows


def _objects(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as objects; maps are objects, too."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for field in table.schema:
        if pa.types.is_map(field.type):
            for row in rows:
                # Arrow has them as lists of pairs.
                row[field.name] = dict(row[field.name])
    return rows


def _json_line(row: dict[str, Any]) -> str:
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # A few rows hold what JSON has not.
        text = json.dumps(_plain(row), ensure_ascii=False, allow_nan=False)
    return f"{text}\n"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN as null, times as text."""
    if isinstance(value, dict):
        return {name: _plain(x) for name, x in value.items()}
    if isinstance(value, list):
        return [_plain(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)


_WRITERS: dict[str, Callable[[Iterator[pa.Table], str], int]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "json": _write_json,
}
"""Type of a file -> what writes it and returns the number of rows."""
