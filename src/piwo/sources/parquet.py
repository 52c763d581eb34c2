"""Parquet files as a source: on this machine, split into row groups, or at an address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from piwo.errors import DataError, FileError
from piwo.sources.addresses import name_of, shown
from piwo.sources.hive import hive_options, partitions_of
from piwo.sources.names import readable
from piwo.sources.paths import states_of_files
from piwo.sources.query import QuerySource, file_list, quoted
from piwo.sources.source import Fragment, fragment_rows, rows_within, type_family

__all__ = ["ParquetFragment", "ParquetSource", "remote_parquet"]

_UNREADABLE = (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeError)
"""What damaged files raise; a footer may hold names that are not UTF-8."""


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
    dictionaries: tuple[str, ...] = ()
    """Text columns that are read as dictionaries; batches then end where a dictionary does."""
    entries: tuple[str, ...] = ()
    """The path of the entries of a column of lists that are read as dictionaries, likewise."""

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(
                readable(self.path),
                memory_map=True,
                read_dictionary=[*self.dictionaries, *self.entries],
                page_checksum_verification=True,
            ) as file:
                rows = _rows_at_once(file, self.groups, self.columns)
                runs: tuple[tuple[int, ...], ...] = (self.groups,)
                if self.entries:
                    # Lists of one batch have one dictionary, that of their row group.
                    runs = tuple((group,) for group in self.groups)
                for groups in runs:
                    # Decoded in this thread: the engine reads several fragments at once.
                    records = file.iter_batches(rows, groups, list(self.columns), use_threads=False)
                    for record in records:
                        self._check_codes(record)
                        yield self._with_constant(record)
        except _UNREADABLE as cause:
            raise _unreadable(self.path, cause) from None

    def _check_codes(self, record: pa.RecordBatch) -> None:
        """Raise for codes of a damaged page, which may lie outside of its dictionary."""
        for name in self.columns if self.entries else self.dictionaries:
            record[name].validate(full=True)

    def _with_constant(self, record: pa.RecordBatch) -> pa.RecordBatch:
        if not self.constant:
            return record
        names, columns = list(record.schema.names), list(record.columns)
        for name, kind, value in self.constant:
            names.append(name)
            columns.append(pa.repeat(pa.scalar(value, kind), record.num_rows))
        return pa.RecordBatch.from_arrays(columns, names=names)


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
        self.entries: tuple[str, ...] = ()
        # What must live as long as this source: the temporary folder that its files are in.
        self.folder: object = None
        # How many lines of the files that its rows were copied from are not rows, by reason.
        self.skipped: Mapping[str, int] = {}
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

    def with_dictionary(self, column: str) -> ParquetSource:
        """Return the same rows with a text column read as dictionaries, which are quick to search.

        Batches are cut differently, so this is for passes that do not depend on the cut.
        """
        made = copy(self)
        made.dictionaries = (column,)
        return made

    def with_dictionary_of_entries(self, column: str) -> ParquetSource:
        """Return the same rows with the text in a column of lists read as dictionaries.

        As `with_dictionary`. A file whose dictionaries end within a row group, as those of very
        many texts do, cannot be read so: that is an error.
        """
        schema = self._metadata[0].schema
        paths = [schema.column(i).path for i in range(len(schema))]
        made = copy(self)
        made.entries = tuple(path for path in paths if path.startswith(f"{column}."))
        return made

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return row groups; small neighbors form one fragment."""
        asked = [x for x in self.partitions if x.name in columns]
        inside = [x for x in columns if x in self._schemas[0].names]
        if not inside:
            # A batch without columns would have no rows.
            inside = self._schemas[0].names[:1]
        self.require_same(inside)
        # A partition column is in no file.
        dictionaries = tuple(set(self.dictionaries).intersection(inside))
        made: list[Fragment] = []
        row = 0
        for i, (path, metadata) in enumerate(zip(self.paths, self._metadata, strict=True)):
            constant = tuple((x.name, x.type, x.values[i]) for x in asked)
            for groups, rows in _runs_of_groups(metadata):
                made.append(
                    ParquetFragment(
                        path, groups, tuple(inside), row, constant, dictionaries, self.entries
                    )
                )
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
