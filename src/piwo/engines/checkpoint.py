"""Checkpoints: what passes over a log have summed so far, in one file, so that killing a process loses seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from piwo._version import __version__
from piwo.checks import check_non_negative, check_path
from piwo.engines.fingerprint import fingerprint
from piwo.errors import FileError
from piwo.files import write_file
from piwo.logs.log import Log
from piwo.logs.validation import Finding, merge_findings
from piwo.reductions.packed import packed, unpacked
from piwo.reductions.reduction import Reduction
from piwo.sources import source as sources

__all__ = ["Checkpoint", "Passed", "checkpointing", "current"]

_FORMAT = "piwo checkpoint 1"
_SHARE = 20
"""A file that takes a second to write is written again after twenty seconds at the earliest."""


@dataclass(frozen=True)
class Passed:
    """How far one pass has come: the state of its first pieces, folded in order."""

    state: Any
    findings: tuple[Finding, ...] = ()
    rows: int = 0
    pieces: int = 0
    done: bool = False

    def plus(self, state: Any, findings: Sequence[Finding], rows: int) -> Passed:
        """Return the pass with one piece more, its state merged already."""
        notes = merge_findings((*self.findings, *findings)) if findings else self.findings
        return replace(
            self, state=state, findings=notes, rows=self.rows + rows, pieces=self.pieces + 1
        )


@dataclass
class Checkpoint:
    """The passes of one computation in the order in which they begin, and the file that keeps them."""

    path: Path
    every: float
    passes: list[tuple[str, str, str, Passed]] = field(default_factory=list)
    """Name and identity of the log, identity of the reduction, how far it has come."""
    begun: int = 0
    written: float = field(default_factory=time.monotonic)
    took: float = 0.0

    def begin(self, log: Log, reduction: Reduction[Any], cut: str) -> Passed:
        """Return how far the next pass had come when the file was written; nowhere if it had not begun.

        Args:
            log: what is read.
            reduction: what is summed.
            cut: how the engine cuts the log.

        Raises:
            FileError: where the file is of another log, or of another computation.
        """
        rows = fingerprint(log)
        work = fingerprint((reduction, cut, sources.BATCH_ROWS))
        at, self.begun = self.begun, self.begun + 1
        if at == len(self.passes):
            self.passes.append((log.name, rows, work, Passed(reduction.empty())))
            return self.passes[at][-1]
        name, known_rows, known_work, passed = self.passes[at]
        if rows != known_rows:
            was = "" if name == log.name else f" ({name!r}, not {log.name!r})"
            raise FileError(
                f"{str(self.path)!r} is a checkpoint of another log{was}, or the log has changed "
                "since; remove it to begin anew, or name another file"
            )
        if work != known_work:
            raise FileError(
                f"{str(self.path)!r} is a checkpoint of another computation on this log: other "
                "policies, options or engine; ask for the same again, remove it to begin anew, or "
                "name another file"
            )
        return passed

    def keep(self, passed: Passed) -> None:
        """Keep how far the current pass has come; the file is written where it is time."""
        self.passes[self.begun - 1] = (*self.passes[self.begun - 1][:3], passed)
        if time.monotonic() - self.written > max(self.every, _SHARE * self.took):
            self.write()

    def write(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            FileError: where it cannot be written.
        """
        started = time.monotonic()
        plain = [(*x[:3], tuple(astuple(y) for y in p.findings), p.rows, p.pieces, p.done, p.state)
                 for *x, p in self.passes]  # fmt: skip
        write_file(self.path, packed((_FORMAT, __version__, *plain)))
        self.written = time.monotonic()
        self.took = self.written - started

    def read(self) -> None:
        """Take up what the file holds, if there is one.

        Raises:
            FileError: where it is no checkpoint, or one of another version.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as cause:
            raise FileError(
                f"{str(self.path)!r} cannot be read: {cause.strerror or cause}; check the path"
            ) from None
        try:
            kind, version, *plain = unpacked(data)
            if kind != _FORMAT:
                raise ValueError(kind)
            passes = [
                (*x[:3], Passed(x[7], tuple(Finding(*y) for y in x[3]), *x[4:7])) for x in plain
            ]
        except (FileError, LookupError, TypeError, ValueError):
            raise FileError(
                f"{str(self.path)!r} is no checkpoint, or cut short or damaged; name another file, "
                "or remove it"
            ) from None
        if version != __version__:
            raise FileError(
                f"{str(self.path)!r} is a checkpoint of piwo {version}, this is {__version__}; "
                "go on with that version, or remove it to begin anew"
            )
        self.passes = passes


_current: ContextVar[Checkpoint | None] = ContextVar("piwo_checkpoint", default=None)


def current() -> Checkpoint | None:
    """Return the checkpoint of the block that we are in, None outside.

    >>> current() is None
    True
    """
    return _current.get()


@contextmanager
def checkpointing(path: str | os.PathLike[str], every: float = 10.0) -> Iterator[None]:
    """Keep what passes over logs inside the block have summed in a file, and go on from there the next time.

    A process that is killed, at whatever moment, and started again with the same file, log and
    arguments, gives the same result, bit by bit but for the time at which it was made, as one that
    was never interrupted. Kept are passes that sum; the action list, the encoding of the context,
    and what oracles learn from all rows at once are not. Passes that were done are not read again;
    the one that was not goes on after the last piece that the file has (row groups, for Parquet).
    The answer to a query whose order may change from pass to pass is read from its beginning again.
    Another log, a log that has changed, or another computation is refused. What is random must have
    a seed.

    The file is replaced in one step each time, so that it is never half written. It is removed
    where the block ends well, and kept where it ends in an error or by Ctrl-C.

    Args:
        path: the file.
        every: seconds between two writes, at least; a slow disk is given more.

    Returns:
        A context manager.

    Raises:
        FileError: where the file is no checkpoint, is one of another log, computation or version,
            or cannot be written.
        UsageError: for a negative time.

    >>> import piwo, tempfile
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> with tempfile.TemporaryDirectory() as folder, checkpointing(folder + "/sums.checkpoint"):
    ...     piwo.evaluate(log, piwo.policies.Logging()).value
    0.5
    """
    check_path(path)
    check_non_negative("every", every)
    kept = Checkpoint(Path(path), float(every))
    if not kept.path.absolute().parent.is_dir():
        raise FileError(
            f"no folder {str(kept.path.parent)!r} for the checkpoint {str(path)!r}; make it first"
        )
    kept.read()
    token = _current.set(kept)
    try:
        yield
    except BaseException:
        if kept.passes and kept.begun:
            kept.write()
        raise
    else:
        kept.path.unlink(missing_ok=True)
    finally:
        _current.reset(token)
