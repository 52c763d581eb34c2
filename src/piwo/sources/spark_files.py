"""Spark DataFrames that are Parquet files and nothing else: executors read these themselves, past the JVM.

Spark turns rows into Arrow one by one and pipes them to Python, which takes some ten times as long
as reading the columns. Where no step stands between the files and the frame, its rows are what the
files hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from piwo.errors import FileError
from piwo.sources.row_labels import first_of
from piwo.sources.source import ParquetFragment
from piwo.sources.spark_footers import footers
from piwo.sources.spark_plans import scan_of

__all__ = ["ParquetFiles", "RowGroups"]

_ROWS_A_TASK = 2**23
"""About as many: after each task Spark's Python collects garbage, which takes as long as reading
two million rows."""


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
        size: of the file in bytes, as it was when its row groups were counted.
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
            OSError: where the file cannot be read, or is another one by now: its row groups would
                be a part of it.
        """
        if (size := Path(self.path).stat().st_size) != self.size:
            raise OSError(
                f"{self.path!r} had {self.size} bytes when the log was first read and has {size} "
                "now; read when nothing writes there"
            )
        names = tuple(self.schema.names)
        try:
            for record in ParquetFragment(self.path, self.groups, names, self.start).records():
                yield record.select(names).cast(self.schema)
        except (
            FileError
        ) as cause:  # not of the data: the cluster tries again, perhaps where the disk is well
            raise OSError(str(cause)) from None


@dataclass(frozen=True)
class ParquetFiles:
    """The files of a frame that is Parquet files; of any other frame none.

    Args:
        files: in the order of their addresses.
        schema: the columns that every file has as the frame has them.
        cores: at work at the same time.
    """

    files: tuple[File, ...]
    schema: pa.Schema
    cores: int

    @classmethod
    def of(cls, frame: Any, schema: pa.Schema) -> ParquetFiles:
        """Return what executors see of the files, by a job that looks at their ends.

        Args:
            frame: a `pyspark.sql.DataFrame`.
            schema: its columns.
        """
        scan = scan_of(frame)
        if scan is None or not scan.paths:
            return cls((), pa.schema([]), 1)
        session, count = frame.sparkSession, len(scan.paths)
        cores = session.sparkContext.defaultParallelism
        looked = session.range(0, count, 1, min(count, cores)).mapInArrow(
            partial(footers, scan.paths, schema), "number long, footer string"
        )
        found = [
            json.loads(x["footer"]) for x in sorted(looked.collect(), key=lambda x: x["number"])
        ]
        elsewhere = set().union(*(lacking for *_, lacking in found))
        own = [
            x for x in schema if x.name not in elsewhere and x.name.casefold() not in scan.folders
        ]
        files = (
            File(path, size, tuple(rows))
            for path, (size, rows, _) in zip(scan.paths, found, strict=True)
        )
        return cls(tuple(files), pa.schema([pa.field(x.name, x.type) for x in own]), cores)

    def tasks(self, columns: Sequence[str]) -> list[list[RowGroups]]:
        """Return what each task reads: as many tasks for each core, of some eight million rows or fewer.

        Args:
            columns: to read; where one of them is not in all files, nothing is read.

        >>> files = (File("a", 99, (10, 10)), File("b", 99, (10,)))
        >>> parquet = ParquetFiles(files, pa.schema([("x", pa.int64())]), cores=3)
        >>> [[(part.path, part.groups) for part in task] for task in parquet.tasks(["x"])]
        [[('a', (0,))], [('a', (1,))], [('b', (0,))]]
        """
        if not columns or not set(columns) <= set(self.schema.names):
            return []
        schema = pa.schema([self.schema.field(x) for x in columns])
        total, before = sum(sum(x.rows) for x in self.files), 0
        count = self.cores * max(1, -(-total // (self.cores * _ROWS_A_TASK)))
        tasks: dict[int, dict[int, list[int]]] = {}
        for number, file in enumerate(self.files):
            for group, rows in enumerate(file.rows):
                if rows:
                    tasks.setdefault(before * count // total, {}).setdefault(number, []).append(
                        group
                    )
                    before += rows
        return [
            [self._part(number, groups, schema) for number, groups in task.items()]
            for task in tasks.values()
        ]

    def _part(self, number: int, groups: Sequence[int], schema: pa.Schema) -> RowGroups:
        path, size, rows = self.files[number]
        return RowGroups(
            path, size, tuple(groups), first_of(number) + sum(rows[: groups[0]]), schema
        )
