"""Checkpoints: how far passes have come, in one file, so that killing a process loses seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from piwo._version import __version__
from piwo.checks import check_non_negative, check_path
from piwo.engines.fingerprint import fingerprint
from piwo.engines.packed import packed, unpacked
from piwo.engines.task import Task
from piwo.errors import FileError
from piwo.files import write_file
from piwo.sources import source as sources

__all__ = ["Checkpoint", "Passed", "checkpointing", "current"]

S = TypeVar("S")

_FORMAT = "piwo checkpoint 2"
_SHARE = 20
"""A file that takes a second to write is written again after twenty seconds at the earliest."""


@dataclass(frozen=True)
class Passed(Generic[S]):
    """How far one pass has come: the state of its first pieces, merged in order."""

    state: S
    rows: int = 0
    """Rows that were read."""
    pieces: int = 0
    done: bool = False


@dataclass
class _Kept:
    """One pass in a checkpoint."""

    name: str
    """Of the source."""
    source: str
    """Fingerprint of the source."""
    work: str
    """Fingerprint of the columns, the task and how the source is cut."""
    passed: Passed[Any]
    task: Task[Any] | None = None
    """None: the state is in the bytes that the task made of it."""

    def plain(self) -> tuple[Any, ...]:
        """Return the pass as `packed` writes it."""
        state, passed = self.passed.state, self.passed
        if self.task is not None:
            state = np.frombuffer(self.task.to_bytes(state), np.uint8)
        return (
            self.name,
            self.source,
            self.work,
            (state, passed.rows, passed.pieces, passed.done),
        )

    def resumed(self, task: Task[S]) -> Passed[S]:
        """Return how far the pass has come, its state as the task has it."""
        if self.task is None:
            state = task.from_bytes(self.passed.state.tobytes())
            passed = self.passed
            self.passed = Passed(state, passed.rows, passed.pieces, passed.done)
        self.task = task
        return self.passed


@dataclass
class Checkpoint:
    """The passes of one computation, in the order in which they begin, and their file."""

    path: Path
    every: float
    passes: list[_Kept] = field(default_factory=list)
    begun: int = 0
    """Passes up to the current one."""
    written: float = field(default_factory=time.monotonic)
    took: float = 0.0

    def begin(
        self, source: sources.Source, columns: Sequence[str], task: Task[S], cut: str
    ) -> Passed[S]:
        """Return how far the next pass had come when the file was written.

        A pass that had not begun is at its start. Passes in the file that are not asked for are
        skipped: an action list, for example, may be known by now.

        Args:
            source: what is read.
            columns: of it.
            task: what is computed.
            cut: how the engine cuts the source.

        Raises:
            FileError: if the file is of another source, or of another computation.
        """
        rows = fingerprint(source.source_id())
        work = fingerprint((tuple(columns), task, cut, sources.BATCH_ROWS))
        for i in range(self.begun, len(self.passes)):
            if (self.passes[i].source, self.passes[i].work) == (rows, work):
                self.begun = i + 1
                return self.passes[i].resumed(task)
        if self.begun == len(self.passes):
            self.passes.append(_Kept(source.name, rows, work, Passed(task.empty()), task))
            self.begun += 1
            return self.passes[-1].passed
        raise self._another(source.name, rows)

    def _another(self, name: str, rows: str) -> FileError:
        known = self.passes[self.begun]
        if rows != known.source:
            was = "" if name == known.name else f" ({known.name!r}, not {name!r})"
            return FileError(
                f"{str(self.path)!r} is a checkpoint of another log{was}, or the log has changed "
                "since; remove it to begin anew, or name another file"
            )
        return FileError(
            f"{str(self.path)!r} is a checkpoint of another computation on this log: other "
            "policies, options or engine; ask for the same again, remove it to begin anew, or "
            "name another file"
        )

    def keep(self, passed: Passed[Any]) -> None:
        """Keep how far the current pass has come; the file is written if it is time."""
        self.passes[self.begun - 1].passed = passed
        if time.monotonic() - self.written > max(self.every, _SHARE * self.took):
            self.write()

    def write(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            FileError: if it cannot be written.
        """
        started = time.monotonic()
        plain = (x.plain() for x in self.passes)
        write_file(self.path, packed((_FORMAT, __version__, *plain)))
        self.written = time.monotonic()
        self.took = self.written - started

    def read(self) -> None:
        """Take up what the file holds, if there is one.

        Raises:
            FileError: if it is not a checkpoint, or one of another version.
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
                _Kept(name, rows, work, Passed(*passed)) for name, rows, work, passed in plain
            ]
        except (FileError, LookupError, TypeError, ValueError):
            raise FileError(
                f"{str(self.path)!r} is not a checkpoint, or cut short or damaged; name another "
                "file, or remove it"
            ) from None
        if version != __version__:
            raise FileError(
                f"{str(self.path)!r} is a checkpoint of piwo {version}, this is {__version__}; "
                "go on with that version, or remove it to begin anew"
            )
        self.passes = passes


_current: ContextVar[Checkpoint | None] = ContextVar("piwo_checkpoint", default=None)


def current() -> Checkpoint | None:
    """Return the checkpoint of the current block, None outside.

    >>> current() is None
    True
    """
    return _current.get()


@contextmanager
def checkpointing(path: str | os.PathLike[str], every: float = 10.0) -> Iterator[None]:
    """Keep in a file what passes inside the block have computed, and go on from there next time.

    A process that is killed at any moment, and started again with the same file, log and
    arguments, gives the same result, bit by bit except for the time at which it was made, as one
    that was never interrupted. Every pass is kept: sums, the action list, the encoding of the
    context, the split. What oracles learn from all rows at once is not. Passes that were done are
    not read again; the one that was not goes on after the last piece in the file (row groups, for
    Parquet). The answer to a query whose order may change from pass to pass is read from its
    beginning again.

    Another log, a log that has changed, or another computation is refused. Records, arrays and
    fitted models count by their contents; functions and classes of your own by their name and
    source text and what functions have closed over, not by what they look up elsewhere when they
    run. What is random must have a seed.

    The file is replaced in one step each time, so that it is never half written. It is removed
    if the block ends well, and kept if it ends in an error or by Ctrl-C.

    Args:
        path: the file.
        every: seconds between two writes, at least; a slow disk is given more.

    Returns:
        A context manager.

    Raises:
        FileError: if the file is not a checkpoint, is one of another log, computation or version,
            or cannot be written.
        UsageError: for a negative time, and for a function of your own whose source text is not
            available.

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
