"""What the ends of Parquet files say on an executor: their rows, and which columns of a Spark DataFrame they hold."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

__all__ = ["footers"]

_DAYS = re.compile("date|timestamp")


def footers(
    paths: Sequence[str], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield what the ends of files say, on an executor."""
    for batch in batches:
        found = [json.dumps(_footer(paths[i], schema)) for i in batch["id"].to_pylist()]
        yield pa.record_batch({"number": batch["id"], "footer": pa.array(found, pa.string())})


def _footer(path: str, schema: pa.Schema) -> tuple[int, list[int], list[str]]:
    """Return bytes, rows of each row group, and the columns of the frame that a file does not have as the frame has."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=True) as file:  # opened as it will be to be read
            metadata = file.metadata
        size = Path(path).stat().st_size
    except (OSError, pa.ArrowException):  # Spark has ways of its own, and words
        return 0, [], schema.names
    held, told = metadata.schema.to_arrow_schema(), metadata.metadata or {}
    version = told.get(b"org.apache.spark.version", b"3")
    old_days = (
        b"org.apache.spark.legacyDateTime" in told or version < b"3"
    )  # those before 1582, as they were called
    cases = Counter(x.casefold() for x in held.names)
    lacking = [
        x.name
        for x in schema
        if x.name not in held.names
        or cases[x.name.casefold()] > 1
        or _in_spark(held.field(x.name).type) != _in_spark(x.type)
        or (old_days and _DAYS.search(str(x.type)))
    ]
    return size, [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)], lacking


def _in_spark(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values in Spark."""
    if pa.types.is_dictionary(kind):
        return _in_spark(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_in_spark(kind.value_type))
    return kind
