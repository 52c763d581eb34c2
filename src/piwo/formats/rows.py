"""The rows of a log as they are written: raw, and validated."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from piwo.checks import check_kind, check_path
from piwo.engines.settings import current_progress
from piwo.errors import UsageError
from piwo.files import writing
from piwo.logs.batch import Batch, Floats
from piwo.logs.findings import Finding, Refused
from piwo.logs.log import Log
from piwo.logs.reader import warn_of
from piwo.logs.validation import rewards, validate
from piwo.messages import argument, rendered
from piwo.records import Record
from piwo.sources.gzip_files import is_packed
from piwo.visible import visible

__all__ = [
    "Written",
    "require_fixed_actions",
    "require_writable",
    "rewards_of",
    "rows_of",
    "written_lines",
]


@dataclass(frozen=True)
class Written(Record):
    """What was written to a file, and what of the log the file does not hold.

    >>> print(Written("log.vw", 2, ("the unit 'user'",)))
    wrote 2 rows to log.vw; left out: the unit 'user'
    """

    path: str
    """The file."""
    rows: int
    """How many rows it holds."""
    left_out: tuple[str, ...] = ()
    """What a reader of the file does not get, in words."""
    items_label: str | None = None
    """What `items_label` of `piwo.read` has to name, so that actions have their labels; None: they
    need no name, or have none in this file."""

    def __str__(self) -> str:
        text = f"wrote {self.rows:,} rows to {visible(self.path)}"
        if self.left_out:
            text += f"; left out: {', '.join(map(visible, self.left_out))}"
        if self.items_label is not None:
            named = argument("items_label", self.items_label)
            text += rendered(f"; {named} reads the labels of actions")
        return text


def require_writable(log: Log, what: str) -> None:
    """Raise for a log of which a file would say something else.

    Args:
        log: the log.
        what: the kind of file, in words.

    Raises:
        UsageError: for what is not a log, for rows in a cluster, and for propensities that are
            estimated or have an error.
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    log.require_one_machine(f"writing {what}")
    if log.propensity_error is not None:
        raise UsageError(
            f"the propensities of {log.name} are estimated, or have a declared error, which {what} "
            "cannot say; write the log before they are, and estimate or declare when it is read"
        )


def require_fixed_actions(log: Log, what: str, advice: str = ".parquet or .jsonl") -> None:
    """Raise for a log whose eligible actions a file would not hold.

    Without them a policy is evaluated as if it could take any action, which changes its value.

    Args:
        log: the log.
        what: the kind of file, in words.
        advice: what to write instead.

    Raises:
        UsageError: for logs with eligible actions.
    """
    if log.columns.eligible is not None:
        raise UsageError(
            f"eligible actions change from row to row (column {log.columns.eligible!r}), which "
            f"{what} cannot say; write {advice}"
        )


def rows_of(
    log: Log, columns: Sequence[str], context: bool = False
) -> Iterator[tuple[pa.RecordBatch, Batch]]:
    """Yield raw rows and the same rows validated, and report progress.

    Args:
        log: the log.
        columns: those of the raw rows.
        context: whether the context is validated, too.

    Raises:
        DataError: for rows that break a rule, with counts over the whole log.
    """
    reader = replace(log.reader(context=context), by_unit=False)
    wanted = dict.fromkeys([*log.wanted(context, propensities=True), *columns])
    notes: list[Finding] = []
    progress = current_progress()
    if progress is not None:
        progress(0, log.source.rows)
    for fragment in log.source.fragments(tuple(wanted)):
        for record, rows in reader.records(fragment):
            try:
                batch, findings = validate(record, reader.schema, rows)
            except Refused as refused:
                raise log.counted(refused) from None
            notes += findings
            yield record, batch
            if progress is not None:
                progress(record.num_rows, log.source.rows)
    warn_of(notes)


def rewards_of(log: Log, record: pa.RecordBatch, batch: Batch) -> Floats:
    """Return the rewards of some rows in the log's own unit, (n,); net of action costs.

    Args:
        log: the log.
        record: the raw rows.
        batch: the same rows, validated.

    >>> log = Log.from_arrays(action=[0], reward=[0.3], propensity=[1.0], reward_range=(-1, 1))
    >>> [rewards_of(log, record, batch).tolist() for record, batch in rows_of(log, ())]
    [[0.3]]
    """
    # to the last digit: the way to the unit scale and back may change it
    schema = log.reader(context=False).schema
    found = rewards(record, schema, batch.row_numbers, own_unit=True)
    # -0.0 would be written as such.
    return found + 0.0


@contextmanager
def written_lines(path: str | Path) -> Iterator[Any]:
    """Return a block that writes lines of bytes to a file, packed if its name ends in .gz.

    The file replaces an old one at the end of the block, or never.

    >>> with written_lines("some.txt") as out:
    ...     size = out.write(b"1")
    """
    with writing(Path(path)) as out:
        if not is_packed(str(path)):
            yield out
            return
        # The same rows give the same bytes: no clock, no name.
        with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
            yield packed


def require_path(path: Any) -> str:
    """Return a path as text.

    Raises:
        UsageError: for anything else.
    """
    check_path(path)
    return str(path)
