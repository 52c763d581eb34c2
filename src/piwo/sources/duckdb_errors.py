"""DuckDB's errors in one line each: its own are long and quote queries that piwo wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from piwo.errors import DataError, FileError
from piwo.messages import argument
from piwo.sources.addresses import shown
from piwo.sources.names import without_links
from piwo.visible import without_secrets

__all__ = ["duckdb_errors"]

_ADVICE = f"check names and types in the query, or in the condition ({argument('where')})"
_CSV_FACTS = {
    "line": r"CSV Error on Line: (\d+)",
    "fields": r"Found: (\d+)",
    "names": r"Number of Columns: (\d+)",
    "file": r"\n +file = ([^\n]*)",
    "row": r"Original Line: ([^\n]*)",
}
"""What DuckDB reports about a broken CSV file -> how it is written in the message."""


@contextmanager
def duckdb_errors(name: str) -> Iterator[None]:
    """Turn DuckDB's own errors into one line each, and its reaction to Ctrl-C into Python's.

    Args:
        name: of what is read.

    Raises:
        FileError: for files that cannot be read, and for extensions that are not installed.
        DataError: for everything else.
        KeyboardInterrupt: after Ctrl-C.
    """
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError, pa.ArrowException, RuntimeError) as cause:
        if _is_interrupt(cause):
            raise KeyboardInterrupt from None
        if isinstance(cause, RuntimeError):
            raise
        # A broken line that is met in the middle of a stream comes as an OSError of Arrow.
        is_broken_csv = "CSV Error" in str(cause) or "CSV Parser" in str(cause)
        is_file = isinstance(cause, duckdb.IOException | OSError) and not is_broken_csv
        raise _in_one_line(without_links(str(cause)), shown(name), is_file) from None


def _is_interrupt(cause: BaseException) -> bool:
    """Whether an error is DuckDB's reaction to Ctrl-C."""
    import duckdb

    if isinstance(cause, duckdb.InterruptException):
        return True
    if isinstance(cause, RuntimeError):
        return "interrupted" in str(cause)
    return "INTERRUPT Error" in str(cause)


def _in_one_line(text: str, name: str, is_file: bool) -> DataError | FileError:
    missing = re.search(r"Install it first using \W*INSTALL (\w+)", text)
    if missing:
        return FileError(
            f"DuckDB's extension {missing[1]!r}, which {name} needs, is not installed; "
            'install it once, with a network: python -c "import duckdb; '
            f"duckdb.sql('install {missing[1]}')\""
        )
    reason = _first_line(text)
    # Arrow may hand a fault in the middle of a file on as an OSError.
    if re.search(r"CSV Error|Invalid Input Error.*CSV", text, re.DOTALL):
        return DataError(_csv_fault(text))
    if is_file:
        return FileError(
            f"{name} cannot be read ({reason}); check that it exists, is complete and "
            "not in use, and that you may read it"
        )
    if "CSV" in text:
        return DataError(_csv_fault(text))
    nested = re.search(r"Failed to cast value to numerical: (\{.*)", text)
    if nested:
        return DataError(
            f"{name} holds an object where numbers are expected, such as {shown(nested[1])[:80]}; "
            "write lists of numbers (propensities in the order of the actions), or single columns"
        )
    if "Map keys must be unique" in reason:
        # Before 2.0 DuckDB gives such maps out, and the log refuses them in the same words.
        doubled = reason.replace("Map keys must be unique", "an object has a label twice")
        return DataError(f"DuckDB could not read {name}: {doubled}; correct the log")
    advice = _ADVICE
    near = re.search(r"(?:Candidate bindings:|Did you mean) ([^\n?]*)", text)
    if near:
        advice = f"did you mean {without_secrets(near[1]).strip()}? {_ADVICE}"
    if "Out of Memory" in text:
        advice = "give it less to sort, join or group at once"
    return DataError(f"DuckDB could not read {name}: {reason}; {advice}")


def _first_line(text: str) -> str:
    """Return the first line of DuckDB's message without the kind of error in front.

    Candidates for names and a drawing of the query follow in other lines.
    """
    lines = [x.strip() for x in text.splitlines() if x.strip()] or ["no reason is given"]
    first = lines[0]
    if first.endswith(":"):
        first = " ".join(lines[:2])
    return shown(re.sub(r"^[A-Z][\w ]* Error: ", "", first)).rstrip("!.")


def _csv_fault(text: str) -> str:
    """Return DuckDB's message about a CSV file as one line with file, line and fault."""
    found: dict[str, str] = {}
    for fact, pattern in _CSV_FACTS.items():
        hit = re.search(pattern, text)
        if hit:
            found[fact] = hit[1].strip()
    place = row = ""
    if "file" in found:
        place = repr(found["file"])
    if "line" in found:
        place = f"line {found['line']} of {place}"
    if found.get("row"):
        row = f": {found['row'][:80]!r}"
    if "fields" in found and "names" in found:
        return (
            f"{place} has {found['fields']} fields, but the header names "
            f"{found['names']} columns{row}; correct the line (a field that holds a "
            "delimiter needs double quotes)"
        )
    if "unterminated quote" in text:
        return (
            f"{place} has a double quote that is not closed or not doubled{row}; correct the line"
        )
    place = place or "the CSV file"
    if "invalid state" in text:
        return f"{place} mixes line ends or quotes; write it again with one kind of line end"
    return f"{place} cannot be read as CSV ({shown(text)})"
