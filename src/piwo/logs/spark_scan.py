"""Spark DataFrames that are Parquet files and nothing else: executors read these themselves, past the JVM.

Spark turns rows into Arrow one by one and pipes them to Python, which takes some twenty times as long as reading the
columns. Where no step stands between the files and the frame, its rows are what the files hold.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from piwo.errors import FileError
from piwo.logs.places import first_of
from piwo.logs.sources import ParquetFragment

__all__ = ["FileRows", "Files"]

_SOURCES = "org.apache.spark.sql.execution.datasources."
_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_USUAL = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "corrected",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
"""Settings, and the value with which Spark reads files as they stand."""
_UNUSUAL = ("ignoreCorruptFiles", "ignoreMissingFiles", "datetimeRebaseMode")
"""The same settings as options of one frame."""
_DAYS = re.compile("date|timestamp")
_ROWS_A_TASK = 2**22
"""About as many: after each task Spark's Python collects garbage, which takes as long as reading a million rows."""


@dataclass(frozen=True)
class FileRows:
    """Fragment: row groups of a file, with columns of the types that the frame has.

    Args:
        path: of the file.
        size: of the file in bytes, as it was when its row groups were counted.
        groups: their numbers in it.
        start: row number of their first row; files count as partitions, in the order of their names.
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
            OSError: where the file cannot be read, or is another one by now: its row groups would be a part of it.
        """
        if (size := Path(self.path).stat().st_size) != self.size:
            raise OSError(
                f"{self.path!r} had {self.size} bytes when the log was first read and has {size} now; "
                "read when nothing writes there"
            )
        names = tuple(self.schema.names)
        try:
            for record in ParquetFragment(self.path, self.groups, names, self.start).records():
                yield record.select(names).cast(self.schema)
        except FileError as cause:  # not of the data: the cluster tries again, perhaps where the disk is well
            raise OSError(str(cause)) from None


@dataclass(frozen=True)
class Files:
    """The files of a frame that is Parquet files.

    Args:
        files: path, size in bytes and rows of each row group.
        schema: the columns that every file has as the frame has them.
    """

    files: tuple[tuple[str, int, tuple[int, ...]], ...]
    schema: pa.Schema

    @classmethod
    def of(cls, frame: Any, schema: pa.Schema) -> Files:
        """Return what executors see of the files; without columns where the frame is anything else.

        Args:
            frame: a `pyspark.sql.DataFrame`.
            schema: its columns.
        """
        paths, elsewhere = _paths(frame)
        if not paths:
            return cls((), pa.schema([]))
        session = frame.sparkSession
        tasks = min(len(paths), session.sparkContext.defaultParallelism)
        asked = session.range(0, len(paths), 1, tasks).mapInArrow(partial(_seen, paths, schema), "found string")
        found = sorted(json.loads(x["found"]) for x in asked.collect())
        names = set(schema.names).intersection(*(held for *_, held in found))
        own = [x for x in schema if x.name in names and x.name.casefold() not in elsewhere]
        columns = pa.schema([pa.field(x.name, x.type) for x in own])
        return cls(tuple((path, size, tuple(rows)) for path, size, rows, _ in found), columns)

    def tasks(self, columns: Sequence[str], cores: int) -> list[list[FileRows]]:
        """Return what each task reads: some millions of rows, and as much for each core.

        >>> files = Files((("a", 99, (10, 10)), ("b", 99, (10,))), pa.schema([("x", pa.int64())]))
        >>> [[(part.path, part.groups) for part in task] for task in files.tasks(["x"], cores=3)]
        [[('a', (0,))], [('a', (1,))], [('b', (0,))]]
        >>> [[(part.path, part.groups) for part in task] for task in files.tasks(["x"], cores=1)]
        [[('a', (0, 1)), ('b', (0,))]]
        """
        total = sum(sum(rows) for *_, rows in self.files)
        count = cores * max(1, round(total / (cores * _ROWS_A_TASK)))
        made: dict[int, dict[int, list[int]]] = {}
        before = 0
        for file, (*_, rows) in enumerate(self.files):
            for group, held in enumerate(rows):
                if held:
                    made.setdefault(before * count // total, {}).setdefault(file, []).append(group)
                    before += held
        schema = pa.schema([self.schema.field(x) for x in columns])
        return [[self._part(file, groups, schema) for file, groups in task.items()] for task in made.values()]

    def _part(self, file: int, groups: Sequence[int], schema: pa.Schema) -> FileRows:
        path, size, rows = self.files[file]
        return FileRows(path, size, tuple(groups), first_of(file) + sum(rows[: groups[0]]), schema)


def _paths(frame: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the files whose rows a frame is, and its columns that folders name; no files where it is anything else."""
    made = _relation(frame)
    if made is None or not _as_it_stands(frame.sparkSession, made.options()):
        return (), frozenset()
    listed = list(made.location().inputFiles())  # a file that is named twice is there twice, and read twice
    places = [urlsplit(x) for x in listed]
    if len(set(listed)) < len(listed) or any((x.scheme, x.netloc) != ("file", "") for x in places):
        return (), frozenset()
    folders = frozenset(x.casefold() for x in made.partitionSchema().fieldNames())  # select() takes names in any case
    return tuple(sorted(unquote(x.path) for x in places)), folders


def _as_it_stands(session: Any, options: Any) -> bool:
    """Tell whether Spark is to read what files hold: all of it, columns by name, days by our calendar."""
    usual = all(session.conf.get(name, value).casefold() == value for name, value in _USUAL.items())
    return usual and not any(options.contains(x) for x in _UNUSUAL)


def _relation(frame: Any) -> Any:
    """Return the one scan of Parquet files that a frame is, of all columns or some; None where it is anything else."""
    if not hasattr(frame.sparkSession, "sparkContext"):  # a remote session shows no plans
        return None
    # a plan made now: that of the frame itself may be older than its cache
    plan = frame.select("*")._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 (plans have no other door)
    if _kind(plan) == _PROJECT:
        listed = plan.projectList()
        if not all(_kind(listed.apply(i)).endswith(".AttributeReference") for i in range(listed.size())):
            return None
        plan = plan.child()
    # these classes themselves: those that derive from them leave rows out, or read by other rules
    if _kind(plan) != _SOURCES + "LogicalRelation" or _kind(plan.relation()) != _SOURCES + "HadoopFsRelation":
        return None
    made = plan.relation()
    as_written = (_kind(made.fileFormat()), _kind(made.location()))
    return made if as_written == (_SOURCES + "parquet.ParquetFileFormat", _SOURCES + "InMemoryFileIndex") else None


def _kind(java: Any) -> str:
    return str(java.getClass().getName())


def _seen(paths: Sequence[str], schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield path, size, rows of each row group and columns of files, on an executor."""
    for batch in batches:
        found = [(paths[i], *_look_at(paths[i], schema)) for i in batch["id"].to_pylist()]
        yield pa.record_batch({"found": pa.array(map(json.dumps, found), pa.string())})


def _look_at(path: str, schema: pa.Schema) -> tuple[int, list[int], list[str]]:
    import pyarrow.parquet as pq

    try:
        size = Path(path).stat().st_size
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException):  # Spark has ways of its own, and words
        return 0, [], []
    held = metadata.schema.to_arrow_schema()
    whatever_case = Counter(x.casefold() for x in held.names)
    once = [x for x in schema if x.name in held.names and whatever_case[x.name.casefold()] == 1]
    same = [x for x in once if _plain(held.field(x.name).type) == x.type]
    names = [x.name for x in same if not (_old_calendar(metadata.metadata or {}) and _DAYS.search(str(x.type)))]
    return size, [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)], names


def _old_calendar(told: Mapping[bytes, bytes]) -> bool:
    """Tell whether Spark wrote a file with days before 1582 as they were called then."""
    version = told.get(b"org.apache.spark.version")
    return b"org.apache.spark.legacyDateTime" in told or (version is not None and version < b"3")


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values in Spark."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.list_(_plain(kind.value_type)) if pa.types.is_large_list(kind) else kind
