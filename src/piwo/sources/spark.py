"""A Spark DataFrame as a source: executors turn partitions into Arrow batches and fold them.

If the frame is Parquet files and nothing else, executors read these themselves; the rest is the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import pyarrow as pa

from piwo.sources.clusters import Cluster, Merge, One, Partition
from piwo.sources.source import Fragment
from piwo.sources.spark_files import ParquetFiles, RowGroups
from piwo.sources.spark_session import canceled_by_interrupts, spark_errors

__all__ = ["SparkSource"]

_STATES = "part long, state binary"


@dataclass(frozen=True, eq=False)
class SparkSource(Cluster):
    """A `pyspark.sql.DataFrame`.

    Every pass is one job: partitions, then groups of their states, then the driver.
    """

    frame: Any
    name: str = "the Spark DataFrame"

    @cached_property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types; no job is run."""
        with spark_errors(self.name):
            return self.frame.limit(0).toArrow().schema

    def head(self, columns: Sequence[str]) -> Fragment:
        """Return a few rows."""
        with spark_errors(self.name):
            rows = self._numbered(columns).limit(1000).toArrow()
            return Partition(0, tuple(columns), rows.to_batches())

    def together(self, column: str) -> SparkSource:
        """Return the same rows, shuffled so that equal values of a column are neighbors."""
        from pyspark.sql.functions import col

        escaped = column.replace("`", "``")
        by = col(f"`{escaped}`")
        return SparkSource(self.frame.repartition(by).sortWithinPartitions(by), self.name)

    def fold(self, columns: Sequence[str], one: One, merge: Merge) -> bytes:
        """Return the merged states of all partitions."""
        with spark_errors(self.name), canceled_by_interrupts(self.frame.sparkSession):
            states = self._states(columns, one, merge)
            # Without a given number of groups, Spark makes as few as the size of the states needs.
            groups = (
                states.repartition("part")
                .sortWithinPartitions("part")
                .mapInArrow(partial(_merged, merge), _STATES)
            )
            found = groups.collect()
        return merge(bytes(x["state"]) for x in sorted(found, key=lambda x: x["part"]))

    def _states(self, columns: Sequence[str], one: One, merge: Merge) -> Any:
        """Return one row a partition, or one for the row groups of each task that reads files."""
        tasks = self._files.tasks(columns)
        if not tasks:
            mapped = partial(_mapped, one, tuple(columns))
            return self._numbered(columns).mapInArrow(mapped, _STATES)
        numbers = self.frame.sparkSession.range(0, len(tasks), 1, len(tasks))
        return numbers.mapInArrow(partial(_mapped_files, one, merge, tasks), _STATES)

    @cached_property
    def _files(self) -> ParquetFiles:
        return ParquetFiles.of(self.frame, self.schema)

    def _numbered(self, columns: Sequence[str]) -> Any:
        """Return these columns as c0, c1, ...: a dot in a name would mean a field of a struct."""
        from pyspark.sql.functions import col

        chosen = []
        for i, name in enumerate(columns):
            escaped = name.replace("`", "``")
            chosen.append(col(f"`{escaped}`").alias(f"c{i}"))
        return self.frame.select(chosen)


def _mapped(
    one: One, columns: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    number = TaskContext.get().partitionId()
    yield _state(number, one(Partition(number, columns, batches)))


def _mapped_files(
    one: One, merge: Merge, tasks: Sequence[Sequence[RowGroups]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch["id"].to_pylist():
            yield _state(number, merge(map(one, tasks[number])))


def _merged(merge: Merge, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # One after the other: all states of a group might not fit into memory.
    full = (batch for batch in batches if batch.num_rows)
    first = next(full, None)
    if first is not None:  # a group may be empty
        states = chain.from_iterable(x["state"].to_pylist() for x in chain([first], full))
        yield _state(first["part"][0].as_py(), merge(states))


def _state(part: int, state: bytes) -> pa.RecordBatch:
    return pa.record_batch(
        {"part": pa.array([part], pa.int64()), "state": pa.array([state], pa.binary())}
    )
