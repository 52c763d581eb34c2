"""What DuckDB says of a failure, in one line of ours: its own are pages long and quote queries that nobody typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from piwo.errors import DataError, FileError
from piwo.messages import argument
from piwo.sources.addresses import without_secrets

__all__ = ["duckdb_errors", "is_interrupt", "one_line"]

_ADVICE = f"check names and types in the query, or in the condition ({argument('where')})"


@contextmanager
def duckdb_errors(name: str) -> Iterator[None]:
    """Turn DuckDB's own errors into one line, and its answer to Ctrl-C into what Python raises then.

    Args:
        name: what is read.

    Raises:
        FileError: for files that cannot be read, and extensions that are not installed.
        DataError: for everything else.
        KeyboardInterrupt: after Ctrl-C.
    """
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError, pa.ArrowException, RuntimeError) as cause:
        if is_interrupt(cause):
            raise KeyboardInterrupt from None
        if isinstance(cause, RuntimeError):
            raise
        raise _told(cause, name, isinstance(cause, duckdb.IOException | OSError)) from None


def is_interrupt(cause: BaseException) -> bool:
    """Whether an error is DuckDB's answer to Ctrl-C.

    >>> is_interrupt(RuntimeError("Query interrupted")), is_interrupt(OSError("no such file"))
    (True, False)
    """
    import duckdb

    if isinstance(cause, duckdb.InterruptException):
        return True
    return ("interrupted" if isinstance(cause, RuntimeError) else "INTERRUPT Error") in str(cause)


def _told(cause: BaseException, name: str, of_file: bool) -> DataError | FileError:
    text = str(cause)
    lacking = re.search(r"Install it first using \W*INSTALL (\w+)", text)
    if lacking:
        return FileError(
            f"DuckDB's extension {lacking[1]!r}, which {one_line(name)} needs, is not installed; "
            "install it once, with a network: python -c \"import duckdb; duckdb.sql('install "
            f"{lacking[1]}')\""
        )
    said = _first_line(text)
    if of_file:
        return FileError(
            f"{one_line(name)} cannot be read ({said}); check that it is there, whole, and free to "
            "be read"
        )
    if "CSV" in text:
        return DataError(_csv_fault(text))
    near = re.search(r"(?:Candidate bindings:|Did you mean) ([^\n?]*)", text)
    hint = f"did you mean {without_secrets(near[1]).strip()}? " if near else ""
    advice = (
        "give it less to sort, join or group at once" if "Out of Memory" in text else hint + _ADVICE
    )
    return DataError(f"DuckDB could not read {one_line(name)}: {said}; {advice}")


def _first_line(text: str) -> str:
    """Return what DuckDB says first, without the kind of the error; candidates and a drawing of the query follow."""
    lines = [x.strip() for x in text.splitlines() if x.strip()] or ["no reason is given"]
    first = lines[0] if not lines[0].endswith(":") else " ".join(lines[:2])
    return one_line(re.sub(r"^[A-Z][\w ]* Error: ", "", first)).rstrip("!.")


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
    where = (f"line {found['line']} of " if "line" in found else "") + (
        repr(found["file"]) if "file" in found else ""
    )
    row = f": {found['row'][:80]!r}" if found.get("row") else ""
    if "fields" in found and "names" in found:
        return (
            f"{where} has {found['fields']} fields where the header names {found['names']} "
            f"columns{row}; correct the line (a field that holds a delimiter needs double quotes)"
        )
    if "unterminated quote" in text:
        return (
            f"{where} has a double quote that is not closed or not doubled{row}; correct the line"
        )
    if "invalid state" in text:
        return f"{where or 'the CSV file'} mixes line ends or quotes wrongly; write it again with one kind of line end"
    return f"{where or 'the CSV file'} cannot be read as CSV ({one_line(text)})"


def one_line(cause: BaseException | str) -> str:
    """Return a message or a query as one line, without secrets.

    >>> one_line("select  *  from 's3://me:secret@host/x'")
    "select * from 's3://***@host/x'"
    """
    return without_secrets(" ".join(str(cause).split()))[:300]
