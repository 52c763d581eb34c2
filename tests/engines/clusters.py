"""Logs cut into given partitions, on Spark and on Dask, and tasks that go wrong once."""

import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Accident = Literal["raises", "killed"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def plain(table: pa.Table) -> pa.Table:
    """Lists of a fixed size as lists: neither Spark nor pandas has the former."""
    for i, field in enumerate(table.schema):
        if pa.types.is_fixed_size_list(field.type):
            table = table.set_column(
                i, field.name, table[field.name].cast(pa.list_(field.type.value_type))
            )
    return table


def pandas(table: pa.Table) -> Any:
    """Lists in columns of Arrow's own type: Dask takes those of objects for text."""
    import pandas as pd

    return table.to_pandas(
        types_mapper=lambda kind: pd.ArrowDtype(kind) if pa.types.is_list(kind) else None
    )


def go_wrong_once(accident: Accident | None, once: str) -> None:
    """Raise, or end this process as the operating system would, unless it was done before."""
    if accident is None:
        return
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if accident == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError("the disk is gone for a moment")


@dataclass(frozen=True)
class SparkHome:
    """Makes Spark DataFrames."""

    session: Any

    def frame(self, parts: list[pa.Table], accident: Accident | None = None, once: str = "") -> Any:
        """A DataFrame whose partition i holds exactly the rows of part i; the third part meets
        the accident."""
        from pyspark import cloudpickle as sparks_own

        sparks_own.register_pickle_by_value(sys.modules[__name__])

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for i in batch["id"].to_pylist():
                    yield from parts[i].to_batches(max_chunksize=150)
                    if i == 2:
                        go_wrong_once(accident, once)

        schema = self.session.createDataFrame(parts[0].schema.empty_table()).schema
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about versions of pandas
            return self.session.range(len(parts), numPartitions=len(parts)).mapInArrow(rows, schema)

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Nothing to choose: a DataFrame knows its session."""
        yield


@dataclass(frozen=True)
class SparkFilesHome:
    """Makes Spark DataFrames that are Parquet files, which executors read themselves."""

    session: Any
    folder: Path

    def frame(self, parts: list[pa.Table]) -> Any:
        """A DataFrame of which file i holds the rows of part i."""
        place = Path(tempfile.mkdtemp(prefix="odd % name #é?", dir=self.folder))
        for i, part in enumerate(parts):
            pq.write_table(part, place / f"part-{i:05}.parquet", row_group_size=300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about versions of pandas
            return self.session.read.parquet(str(place))

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Nothing to choose: a DataFrame knows its session."""
        yield


@dataclass(frozen=True)
class DaskHome:
    """Makes Dask DataFrames, for a cluster or for this machine's threads."""

    client: Any

    def frame(self, parts: list[pa.Table], accident: Accident | None = None, once: str = "") -> Any:
        """A DataFrame of these partitions; the third part meets the accident."""
        import dask.dataframe as dd

        def rows(i: int) -> Any:
            if i == 2:
                go_wrong_once(accident, once)
            return pandas(parts[i])

        return dd.from_map(
            rows,
            range(len(parts)),
            meta=pandas(parts[0].slice(0, 0)),
            label=f"rows-{Path(once).name}",
        )

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Work on the cluster, or on threads."""
        import dask

        if self.client is None:
            with dask.config.set(scheduler="threads"):
                yield
        else:
            with self.client.as_current():
                yield


Home = SparkHome | SparkFilesHome | DaskHome


def layouts(table: pa.Table) -> dict[str, list[pa.Table]]:
    """The rows in partitions such as clusters make them."""
    n, table = table.num_rows, plain(table)
    mixed = table.take(np.random.default_rng(1).permutation(n))
    return {
        "empty, one row, skewed": [
            table.slice(0, 0),
            table.slice(0, 1),
            table.slice(1, 1),
            table.slice(2, 0),
            table.slice(2, n - 10),
            table.slice(n - 8, 8),
        ],
        "reordered": [mixed.slice(at, n // 3 + 1) for at in range(0, n, n // 3 + 1)][::-1],
    }
