"""Spark DataFrames that are Parquet files and nothing else: executors read the files themselves.

Spark turns rows into Arrow one by one and pipes them to Python, which takes some ten times as long
as reading the columns. If no step lies between the files and the frame, its rows are the files'.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from piwo.errors import FileError
from piwo.sources.parquet import ParquetFragment
from piwo.sources.row_labels import first_of

__all__ = ["ParquetFiles", "RowGroups"]

_ROWS_A_TASK = 2**23
"""Tasks read about so many rows: after each task Spark's Python collects garbage, which takes as
long as reading two million rows."""


class File(NamedTuple):
    """A Parquet file: path, size in bytes, and rows of each row group."""

    path: str
    size: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class RowGroups:
    """Fragment: row groups of a file, with columns of the types that the frame has.

    Args:
        path: of the file.
        size: of the file in bytes when its row groups were counted.
        groups: their numbers in it.
        start: row number of their first row; files count as partitions.
        schema: the columns.
    """

    path: str
    size: int
    groups: tuple[int, ...]
    start: int
    schema: pa.Schema

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches.

        Raises:
            OSError: if the file cannot be read, or has been replaced: its row groups would be
                others.
        """
        size = Path(self.path).stat().st_size
        if size != self.size:
            raise OSError(
                f"{self.path!r} had {self.size} bytes when the log was first read and "
                f"has {size} now; read while nothing writes there"
            )
        names = tuple(self.schema.names)
        try:
            for record in ParquetFragment(self.path, self.groups, names, self.start).records():
                yield record.select(names).cast(self.schema)
        except FileError as cause:
            # Not an error of the data: the cluster tries again, perhaps on a machine that can read.
            raise OSError(str(cause)) from None


@dataclass(frozen=True)
class ParquetFiles:
    """The files of a frame that is Parquet files; of any other frame none.

    Args:
        files: in the order of their addresses.
        schema: the columns that every file has as the frame has them.
        cores: that work at the same time.
    """

    files: tuple[File, ...]
    schema: pa.Schema
    cores: int

    @classmethod
    def of(cls, frame: Any, schema: pa.Schema) -> ParquetFiles:
        """Return the files as executors see them, by a job that reads their footers.

        Args:
            frame: a `pyspark.sql.DataFrame`.
            schema: its columns.
        """
        scan = scan_of(frame)
        if scan is None or not scan[0]:
            return cls((), pa.schema([]), 1)
        paths, folders = scan
        session, count = frame.sparkSession, len(paths)
        cores = session.sparkContext.defaultParallelism
        job = session.range(0, count, 1, min(count, cores)).mapInArrow(
            partial(_footers, paths, schema), "number long, footer string"
        )
        files: list[File] = []
        elsewhere: set[str] = set()
        for row in sorted(job.collect(), key=lambda x: x["number"]):
            size, rows, lacking = json.loads(row["footer"])
            files.append(File(paths[row["number"]], size, tuple(rows)))
            elsewhere.update(lacking)
        own = []
        for field in schema:
            name = field.name
            if name not in elsewhere and name.casefold() not in folders:
                own.append(pa.field(name, field.type))
        return cls(tuple(files), pa.schema(own), cores)

    def tasks(self, columns: Sequence[str]) -> list[list[RowGroups]]:
        """Return what each task reads: at most some eight million rows, equally many tasks a core.

        Args:
            columns: to read; if one of them is not in all files, nothing is read.

        >>> files = (File("a", 99, (10, 10)), File("b", 99, (10,)))
        >>> parquet = ParquetFiles(files, pa.schema([("x", pa.int64())]), cores=3)
        >>> [[(part.path, part.groups) for part in task] for task in parquet.tasks(["x"])]
        [[('a', (0,))], [('a', (1,))], [('b', (0,))]]
        """
        if not columns or not set(columns) <= set(self.schema.names):
            return []
        schema = pa.schema([self.schema.field(x) for x in columns])
        total = 0
        for file in self.files:
            total += sum(file.rows)
        # As many tasks for each core, so that none of them waits for the others.
        count = self.cores * max(1, -(-total // (self.cores * _ROWS_A_TASK)))
        # Task -> file -> its row groups, as many rows in each task.
        tasks: dict[int, dict[int, list[int]]] = {}
        before = 0
        for number, file in enumerate(self.files):
            for group, rows in enumerate(file.rows):
                if rows:
                    task = tasks.setdefault(before * count // total, {})
                    task.setdefault(number, []).append(group)
                    before += rows
        return [self._parts(task, schema) for task in tasks.values()]

    def _parts(self, task: Mapping[int, list[int]], schema: pa.Schema) -> list[RowGroups]:
        parts = []
        for number, groups in task.items():
            path, size, rows = self.files[number]
            start = first_of(number) + sum(rows[: groups[0]])
            parts.append(RowGroups(path, size, tuple(groups), start, schema))
        return parts


# --- the plan of a frame: whether it is Parquet files, as they are

_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_COLUMN = "org.apache.spark.sql.catalyst.expressions.AttributeReference"
_SOURCES = "org.apache.spark.sql.execution.datasources."
_LISTED = {_SOURCES + "InMemoryFileIndex", _SOURCES + "CatalogFileIndex"}
_USUAL_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "corrected",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
"""Settings, and the value with which Spark reads files as they are."""
_FRAME_OPTIONS = ("ignoreCorruptFiles", "ignoreMissingFiles", "datetimeRebaseMode")
"""The same settings as options of one frame."""


def scan_of(frame: Any) -> tuple[tuple[str, ...], frozenset[str]] | None:
    """Return the Parquet files whose rows are those of a frame; None if there are no such files.

    Args:
        frame: a `pyspark.sql.DataFrame`.

    Returns:
        The paths of all files in the order of their addresses, and, in lower case, the columns that
        the names of folders hold.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError

    if not hasattr(frame.sparkSession, "sparkContext"):  # a remote session shows no plans
        return None
    try:
        relation = _relation(frame)
        if relation is None or not _as_they_are(frame.sparkSession, relation.options()):
            return None
        files = sorted(relation.location().inputFiles())
        folders = relation.partitionSchema().fieldNames()
    except Py4JNetworkError:
        raise
    except Py4JError:  # a cluster that keeps Python from the JVM shows none either
        return None
    if len(set(files)) < len(files):
        return None
    paths = []
    for address in files:
        place = urlsplit(address)
        if (place.scheme, place.netloc) != ("file", ""):
            return None
        paths.append(unquote(place.path))
    # Spark takes names in any case.
    return tuple(paths), frozenset(map(str.casefold, folders))


def _relation(frame: Any) -> Any:
    """Return the one scan of Parquet files that a frame is, of all or some columns; else None."""
    # A plan made now: that of the frame itself may be older than its cache.
    selected = frame.select("*")._jdf  # noqa: SLF001 (no other way to a plan)
    plan = selected.queryExecution().optimizedPlan()
    if _kind(plan) == _PROJECT:
        columns = plan.projectList()
        if not all(_kind(columns.apply(i)) == _COLUMN for i in range(columns.size())):
            return None
        plan = plan.child()
    # Exactly these classes: those derived from them leave rows out, or read by other rules.
    if _kind(plan) != _SOURCES + "LogicalRelation":
        return None
    relation = plan.relation()
    if _kind(relation) != _SOURCES + "HadoopFsRelation":
        return None
    if _kind(relation.fileFormat()) != _SOURCES + "parquet.ParquetFileFormat":
        return None
    if _kind(relation.location()) not in _LISTED:
        return None
    return relation


def _as_they_are(session: Any, options: Any) -> bool:
    """Whether Spark reads all that files hold: columns by name, days by the present calendar."""
    for name, usual in _USUAL_SETTINGS.items():
        if session.conf.get(name, usual).casefold() != usual:
            return False
    return not any(options.contains(x) for x in _FRAME_OPTIONS)


def _kind(java: Any) -> str:
    return str(java.getClass().getName())


# --- the footers of files, read on executors

_DAYS = re.compile("date|timestamp")


def _footers(
    paths: Sequence[str], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the facts in the footers of files."""
    for batch in batches:
        found = [json.dumps(_footer(paths[i], schema)) for i in batch["id"].to_pylist()]
        yield pa.record_batch({"number": batch["id"], "footer": pa.array(found, pa.string())})


def _footer(path: str, schema: pa.Schema) -> tuple[int, list[int], list[str]]:
    """Return bytes, rows of each row group, and the columns not stored as the frame has them."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=True) as file:  # opened as when it will be read
            metadata = file.metadata
        size = Path(path).stat().st_size
    except (OSError, pa.ArrowException):
        # Spark may still read it, or will say why not.
        return 0, [], schema.names
    written, facts = metadata.schema.to_arrow_schema(), metadata.metadata or {}
    # Days before 1582 were once written in the calendar of their time.
    old_days = (
        b"org.apache.spark.legacyDateTime" in facts
        or facts.get(b"org.apache.spark.version", b"3") < b"3"
    )
    cases = Counter(map(str.casefold, written.names))

    def is_same(field: pa.Field) -> bool:
        if field.name not in written.names or cases[field.name.casefold()] > 1:
            return False
        if old_days and _DAYS.search(str(field.type)):
            return False
        return bool(_in_spark(written.field(field.name).type) == _in_spark(field.type))

    lacking = [x.name for x in schema if not is_same(x)]
    rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return size, rows, lacking


def _in_spark(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark has for the same values."""
    if pa.types.is_dictionary(kind):
        return _in_spark(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_in_spark(kind.value_type))
    return kind
