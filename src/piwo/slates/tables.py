"""Write slate logs to files of any ending: Parquet and JSON lines as tables, and dsjson."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.formats.rows import Written, require_path
from piwo.formats.tables import write_tables
from piwo.messages import argument
from piwo.slates.log import SlateLog
from piwo.slates.policies import FromColumns
from piwo.slates.writing import rows_of, write_dsjson
from piwo.sources.clusters import Cluster
from piwo.sources.paths import kind_of_name
from piwo.visible import visible

__all__ = ["write_log"]

_MOST_NAMED = 8
"""Columns without a role that are named."""


def write_log(log: SlateLog, path: str | Path) -> Written:
    """Write the columns of a slate log that have a role to a file, completely or not at all.

    The ending says how: .parquet, or .jsonl, as tables with list columns, which `slates.read` takes
    with the same names; .dsjson as `slates.write_dsjson`; all but Parquet also with .gz behind it.
    Rows are validated as they are written, batch by batch, and are never all in memory. Columns
    keep their values, and in Parquet their types. With it, logs of Vowpal Wabbit become tables.

    Args:
        log: of `slates.read`, `slates.read_dsjson` or `slates.read_vw`.
        path: the file, replaced in one step.

    Returns:
        A `Written`: how many rows, and what the file does not hold, such as columns without a role.

    Raises:
        UsageError: for other endings, for rows in a cluster, for a logger that is an object
            (`behavior=`) if the file is a table, and for what `slates.write_dsjson` refuses.
        DataError: for rows that break a rule.
        FileError: if the file cannot be written.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["b", "a"]], "rs": [[1, 0]], "ps": [[0.5, 1.0]], "x": [3], "y": [4]},
    ...     rewards="rs",
    ...     propensities="ps",
    ...     context="x",
    ... )
    >>> print(write_log(log, "log.jsonl"))
    wrote 1 rows to log.jsonl; left out: column 'y' (no role)
    >>> print(Path("log.jsonl").read_text().strip())
    {"slate": ["b", "a"], "rs": [1, 0], "x": 3, "ps": [0.5, 1.0]}
    """
    path = require_path(path)
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    kind = kind_of_name(path)
    if kind == "dsjson":
        return write_dsjson(log, path)
    if kind not in {"parquet", "json"}:
        raise UsageError(
            f"{visible(path)!r} is {kind}, which slates are not written to; expected .parquet, "
            ".jsonl or .dsjson"
        )
    if isinstance(log.source, Cluster):
        raise UsageError(
            f"writing a table takes the rows of {log.name} on one machine, and they are in a "
            "cluster; let the cluster write Parquet"
        )
    if not isinstance(log.logger, FromColumns):
        raise UsageError(
            f"the propensities of {log.name} are computed by {argument('behavior')}, and a table "
            "would not hold them; write dsjson, or a column of propensities"
        )
    names = tuple(dict.fromkeys([*log.columns.used(), *log.logger.numbers]))
    rows = write_tables(_tables(log, names), path)
    left_out = [f"column {x!r} (no role)" for x in log.source.schema.names if x not in names]
    if len(left_out) > _MOST_NAMED:
        more = len(left_out) - _MOST_NAMED + 1
        left_out = [*left_out[: _MOST_NAMED - 1], f"{more} more columns without a role"]
    if log.alpha is not None:
        left_out.append("the position weights")
    return Written(path, rows, tuple(left_out))


def _tables(log: SlateLog, names: tuple[str, ...]) -> Iterator[pa.Table]:
    """Yield the validated rows as they were read, a batch at a time.

    Args:
        log: the log.
        names: the columns to keep.
    """
    reader = replace(log.reader(context=True), by_unit=False, carried=names)
    for rows in rows_of(log, reader):
        assert rows.context is not None
        yield pa.table([rows.context[name] for name in names], names=list(names))
