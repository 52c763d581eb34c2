"""Where the rows of a log come from. A source knows its columns and cuts itself into fragments.

A fragment is small, picklable and re-readable; engines map over fragments. Parquet is cut by row
groups, tables by slices; a query (SQL, CSV, JSON, a filter) is one fragment, streamed by DuckDB,
which reads it with all its own threads, and folded piece by piece as it comes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, FileError, UsageError
from piwo.sources.duckdb_errors import duckdb_errors, one_line
from piwo.sources.hive import hive_options, partitions_of
from piwo.sources.repeatable import refuse_chance, stopped_clocks

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "OF_OUR_OWN",
    "Fragment",
    "ParquetSource",
    "QuerySource",
    "Source",
    "Streamed",
    "TableSource",
    "arrow_reader",
    "cut",
    "decoded",
    "file_list",
    "files_as_they_are",
    "first_row",
    "pieces_of",
    "quoted",
]

BATCH_ROWS = 65_536
"""Rows a batch: the arrays of a batch stay in a core's cache."""
BATCH_BYTES = 2**25
"""Bytes a batch as float64: rows of thousands of numbers (propensity vectors, a wide context) come
fewer at a time."""
OF_OUR_OWN: dict[str, Any] = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
}
"""Settings of connections that piwo opens: a table name never means a Python variable that happens
to have it, and nothing is downloaded unasked."""
_ROWS_OF_LISTS = 2048
"""Rows that DuckDB makes at once, and the fewest that it can."""


_LAST_BYTES = 2**16
"""Bytes at the end of a file that are looked at to see whether it has changed."""


@runtime_checkable
class Fragment(Protocol):
    """A part of a source that can be read on its own, anywhere."""

    @property
    def start(self) -> int:
        """The row number of its first row."""
        ...

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches of at most `BATCH_ROWS` rows."""
        ...


@runtime_checkable
class Streamed(Fragment, Protocol):
    """A fragment that is no small part but a stream; what came of it can be folded while more is read."""

    def pieces(self) -> Iterator[Fragment]:
        """Yield its rows in order, in memory, cut at the same rows every time."""
        ...


@runtime_checkable
class Source(Protocol):
    """Rows in some place."""

    @property
    def name(self) -> str:
        """How to call it in messages."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        ...

    @property
    def rows(self) -> int | None:
        """The number of rows, None where only a pass would tell."""
        ...

    @property
    def steady(self) -> bool:
        """Whether every pass gives the same rows in the same order."""
        ...

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the parts, reading only these columns."""
        ...

    def source_id(self) -> tuple[Any, ...]:
        """Return what tells this source from others: plain values, the same in every process."""
        ...


def cut(record: pa.RecordBatch, width: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch, so few at a time that their numbers stay within `BATCH_BYTES`.

    Args:
        record: rows; a list counts for all its entries.
        width: numbers that each row will become beside them.

    >>> [len(x) for x in cut(pa.record_batch({"x": [1, 2, 3]}), width=2**21)]
    [2, 1]
    """
    rows = record.num_rows
    step = _rows_within(_entries(record) / max(rows, 1) + width)
    if rows <= step:
        yield record
    else:
        yield from (record.slice(at, step) for at in range(0, rows, step))


def _entries(record: pa.RecordBatch) -> int:
    """Return how many entries the lists of some rows have."""
    return sum(
        pc.sum(pc.list_value_length(x)).as_py() or 0
        for x in record.columns
        if _family(x.type) == "list"
    )


def _rows_within(width: float) -> int:
    """Return how many rows of so many numbers make a batch."""
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / (8 * width)) if width else BATCH_ROWS))


@dataclass(frozen=True)
class TableSlice:
    """Rows of an Arrow table."""

    table: pa.Table
    start: int

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        yield from self.table.to_batches(max_chunksize=BATCH_ROWS)


@dataclass(frozen=True)
class Piece:
    """Rows of a stream, in memory until they are folded."""

    table: pa.Table
    start: int

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, cut at the same rows however the stream was."""
        for record in self.table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
            yield from cut(record)


def pieces_of(records: Iterable[pa.RecordBatch], start: int = 0) -> Iterator[Fragment]:
    """Yield the rows of a stream as pieces of a few batches each.

    >>> batch = pa.record_batch({"x": [1, 2]})
    >>> [piece.start for piece in pieces_of([batch] * 3)]
    [0]
    """
    step, held, count = 0, list[pa.RecordBatch](), 0
    for record in records:
        step = step or 4 * _rows_within(
            _entries(record.slice(0, 1))
        )  # the first row decides: the same at every pass
        held.append(record)
        count += record.num_rows
        if count >= step:
            table = pa.Table.from_batches(held)
            whole = count - count % step
            for at in range(0, whole, step):
                yield Piece(table.slice(at, step), start + at)
            held, count, start = table.slice(whole).to_batches(), count - whole, start + whole
    if count:
        yield Piece(pa.Table.from_batches(held), start)


@dataclass(frozen=True)
class TableSource:
    """A table in memory."""

    table: pa.Table
    name: str = "the data frame"
    steady: ClassVar[bool] = True

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return slices of a few batches each."""
        table, step = self.table.select(list(columns)), 4 * BATCH_ROWS
        return [TableSlice(table.slice(at, step), at) for at in range(0, table.num_rows, step)]

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        return pc.unique(
            decoded(pc.unique(self.table[column]))
        )  # a dictionary may hold a value twice

    def source_id(self) -> tuple[Any, ...]:
        """Return a digest of the rows."""
        made = hashlib.sha256()
        for at in range(0, self.table.num_rows, BATCH_ROWS):
            for record in self.table.slice(at, BATCH_ROWS).combine_chunks().to_batches():
                made.update(record.serialize())
        return ("table", str(self.schema), self.rows, made.hexdigest())


def decoded(values: Any) -> pa.Array:
    """Return values as one plain array, whatever their encoding."""
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


@dataclass(frozen=True)
class ParquetFragment:
    """Row groups of one Parquet file."""

    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    start: int
    constant: tuple[tuple[str, pa.DataType, Any], ...] = ()
    """Name, type and value of the partition columns."""

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path, memory_map=True) as file:
                # decoded in this thread, batch by batch; the engine runs several fragments at once
                rows = _rows_at_once(file, self.groups, self.columns)
                for record in file.iter_batches(
                    rows, self.groups, list(self.columns), use_threads=False
                ):
                    yield record if not self.constant else self._with_constant(record)
        except (OSError, pa.ArrowInvalid) as cause:
            raise FileError(
                f"{self.path!r} cannot be read as Parquet ({one_line(cause)}); write or copy it "
                "again"
            ) from None

    def _with_constant(self, record: pa.RecordBatch) -> pa.RecordBatch:
        names = [*record.schema.names, *(name for name, _, _ in self.constant)]
        added = [
            pa.repeat(pa.scalar(value, kind), record.num_rows) for _, kind, value in self.constant
        ]
        return pa.RecordBatch.from_arrays([*record.columns, *added], names=names)


def _rows_at_once(file: Any, groups: Sequence[int], columns: Sequence[str]) -> int:
    """Return how many rows of a Parquet file to decode at once, from the number of entries of its lists."""
    schema, metadata = file.schema_arrow, file.metadata
    lists = tuple(x for x in columns if _family(schema.field(x).type) == "list")
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)] if lists else []
    leaves = [i for i, path in enumerate(paths) if path.startswith(tuple(f"{x}." for x in lists))]
    found = [metadata.row_group(g) for g in groups] if leaves else []
    widths = (sum(x.column(i).num_values for i in leaves) / max(x.num_rows, 1) for x in found)
    return _rows_within(max(widths, default=0))


class ParquetSource:
    """One or several Parquet files with the same columns; folders such as day=2026-01-01 are columns too."""

    steady = True

    def __init__(self, paths: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        self.paths = tuple(paths)
        self.name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        self._metadata = []
        for path in paths:
            try:
                self._metadata.append(pq.read_metadata(path))
            except (OSError, pa.ArrowInvalid) as cause:
                raise FileError(
                    f"{path!r} cannot be read as Parquet ({one_line(cause)}); write or copy it "
                    "again"
                ) from None
        self._schemas = [x.schema.to_arrow_schema() for x in self._metadata]
        written = {name.casefold() for schema in self._schemas for name in schema.names}
        # a column that the files hold too is theirs
        self.partitions = tuple(
            x for x in partitions_of(self.paths) if x.name.casefold() not in written
        )
        self.schema: pa.Schema = self._schemas[0]
        for x in self.partitions:
            self.schema = self.schema.append(pa.field(x.name, x.type))
        self.rows = sum(x.num_rows for x in self._metadata)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return row groups, small neighbors together."""
        asked = [x for x in self.partitions if x.name in columns]
        inside = [x for x in columns if x in self._schemas[0].names] or self._schemas[0].names[:1]
        self.require_same(inside)
        made: list[Fragment] = []
        row = 0
        for i, (path, metadata) in enumerate(zip(self.paths, self._metadata, strict=True)):
            constant = tuple((x.name, x.type, x.values[i]) for x in asked)
            groups: list[int] = []
            first, held = row, 0
            for group in range(metadata.num_row_groups):
                groups.append(group)
                held += metadata.row_group(group).num_rows
                if held >= 4 * BATCH_ROWS or group == metadata.num_row_groups - 1:
                    made.append(
                        ParquetFragment(path, tuple(groups), tuple(inside), first, constant)
                    )
                    first, held, groups = first + held, 0, []
            row += metadata.num_rows
        return made

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        part = next((x for x in self.partitions if x.name == column), None)
        if part is not None:
            filled = [
                x for x, file in zip(part.values, self._metadata, strict=True) if file.num_rows
            ]
            return pc.unique(pa.array(filled, part.type))
        self.require_same([column])
        names = [x.casefold() for schema in self._schemas for x in schema.names]
        if names.count(column.casefold()) == len(self.paths):
            sql = f"select distinct {quoted(column)} from ({self.sql()})"
            with _relation(sql, self.name) as relation:
                return _first_column(relation)
        # DuckDB takes "a" and "A" for one name
        seen = [pc.unique(x[column]) for part in self.fragments([column]) for x in part.records()]
        return decoded(pc.unique(pa.chunked_array([decoded(x) for x in seen])))

    def sql(self) -> str:
        """Return the query for the same rows and columns in the same order."""
        return (
            f"select * from read_parquet({file_list(self.paths)}, {hive_options(self.partitions)})"
        )

    def source_id(self) -> tuple[Any, ...]:
        """Return the files as they are, and their row groups."""
        groups = tuple(
            x.row_group(i).num_rows for x in self._metadata for i in range(x.num_row_groups)
        )
        return ("parquet", *files_as_they_are(self.paths), groups)

    def require_same(self, columns: Sequence[str]) -> None:
        """Raise where one of these columns is not in every file, with values of one sort.

        Raises:
            DataError: naming the column and two files.
        """
        for path, schema in zip(self.paths[1:], self._schemas[1:], strict=True):
            for name in columns:
                if name not in schema.names:
                    raise DataError(
                        f"column {name!r} is in {self.paths[0]!r} and not in {path!r}; read them "
                        "as two logs"
                    )
                here, first = schema.field(name).type, self.schema.field(name).type
                if _family(here) != _family(first):
                    raise DataError(
                        f"column {name!r} has type {first} in {self.paths[0]!r} and {here} in "
                        f"{path!r}; write both files with the same types"
                    )


def _family(kind: pa.DataType) -> str:
    """Return the sort of a type within which files of one log may differ."""
    if pa.types.is_dictionary(kind):
        return _family(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "list"
    return str(kind)


def files_as_they_are(paths: Sequence[str]) -> tuple[tuple[str, int, int, str], ...]:
    """Return place, size, time of the last change (in ns) and a digest of the last bytes of every file.

    Parquet keeps the sizes and statistics of its columns at the end: other rows of the same size
    are seen there, also where the file got its old time back.

    >>> files_as_they_are([])
    ()
    """
    told = [(os.path.realpath(x), os.stat(x)) for x in paths]  # noqa: PTH116
    return tuple((path, x.st_size, x.st_mtime_ns, _end_of(path, x.st_size)) for path, x in told)


def _end_of(path: str, size: int) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 (as above)
        file.seek(max(0, size - _LAST_BYTES))
        return hashlib.sha256(file.read(_LAST_BYTES)).hexdigest()


@dataclass(frozen=True)
class QueryFragment:
    """Columns of the whole answer to a query."""

    sql: str
    columns: tuple[str, ...]
    connection: Any = None
    start: int = 0
    setup: tuple[str, ...] = ()
    name: str = "the query"

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        with _relation(self.sql, self.name, self.connection, self.setup) as relation:
            for record in _stream(_columns(relation, self.columns)):
                for at in range(0, record.num_rows, BATCH_ROWS):
                    yield record.slice(at, BATCH_ROWS)

    def pieces(self) -> Iterator[Fragment]:
        """Yield the rows as they come, a few batches at a time."""
        return pieces_of(self.records(), self.start)


class QuerySource:
    """The answer to a DuckDB query; re-run at each pass, so its order may differ unless `steady`.

    Its rows do not: what is random is refused, and the clocks that it looks at stand still.
    """

    def __init__(
        self,
        sql: str,
        name: str = "the query",
        connection: Any = None,
        steady: bool = False,
        *,
        files: Sequence[str] = (),
        setup: Sequence[str] = (),
        rows: int | None = None,
    ) -> None:
        self.sql, self.name, self.connection, self.steady = (
            _one_statement(sql, name),
            name,
            connection,
            steady,
        )
        own = connection is None and not setup
        with _cursor(name, connection, setup) as cursor:
            refuse_chance(self.sql, name, cursor, own)
            clocks = stopped_clocks(self.sql, cursor, own, setup)
        self.files, self.setup, self.rows = tuple(files), (*setup, *clocks), rows
        with _relation(self.sql, name, connection, self.setup) as relation:
            self.schema: pa.Schema = pa.RecordBatchReader.from_stream(relation.limit(0)).schema

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the one fragment that there is."""
        return [
            QueryFragment(
                self.sql, tuple(columns), self.connection, setup=self.setup, name=self.name
            )
        ]

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        with _relation(self.sql, self.name, self.connection, self.setup) as relation:
            return _first_column(_columns(relation, [column]).distinct())

    def source_id(self) -> tuple[Any, ...]:
        """Return the text of the query, and the files as they are where they are known."""
        return ("query", self.sql, self.setup, str(self.schema), *files_as_they_are(self.files))


def _one_statement(sql: str, name: str) -> str:
    """Return the text of the one query that there must be, without a semicolon and comments at its end."""
    import duckdb

    with duckdb_errors(name):
        statements = duckdb.extract_statements(sql)
        tokens = duckdb.tokenize(sql)
    if len(statements) != 1:
        raise UsageError(
            f"got {len(statements)} SQL statements, expected one query that gives the rows"
        )
    end = len(sql.encode())
    while tokens and (
        tokens[-1][1] == duckdb.token_type.comment or sql.encode()[tokens[-1][0] :][:1] == b";"
    ):
        end = tokens.pop()[0]
    return sql.encode()[:end].decode().strip()


@contextmanager
def _cursor(name: str, connection: Any = None, setup: Sequence[str] = ()) -> Iterator[Any]:
    """Give a DuckDB cursor of its own, closed at the end."""
    import duckdb

    with (
        duckdb_errors(name),
        duckdb.connect(config=OF_OUR_OWN) if connection is None else connection.cursor() as cursor,
    ):
        # DuckDB would draw its own bar on stdout, where results go; the setting is this cursor's
        # alone
        cursor.execute("set enable_progress_bar = false")
        for statement in setup:
            cursor.execute(statement)
        yield cursor


@contextmanager
def _relation(
    sql: str, name: str, connection: Any = None, setup: Sequence[str] = ()
) -> Iterator[Any]:
    """Give a DuckDB relation on a cursor of its own: an open reader owns it."""
    import duckdb

    with _cursor(name, connection, setup) as cursor:
        try:
            relation = cursor.sql(sql)
        except duckdb.CatalogException:
            if connection is None:
                raise
            # temporary tables and registered data frames are known to the user's own connection
            # only
            relation = connection.sql(sql)
        yield relation


def first_row(sql: str, name: str, setup: Sequence[str] = ()) -> tuple[Any, ...]:
    """Return the first row of the answer to a query over files; `name` is what they are called in errors.

    >>> first_row("select 1, 'a'", "a query")
    (1, 'a')
    """
    with _relation(sql, name, setup=setup) as relation:
        row: tuple[Any, ...] = relation.limit(1).fetchall()[0]
        return row


def _stream(relation: Any) -> Any:
    """Return a reader of the rows of a relation; lists may be long, so that few rows come at a time."""
    if not any(str(x).endswith("]") for x in relation.types):
        return pa.RecordBatchReader.from_stream(relation)
    return arrow_reader(relation, _ROWS_OF_LISTS)


def arrow_reader(relation: Any, rows: int) -> Any:
    """Return a reader of a DuckDB relation that gives so many rows at a time, whatever DuckDB calls it.

    >>> import duckdb
    >>> len(arrow_reader(duckdb.sql("select 1 as x"), 10).read_all())
    1
    """
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return reader(rows)


def _columns(relation: Any, names: Sequence[str]) -> Any:
    return relation.project(", ".join(quoted(x) for x in names))


def _first_column(relation: Any) -> pa.Array:
    return decoded(pa.RecordBatchReader.from_stream(relation).read_all().column(0))


def file_list(paths: Sequence[str]) -> str:
    """Return a DuckDB list of file names in which nothing is a glob.

    >>> file_list(["a[1].csv"])
    "['a[[]1].csv']"
    """
    plain = (re.sub(r"[\[*?]", lambda hit: f"[{hit[0]}]", path) for path in paths)
    return "[" + ", ".join(quoted(path, "'") for path in plain) + "]"


def quoted(name: str, mark: str = '"') -> str:
    """Return a name as a DuckDB identifier, or with another mark as a text.

    >>> quoted('a"b')
    '"a""b"'
    """
    return mark + name.replace(mark, mark + mark) + mark
