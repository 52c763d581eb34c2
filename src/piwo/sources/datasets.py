"""A `pyarrow.dataset.Dataset` as a source: its files are read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from piwo.errors import FileError
from piwo.sources.source import BATCH_ROWS, Fragment, pieces_of
from piwo.visible import visible

__all__ = ["DatasetSource", "is_dataset"]


def is_dataset(value: Any) -> bool:
    """Whether a value is a `pyarrow.dataset.Dataset`; the module is not imported for others.

    >>> is_dataset("log.parquet")
    False
    """
    if not type(value).__module__.startswith("pyarrow"):
        return False
    import pyarrow.dataset as ds

    return isinstance(value, ds.Dataset)


@dataclass(frozen=True, eq=False)
class DatasetSource:
    """The files of a dataset, with the columns of its partitions and its filter.

    >>> import pyarrow.dataset as ds
    >>> DatasetSource(ds.dataset(pa.table({"x": [1, 2]}))).rows
    2
    """

    dataset: Any
    name: str = "the dataset"
    steady: bool = True

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        return self.dataset.schema

    @cached_property
    def rows(self) -> int:
        """The number of rows; Parquet files state theirs."""
        return sum(self._counts)

    @cached_property
    def _counts(self) -> list[int]:
        with _readable(self.name):
            if self._parts is None:
                return [self.dataset.count_rows()]
            return [part.count_rows() for part in self._parts]

    @cached_property
    def _parts(self) -> list[Any] | None:
        """Its files; None if it has a filter, with which Arrow gives no files."""
        try:
            return list(self.dataset.get_fragments())
        except ValueError:
            return None

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return one fragment for each file; of a dataset with a filter, a single one."""
        if self._parts is None:
            return [_Filtered(self.dataset, tuple(columns), self.name)]
        found: list[Fragment] = []
        start = 0
        for part, count in zip(self._parts, self._counts, strict=True):
            found.append(_File(part, self.schema, tuple(columns), start, self.name))
            start += count
        return found

    def source_id(self) -> tuple[Any, ...]:
        """Return the paths of the files."""
        paths = []
        for part in self._parts or ():
            paths.append(str(getattr(part, "path", "")))
        return ("dataset", *paths, self.rows)


@dataclass(frozen=True)
class _File:
    """Fragment: one file of a dataset."""

    part: Any
    kinds: pa.Schema
    columns: tuple[str, ...]
    start: int
    name: str

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        with _readable(self.name):
            for record in self.part.to_batches(
                schema=self.kinds,
                columns=list(self.columns),
                batch_size=BATCH_ROWS,
                use_threads=False,
                fragment_scan_options=_checked(
                    getattr(self.part, "format", None)
                ),  # none in memory
            ):
                if record.num_rows:
                    yield record


def _checked(form: Any) -> Any:
    """Return the options with which the checksums of Parquet pages are compared."""
    import pyarrow.dataset as ds

    if not isinstance(form, ds.ParquetFileFormat):
        return None
    own = form.default_fragment_scan_options
    if own.decryption_properties or own.parquet_decryption_config:
        # Encrypted pages are authenticated already.
        return None
    return ds.ParquetFragmentScanOptions(page_checksum_verification=True)


@dataclass(frozen=True)
class _Filtered:
    """Fragment: the rows of a dataset that satisfy its filter, as a stream."""

    dataset: Any
    columns: tuple[str, ...]
    name: str
    start: int = 0

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, in the order of the files."""
        with _readable(self.name):
            for record in self.dataset.to_batches(
                columns=list(self.columns),
                batch_size=BATCH_ROWS,
                fragment_scan_options=_checked(getattr(self.dataset, "format", None)),
            ):
                if record.num_rows:
                    yield record

    def pieces(self) -> Iterator[Fragment]:
        """Yield the rows in order, cut at the same rows every time."""
        yield from pieces_of(self.records())


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn what Arrow raises while it reads into one line."""
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        first, *_ = str(cause).splitlines() or [type(cause).__name__]
        raise FileError(f"{name} cannot be read: {visible(first)}") from None
