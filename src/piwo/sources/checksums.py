"""Checksums of the pages of Parquet files, which DuckDB does not compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from piwo.errors import FileError
from piwo.sources.addresses import shown
from piwo.sources.names import readable

__all__ = ["require_pages"]

_I32 = 0x15
"""The byte before an i32 field of a Thrift struct whose previous field has the number before."""


def require_pages(paths: Sequence[str], columns: Sequence[str]) -> None:
    """Read columns of the Parquet files that carry checksums, and raise if a page is damaged.

    Raises:
        FileError: naming the file.
    """
    import pyarrow.parquet as pq

    for path in paths:
        try:
            name = readable(path)
            with pq.ParquetFile(name, memory_map=True, page_checksum_verification=True) as file:
                inside = [x for x in columns if x in file.schema_arrow.names]
                if not inside or not _carries_checksums(name, file.metadata):
                    continue
                for _ in file.iter_batches(columns=inside):
                    pass
        except (OSError, pa.ArrowInvalid) as cause:
            raise FileError(
                f"{path!r} cannot be read as Parquet ({shown(cause)}); write or copy it again"
            ) from None


def _carries_checksums(path: str, metadata: Any) -> bool:
    """Whether the first page of a Parquet file has a checksum; a writer gives one to all or none.

    A page starts with a Thrift struct (compact protocol): type, two sizes, and then the checksum,
    all of them i32.
    """
    if metadata.num_row_groups == 0 or metadata.num_columns == 0:
        return False
    chunk = metadata.row_group(0).column(0)
    start = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    with Path(path).open("rb") as file:
        file.seek(start)
        header = file.read(64)
    at = 0
    for _ in range(3):
        if header[at : at + 1] != bytes([_I32]):
            return False
        at += 1
        # A number ends at the first byte whose highest bit is not set.
        while at < len(header) and header[at] & 0x80:
            at += 1
        at += 1
    return header[at : at + 1] == bytes([_I32])
