"""Parquet files as a source: on this machine, split into row groups, or at an address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from piwo.errors import DataError, FileError
from piwo.sources.addresses import name_of, shown
from piwo.sources.hive import hive_options, partitions_of
from piwo.sources.lines import RowLines
from piwo.sources.names import readable
from piwo.sources.paths import states_of_files
from piwo.sources.query import QuerySource, file_list, quoted
from piwo.sources.source import Fragment, fragment_rows, rows_within, type_family

__all__ = ["ParquetFragment", "ParquetSource", "remote_parquet"]

_UNREADABLE = (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeError)
"""What damaged files raise; a footer may hold names that are not UTF-8."""
_MOST_BYTES = 4
"""A text that a file holds once a row takes at least so many bytes, those of its length."""
_LARGEST_DICTIONARY = 2**20
"""Bytes in the file; it is searched once a batch. Most writers end dictionaries there."""


def remote_parquet(addresses: Sequence[str]) -> QuerySource:
    """Return the rows of Parquet files at addresses (s3://, https://, ...), read by DuckDB.

    Globs, hive partitions and credentials (`create secret`, environment variables) are DuckDB's.

    Raises:
        FileError: for files that cannot be read, and if the extension is not installed: nothing is
            downloaded without being asked for.

    >>> remote_parquet(["https://localhost:1/no.parquet"])
    Traceback (most recent call last):
    piwo.errors.FileError: ...
    """
    # Not `file_list`: addresses may be globs.
    listed = ", ".join(quoted(x, "'") for x in addresses)
    return QuerySource(f"select * from read_parquet([{listed}])", name_of(addresses), steady=True)


def _unreadable(path: str, cause: Exception) -> FileError:
    return FileError(f"{path!r} cannot be read as Parquet ({shown(cause)}); write or copy it again")


@dataclass(frozen=True)
class ParquetFragment:
    """Fragment: row groups of one Parquet file."""

    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    start: int
    constant: tuple[tuple[str, pa.DataType, Any], ...] = ()
    """Name, type and value of the partition columns."""
    dictionaries: tuple[tuple[str, str], ...] = ()
    """Column and path of text, or of the text in lists, that is read as dictionaries."""

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, cut at the same rows with dictionaries and without."""
        done = 0
        try:
            try:
                for record in self._decoded():
                    yield record
                    done += 1
            except pa.ArrowNotImplementedError:
                if not self.dictionaries:
                    raise
                # Arrow reads no lists in which a second dictionary begins.
                yield from islice(replace(self, dictionaries=()).records(), done, None)
        except _UNREADABLE as cause:
            raise _unreadable(self.path, cause) from None

    def _decoded(self) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(
            readable(self.path),
            memory_map=True,
            read_dictionary=[path for _, path in self.dictionaries],
            page_checksum_verification=True,
        ) as file:
            rows, names = _rows_at_once(file, self.groups, self.columns), list(self.columns)
            # Decoded in this thread: the engine reads several fragments at once.
            if not self.dictionaries:
                for record in file.iter_batches(rows, self.groups, names, use_threads=False):
                    yield self._with_constant(record)
                return
            # Every row group has a dictionary of its own.
            records = chain.from_iterable(
                file.iter_batches(rows, [group], names, use_threads=False) for group in self.groups
            )
            for record in _of_equal_size(map(self._checked, records), rows):
                yield self._with_constant(record)

    def _checked(self, record: pa.RecordBatch) -> pa.RecordBatch:
        """Return some rows; raise for codes of a damaged page outside of its dictionary."""
        for name, _ in self.dictionaries:
            record[name].validate(full=True)
        return record

    def _with_constant(self, record: pa.RecordBatch) -> pa.RecordBatch:
        if not self.constant:
            return record
        names, columns = list(record.schema.names), list(record.columns)
        for name, kind, value in self.constant:
            names.append(name)
            columns.append(pa.repeat(pa.scalar(value, kind), record.num_rows))
        return pa.RecordBatch.from_arrays(columns, names=names)


def _of_equal_size(records: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches of at most `rows` rows in batches of `rows`, but for the last."""
    held: list[pa.RecordBatch] = []
    count = 0
    for record in records:
        # What completes a batch; rows after it begin the next.
        first = record.slice(0, rows - count)
        held.append(first)
        count += first.num_rows
        if count == rows:
            yield _joined(held)
            rest = record.slice(first.num_rows)
            held, count = [rest][: rest.num_rows], rest.num_rows
    if count:
        yield _joined(held)


def _joined(records: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one, with one dictionary."""
    if len(records) == 1:
        return records[0]
    return pa.Table.from_batches(records).combine_chunks().to_batches()[0]


def _rows_at_once(file: Any, groups: Sequence[int], columns: Sequence[str]) -> int:
    """Return how many rows to decode at once, given how many entries lists and objects have."""
    schema, metadata = file.schema_arrow, file.metadata
    nested = ("list", "map", "struct")
    lists = tuple(f"{x}." for x in columns if type_family(schema.field(x).type) in nested)
    if not lists:
        return rows_within(0)
    # Parquet stores the entries of a list column "p" as a column with the path "p.list.element".
    leaves = []
    for i in range(metadata.num_columns):
        path = metadata.schema.column(i).path
        if path.startswith(lists):
            leaves.append(i)
    widest = 0.0
    for number in groups:
        group = metadata.row_group(number)
        entries = 0
        for i in leaves:
            entries += group.column(i).num_values
        widest = max(widest, entries / max(group.num_rows, 1))
    return rows_within(widest)


class ParquetSource:
    """One or more Parquet files with the same columns.

    Folders such as day=2026-01-01 are columns, too, unless the files hold a column of that name.
    """

    steady = True

    def __init__(self, paths: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        self.dictionaries: tuple[str, ...] = ()
        # What must live as long as this source: the temporary folder that its files are in.
        self.folder: object = None
        # How many lines of the files that its rows were copied from are not rows, by reason.
        self.skipped: Mapping[str, int] = {}
        # Where in these files its rows are; None: not known.
        self.lines: RowLines | None = None
        # The files that its rows were copied from, by which they are known; none: no copies.
        self.copied_from: tuple[str, ...] = ()
        self.paths = tuple(paths)
        self.name = name_of(paths)
        self._metadata, self._schemas = [], []
        for path in paths:
            try:
                metadata = pq.read_metadata(readable(path))
                self._metadata.append(metadata)
                self._schemas.append(metadata.schema.to_arrow_schema())
            except _UNREADABLE as cause:
                raise _unreadable(path, cause) from None
        written: set[str] = set()
        for schema in self._schemas:
            written.update(map(str.casefold, schema.names))
        self.partitions = tuple(
            x for x in partitions_of(self.paths) if x.name.casefold() not in written
        )
        self.schema: pa.Schema = self._schemas[0]
        for part in self.partitions:
            self.schema = self.schema.append(pa.field(part.name, part.type))
        self.rows = sum(x.num_rows for x in self._metadata)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it reads."""
        return self.paths

    def with_dictionaries(self, columns: Sequence[str]) -> ParquetSource:
        """Return the same rows with columns of text, or of lists of text, read as dictionaries.

        These are quick to decode and to search. Row groups that hold most texts once, and other
        columns, are read as before; batches are cut at the same rows.
        """
        made = copy(self)
        made.dictionaries = tuple(columns)
        return made

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return row groups; small neighbors form one fragment."""
        asked = [x for x in self.partitions if x.name in columns]
        inside = [x for x in columns if x in self._schemas[0].names]
        if not inside:
            # A batch without columns would have no rows.
            inside = self._schemas[0].names[:1]
        self.require_same(inside)
        made: list[Fragment] = []
        row = 0
        for i, (path, metadata) in enumerate(zip(self.paths, self._metadata, strict=True)):
            constant = tuple((x.name, x.type, x.values[i]) for x in asked)
            leaves = _leaves_of_text(self._schemas[i], metadata, inside, self.dictionaries)
            for groups, rows in _runs_of_groups(metadata):
                try:
                    coded = _coded(metadata, groups, leaves)
                except _UNREADABLE as cause:
                    raise _unreadable(path, cause) from None
                made.append(ParquetFragment(path, groups, tuple(inside), row, constant, coded))
                row += rows
        return made

    def sql(self) -> str:
        """Return the query for the same rows and columns in the same order."""
        return (
            f"select * from read_parquet({file_list(self.paths)}, {hive_options(self.partitions)})"
        )

    def source_id(self) -> tuple[Any, ...]:
        """Return the states of the files, and the rows of each of their row groups."""
        groups: list[int] = []
        for file in self._metadata:
            groups += [file.row_group(i).num_rows for i in range(file.num_row_groups)]
        return ("parquet", *states_of_files(self.copied_from or self.paths), tuple(groups))

    def require_same(self, columns: Sequence[str]) -> None:
        """Raise unless each of these columns is in every file, with types of one family.

        Raises:
            DataError: naming the column and two files.
        """
        for path, schema in zip(self.paths[1:], self._schemas[1:], strict=True):
            for name in columns:
                if name not in schema.names:
                    raise DataError(
                        f"column {name!r} is in {self.paths[0]!r} and not in {path!r}; "
                        "read them as two logs"
                    )
                here, first = schema.field(name).type, self.schema.field(name).type
                if type_family(here) != type_family(first):
                    raise DataError(
                        f"column {name!r} has type {first} in {self.paths[0]!r} and "
                        f"{here} in {path!r}; write both files with the same types"
                    )


def _leaves_of_text(
    schema: pa.Schema, metadata: Any, read: Sequence[str], columns: Sequence[str]
) -> dict[str, int]:
    """Return column -> position in the file of plain text, or of the entries of lists of it.

    None of them if one that is read is a dictionary already: Arrow cuts batches by these.
    """
    if any(pa.types.is_dictionary(schema.field(name).type) for name in read):
        return {}
    found: dict[str, int] = {}
    # A partition column is in no file.
    for name in (x for x in columns if x in read):
        kind, begin = schema.field(name).type, name
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            # The entries of a list column "p" are a column with the path "p.list.element".
            kind, begin = kind.value_type, f"{name}."
        if pa.types.is_dictionary(kind) or type_family(kind) != "text":
            continue
        leaves = []
        for i in range(metadata.num_columns):
            path = metadata.schema.column(i).path
            if path == begin or (begin != name and path.startswith(begin)):
                leaves.append(i)
        # Names of other columns may look like its path.
        if len(leaves) == 1:
            found[name] = leaves[0]
    return found


def _coded(
    metadata: Any, groups: Sequence[int], leaves: Mapping[str, int]
) -> tuple[tuple[str, str], ...]:
    """Return name and path of the columns that some row groups hold as codes, all of these."""
    found: list[tuple[str, str]] = []
    for name, leaf in leaves.items():
        if all(_is_coded(metadata.row_group(x).column(leaf)) for x in groups):
            found.append((name, metadata.schema.column(leaf).path))
    return tuple(found)


def _is_coded(chunk: Any) -> bool:
    """Whether the texts of a row group are codes in a small dictionary, all or most of them."""
    if not chunk.has_dictionary_page:
        return False
    size = chunk.data_page_offset - chunk.dictionary_page_offset
    small = chunk.total_uncompressed_size < _MOST_BYTES * chunk.num_values
    return bool(small and size <= _LARGEST_DICTIONARY)


def _runs_of_groups(metadata: Any) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the row groups of a file that make one fragment each, with their number of rows."""
    groups: list[int] = []
    rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= fragment_rows():
            yield tuple(groups), rows
            groups, rows = [], 0
    if groups:
        yield tuple(groups), rows
