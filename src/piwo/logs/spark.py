"""A Spark DataFrame as the source of a log: partitions become Arrow batches on the executors, which fold them."""

from __future__ import annotations

import logging
import re
import sys
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from piwo.errors import DataError, UsageError
from piwo.logs.clusters import Cluster, Merge, One, Partition
from piwo.logs.sources import Fragment

__all__ = ["SparkSource"]

_STATES = "part long, state binary"
_MISSING = "No module named 'piwo'"


@dataclass(frozen=True, eq=False)
class SparkSource(Cluster):
    """A `pyspark.sql.DataFrame`. Every pass is one job: partitions, then groups of their sums, then the driver."""

    frame: Any
    name: str = "the Spark DataFrame"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return column names and Arrow types; nothing is run."""
        return self.frame.limit(0).toArrow().schema

    def head(self, columns: Sequence[str]) -> Fragment:
        """Return a few rows."""
        with _one_line(self.name):
            return Partition(0, tuple(columns), self._numbered(columns).limit(1000).toArrow().to_batches())

    def fold(self, columns: Sequence[str], one: One, merge: Merge) -> bytes:
        """Return the merge of what one makes of every partition."""
        with _one_line(self.name), _cancelled_by_interrupts(self.frame.sparkSession):
            states = self._numbered(columns).mapInArrow(_mapping(one, tuple(columns)), _STATES)
            # without a number of its own, Spark makes as few groups of the sums as their size asks for
            groups = states.repartition("part").sortWithinPartitions("part").mapInArrow(_merging(merge), _STATES)
            found = groups.collect()
        return merge(bytes(x["state"]) for x in sorted(found, key=lambda x: x["part"]))

    def _numbered(self, columns: Sequence[str]) -> Any:
        """Return these columns under plain names: a dot in a name would mean a field of a struct."""
        from pyspark.sql.functions import col

        quoted = ("`" + name.replace("`", "``") + "`" for name in columns)
        return self.frame.select([col(name).alias(f"c{i}") for i, name in enumerate(quoted)])


def spark_table(text: str) -> SparkSource:
    """Return the source that "spark:TABLE" or "spark:select ..." means, in the session that there is.

    Raises:
        UsageError: where Spark is not installed.
        DataError: where there is no such table.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(f"{text!r} needs Spark, which is not installed; pip install 'piwo[spark]'") from None
    asked = text.partition(":")[2].strip()
    with _one_line(text):
        # its bar on standard error is the progress that users see
        watched = str(sys.stderr.isatty()).lower()
        builder = SparkSession.builder.appName("piwo").config("spark.ui.showConsoleProgress", watched)
        session = SparkSession.getActiveSession() or builder.getOrCreate()
        return SparkSource(session.sql(asked) if " " in asked else session.table(asked), text)


def _mapping(one: One, columns: tuple[str, ...]) -> Any:
    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        number = TaskContext.get().partitionId()
        yield _state(number, one(Partition(number, columns, batches)))

    return mapped


def _merging(merge: Merge) -> Any:
    def merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first: list[int] = []

        def states() -> Iterator[bytes]:
            for batch in batches:
                first.extend(batch["part"].to_pylist()[: 1 - len(first)])
                yield from batch["state"].to_pylist()

        found = merge(states())
        if first:
            yield _state(first[0], found)

    return merged


def _state(part: int, state: bytes) -> pa.RecordBatch:
    return pa.record_batch({"part": pa.array([part], pa.int64()), "state": pa.array([state], pa.binary())})


@contextmanager
def _cancelled_by_interrupts(session: Any) -> Iterator[None]:
    """Cancel the jobs of the block where the user presses Ctrl-C, and no others."""
    tag = f"piwo-{uuid.uuid4().hex}"
    if hasattr(session, "sparkContext"):
        context = session.sparkContext  # its tags are known in every thread, and the interrupt costs this one its own
        add, cancel, remove = context.addJobTag, context.cancelJobsWithTag, context.removeJobTag
    else:  # a remote session
        add, cancel, remove = session.addTag, session.interruptTag, session.removeTag
    add(tag)
    try:
        yield
    except KeyboardInterrupt:
        cancel(tag)
        raise
    finally:
        remove(tag)


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Turn Spark's errors, a stack of them, into one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    told_by_spark = logging.getLogger("SQLQueryContextLogger")  # the same error once more, as JSON
    before, told_by_spark.disabled = told_by_spark.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about versions of pandas, which is not used here
            yield
    except (PySparkException, Py4JError) as cause:
        text = str(cause)
        if _MISSING in text:
            raise DataError(
                f"piwo is not installed on the executors with {name}; install or ship it there (docs/clusters.md)"
            ) from None
        told = re.findall(r"^\s*(\w[\w.]*(?:Error|Exception): .*)$", text, re.MULTILINE)
        line = " ".join((told[-1] if told else text).split())[:300]
        raise DataError(f"Spark could not read {name}: {line}; its own log says more") from None
    finally:
        told_by_spark.disabled = before
