"""Where the rows of a log come from. A source knows its columns and cuts itself into fragments.

A fragment is small, picklable and re-readable; engines map over fragments. Parquet is cut by row groups,
tables by slices; a query (SQL, CSV, JSON) is one fragment, streamed by DuckDB, which reads it with all its
own threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, FileError, UsageError

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "Fragment",
    "ParquetSource",
    "QuerySource",
    "Source",
    "TableSource",
    "cut",
    "decoded",
    "file_list",
    "first_row",
    "quoted",
]

BATCH_ROWS = 65_536
"""Rows a batch: the arrays of a batch stay in a core's cache."""
BATCH_BYTES = 2**25
"""Bytes a batch as float64: rows of thousands of numbers (propensity vectors, a wide context) come fewer at a time."""
_ROWS_OF_LISTS = 2048
"""Rows that DuckDB makes at once, and the fewest that it can."""


@runtime_checkable
class Fragment(Protocol):
    """A part of a source that can be read on its own, anywhere."""

    @property
    def start(self) -> int:
        """Return the row number of its first row."""
        ...

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches of at most `BATCH_ROWS` rows."""
        ...


@runtime_checkable
class Source(Protocol):
    """Rows in some place."""

    @property
    def name(self) -> str:
        """Return how to call it in messages."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Return column names and Arrow types."""
        ...

    @property
    def rows(self) -> int | None:
        """Return the number of rows, None where only a pass would tell."""
        ...

    @property
    def steady(self) -> bool:
        """Tell whether every pass gives the same rows in the same order."""
        ...

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the parts, reading only these columns."""
        ...

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column, in no order."""
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
    entries = [pc.sum(pc.list_value_length(x)).as_py() or 0 for x in record.columns if _family(x.type) == "list"]
    step = _rows_within(sum(entries) / max(rows, 1) + width)
    if rows <= step:
        yield record
    else:
        yield from (record.slice(at, step) for at in range(0, rows, step))


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
class TableSource:
    """A table in memory."""

    table: pa.Table
    name: str = "the data frame"
    steady: ClassVar[bool] = True

    @property
    def schema(self) -> pa.Schema:
        """Return column names and Arrow types."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self.table.num_rows)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return slices of a few batches each."""
        table, step = self.table.select(list(columns)), 4 * BATCH_ROWS
        return [TableSlice(table.slice(at, step), at) for at in range(0, table.num_rows, step)]

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        return pc.unique(decoded(pc.unique(self.table[column])))  # a dictionary may hold a value twice


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

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path, memory_map=True) as file:
                # decoded in this thread, batch by batch; the engine runs several fragments at once
                rows = _rows_at_once(file, self.groups, self.columns)
                yield from file.iter_batches(rows, self.groups, list(self.columns), use_threads=False)
        except (OSError, pa.ArrowInvalid) as cause:
            raise FileError(
                f"{self.path!r} cannot be read as Parquet ({_line(cause)}); write or copy it again"
            ) from None


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
    """One or several Parquet files with the same columns."""

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
                    f"{path!r} cannot be read as Parquet ({_line(cause)}); write or copy it again"
                ) from None
        self._schemas = [x.schema.to_arrow_schema() for x in self._metadata]
        self.schema: pa.Schema = self._schemas[0]
        self.rows = sum(x.num_rows for x in self._metadata)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return row groups, small neighbors together."""
        self._check_same(columns)
        made: list[Fragment] = []
        row = 0
        for path, metadata in zip(self.paths, self._metadata, strict=True):
            groups: list[int] = []
            first, held = row, 0
            for group in range(metadata.num_row_groups):
                groups.append(group)
                held += metadata.row_group(group).num_rows
                if held >= 4 * BATCH_ROWS or group == metadata.num_row_groups - 1:
                    made.append(ParquetFragment(path, tuple(groups), tuple(columns), first))
                    first, held, groups = first + held, 0, []
            row += metadata.num_rows
        return made

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        self._check_same([column])
        names = [x.casefold() for schema in self._schemas for x in schema.names]
        if names.count(column.casefold()) == len(self.paths):
            sql = f"select distinct {quoted(column)} from read_parquet({file_list(self.paths)})"
            with _relation(sql, None) as relation:
                return _first_column(relation)
        # DuckDB takes "a" and "A" for one name
        seen = [pc.unique(x[column]) for part in self.fragments([column]) for x in part.records()]
        return decoded(pc.unique(pa.chunked_array([decoded(x) for x in seen])))

    def _check_same(self, columns: Sequence[str]) -> None:
        for path, schema in zip(self.paths[1:], self._schemas[1:], strict=True):
            for name in columns:
                if name not in schema.names:
                    raise DataError(
                        f"column {name!r} is in {self.paths[0]!r} and not in {path!r}; read them as two logs"
                    )
                here, first = schema.field(name).type, self.schema.field(name).type
                if _family(here) != _family(first):
                    raise DataError(
                        f"column {name!r} has type {first} in {self.paths[0]!r} and {here} in {path!r}; "
                        "write both files with the same types"
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


@dataclass(frozen=True)
class QueryFragment:
    """Columns of the whole answer to a query."""

    sql: str
    columns: tuple[str, ...]
    connection: Any = None
    start: int = 0

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        with _relation(self.sql, self.connection) as relation:
            for record in _stream(_columns(relation, self.columns)):
                for at in range(0, record.num_rows, BATCH_ROWS):
                    yield record.slice(at, BATCH_ROWS)


class QuerySource:
    """The answer to a DuckDB query; re-run at each pass, so its order may differ unless `steady`."""

    rows = None

    def __init__(self, sql: str, name: str = "the query", connection: Any = None, steady: bool = False) -> None:
        self.sql, self.name, self._connection, self.steady = _one_statement(sql), name, connection, steady
        with _relation(self.sql, connection) as relation:
            self.schema: pa.Schema = pa.RecordBatchReader.from_stream(relation.limit(0)).schema

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the one fragment that there is."""
        return [QueryFragment(self.sql, tuple(columns), self._connection)]

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        with _relation(self.sql, self._connection) as relation:
            return _first_column(_columns(relation, [column]).distinct())


def _one_statement(sql: str) -> str:
    """Return the text of the one query that there must be, without a semicolon and comments at its end."""
    import duckdb

    with _duckdb_errors(sql):
        statements = duckdb.extract_statements(sql)
        tokens = duckdb.tokenize(sql)
    if len(statements) != 1:
        raise UsageError(f"got {len(statements)} SQL statements, expected one query that gives the rows")
    end = len(sql.encode())
    while tokens and (tokens[-1][1] == duckdb.token_type.comment or sql.encode()[tokens[-1][0] :][:1] == b";"):
        end = tokens.pop()[0]
    return sql.encode()[:end].decode().strip()


@contextmanager
def _relation(sql: str, connection: Any) -> Iterator[Any]:
    """Give a DuckDB relation on a cursor of its own, closed at the end: an open reader owns it."""
    import duckdb

    # a table name must never mean a Python variable that happens to have it
    own: dict[str, Any] = {"python_enable_replacements": "false"}
    with (
        _duckdb_errors(sql),
        duckdb.connect(config=own) if connection is None else connection.cursor() as cursor,
    ):
        # DuckDB would draw its own bar on stdout, where results go; the setting is this cursor's alone
        cursor.execute("set enable_progress_bar = false")
        try:
            relation = cursor.sql(sql)
        except duckdb.CatalogException:
            if connection is None:
                raise
            # temporary tables and registered data frames are known to the user's own connection only
            relation = connection.sql(sql)
        yield relation


def first_row(sql: str) -> tuple[Any, ...]:
    """Return the first row of the answer to a query over files.

    >>> first_row("select 1, 'a'")
    (1, 'a')
    """
    with _relation(sql, None) as relation:
        row: tuple[Any, ...] = relation.limit(1).fetchall()[0]
        return row


def _stream(relation: Any) -> Any:
    """Return a reader of the rows of a relation; lists may be long, so that few rows come at a time."""
    if not any(str(x).endswith("]") for x in relation.types):
        return pa.RecordBatchReader.from_stream(relation)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return reader(_ROWS_OF_LISTS)


def _columns(relation: Any, names: Sequence[str]) -> Any:
    return relation.project(", ".join(quoted(x) for x in names))


def _first_column(relation: Any) -> pa.Array:
    return decoded(pa.RecordBatchReader.from_stream(relation).read_all().column(0))


@contextmanager
def _duckdb_errors(sql: str) -> Iterator[None]:
    """Turn DuckDB's own errors into one line."""
    import duckdb

    try:
        yield
    except (duckdb.IOException, OSError) as cause:
        raise FileError(f"the file cannot be read ({_line(cause)}); asked: {_line(sql)}") from None
    except (duckdb.Error, pa.ArrowException) as cause:
        if "CSV" in str(cause):
            raise DataError(_csv_fault(str(cause))) from None
        raise DataError(f"DuckDB could not read the rows: {_line(cause)}; asked: {_line(sql)}") from None


def _csv_fault(text: str) -> str:
    """Return what DuckDB says about a CSV file as one line with file, line and fault."""
    found = {
        key: hit[1].strip()
        for key, pattern in (
            ("line", r"CSV Error on Line: (\d+)"), ("fields", r"Found: (\d+)"), ("names", r"Number of Columns: (\d+)"),
            ("file", r"\n +file = ([^\n]*)"), ("row", r"Original Line: ([^\n]*)"),
        )
        if (hit := re.search(pattern, text))
    }  # fmt: skip
    where = (f"line {found['line']} of " if "line" in found else "") + (repr(found["file"]) if "file" in found else "")
    row = f": {found['row'][:80]!r}" if found.get("row") else ""
    if "fields" in found and "names" in found:
        return (
            f"{where} has {found['fields']} fields where the header names {found['names']} columns{row}; "
            "correct the line (a field that holds a delimiter needs double quotes)"
        )
    if "unterminated quote" in text:
        return f"{where} has a double quote that is not closed or not doubled{row}; correct the line"
    if "invalid state" in text:
        return f"{where or 'the CSV file'} mixes line ends or quotes wrongly; write it again with one kind of line end"
    return f"{where or 'the CSV file'} cannot be read as CSV ({_line(text)})"


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


def _line(cause: BaseException | str) -> str:
    return " ".join(str(cause).split())[:300]
