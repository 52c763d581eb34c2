"""Checkpoints: the progress of passes, in one file, so that killing a process loses seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from piwo._version import __version__
from piwo.checks import check_non_negative, check_path
from piwo.engines.fingerprint import fingerprint
from piwo.engines.packed import packed, unpacked
from piwo.engines.task import Task
from piwo.errors import FileError, warn
from piwo.files import read_file, require_ordinary, write_file
from piwo.sources import source as sources
from piwo.visible import without_secrets

__all__ = ["Checkpoint", "Passed", "checkpointing", "current"]

S = TypeVar("S")

_FORMAT = "piwo checkpoint 2"
_SHARE = 20
"""A file that takes a second to write is written again after twenty seconds at the earliest."""


@dataclass(frozen=True)
class Passed(Generic[S]):
    """The progress of one pass: the state of its first pieces, merged in order."""

    state: S
    rows: int = 0
    """Rows that were read."""
    pieces: int = 0
    done: bool = False
    name: str = ""
    """The name of the source."""
    source: str = ""
    """Fingerprint of the source; empty outside a checkpoint."""
    work: str = ""
    """Fingerprint of the columns, the task and how the source is cut."""
    task: Task[S] | None = None
    """None after reading a file: the state is still the bytes that the task made of it."""


def _plain(passed: Passed[Any]) -> tuple[Any, ...]:
    """Return a pass as `packed` writes it."""
    state = passed.state
    if passed.task is not None:
        state = np.frombuffer(passed.task.to_bytes(state), np.uint8)
    progress = (state, passed.rows, passed.pieces, passed.done)
    return (passed.name, passed.source, passed.work, progress)


@dataclass
class Checkpoint:
    """The passes of one computation, in the order in which they begin, and their file."""

    path: Path
    every: float
    passes: list[Passed[Any]] = field(default_factory=list)
    begun: int = 0
    """Passes up to the current one."""
    written: float = field(default_factory=time.monotonic)
    took: float = 0.0
    own: tuple[int, ...] | None = None
    """The state of the file when it was last read or written here; None: there was none."""

    def begin(
        self, source: sources.Source, columns: Sequence[str], task: Task[S], cut: str
    ) -> Passed[S]:
        """Return the progress of the next pass at the time when the file was written.

        A pass that had not begun is at its start. Passes in the file that are no longer needed are
        skipped: an action list, for example, may be known now.

        Args:
            source: the rows.
            columns: the columns that are read.
            task: what is computed.
            cut: how the engine cuts the source.

        Raises:
            FileError: if the file is of another source, or of another computation.
        """
        rows = fingerprint(source.source_id())
        work = fingerprint((tuple(columns), task, cut, sources.BATCH_ROWS))
        for i in range(self.begun, len(self.passes)):
            known = self.passes[i]
            if (known.source, known.work) == (rows, work):
                self.begun = i + 1
                state = known.state
                if known.task is None:
                    state = self._state(task, state)
                self.passes[i] = replace(known, state=state, task=task)
                return self.passes[i]
        if self.begun == len(self.passes):
            fresh = Passed(task.empty(), name=source.name, source=rows, work=work, task=task)
            self.passes.append(fresh)
            self.begun += 1
            return fresh
        raise self._another(source.name, rows)

    def _state(self, task: Task[S], data: Any) -> S:
        """Return the state in the bytes of a file."""
        try:
            return task.from_bytes(data.tobytes())
        except Exception:  # noqa: BLE001 (damaged bytes can raise anything)
            raise FileError(
                f"{str(self.path)!r} is a damaged checkpoint; remove it to begin anew, or name "
                "another file"
            ) from None

    def _another(self, name: str, rows: str) -> FileError:
        known = self.passes[self.begun]
        if rows != known.source:
            was = ""
            if name != known.name:
                was = f" ({known.name!r}, not {name!r})"
            return FileError(
                f"{str(self.path)!r} is a checkpoint of another log{was}, or the log "
                "has changed since; remove it to begin anew, or name another file"
            )
        return FileError(
            f"{str(self.path)!r} is a checkpoint of another computation on this log: "
            "other policies, options or engine; ask for the same again, remove it to "
            "begin anew, or name another file"
        )

    def keep(self, passed: Passed[Any]) -> None:
        """Keep the progress of the current pass; write the file if that is due."""
        self.passes[self.begun - 1] = passed
        if time.monotonic() - self.written > max(self.every, _SHARE * self.took):
            self.write()

    def write(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            FileError: if it cannot be written, and if another file has taken its place.
        """
        started = time.monotonic()
        if self.replaced:
            raise FileError(
                f"{str(self.path)!r} is the checkpoint, and something else wrote a file there, "
                "which is kept; give the checkpoint a path of its own"
            )
        write_file(self.path, packed((_FORMAT, __version__, *map(_plain, self.passes))))
        self.written = time.monotonic()
        self.took = self.written - started
        self.own = _state_of(self.path)

    @property
    def replaced(self) -> bool:
        """Whether something else wrote to the path since: what is there now is not a checkpoint."""
        now = _state_of(self.path)
        return now is not None and now != self.own

    def remove(self) -> None:
        """Remove the file at the end of the computation, unless something else wrote it."""
        if self.replaced:
            warn(
                f"{str(self.path)!r} was the checkpoint, and something else wrote a file there, "
                "which is kept; give the checkpoint a path of its own"
            )
            return
        self.path.unlink(missing_ok=True)

    def read(self) -> None:
        """Take over the passes of the file, if it exists.

        Raises:
            FileError: if it is not a checkpoint, or one of another version.
        """
        require_ordinary(self.path)
        if not self.path.exists():
            return
        data = read_file(self.path)
        try:
            kind, version, *plain = unpacked(data)
            if kind != _FORMAT:
                raise ValueError(kind)
            passes: list[Passed[Any]] = []
            for name, source, work, progress in plain:
                state, rows, pieces, done = progress
                facts = [type(x) for x in (rows, pieces, done, name, source, work)]
                if facts != [int, int, bool, str, str, str] or state.dtype != np.uint8:
                    raise ValueError(facts)
                passes.append(Passed(state, rows, pieces, done, name, source, work))
        except (FileError, LookupError, TypeError, ValueError, AttributeError):
            raise FileError(
                f"{str(self.path)!r} is not a checkpoint, or cut short or damaged; "
                "name another file, or remove it"
            ) from None
        if version != __version__:
            raise FileError(
                f"{str(self.path)!r} is a checkpoint of piwo {version!s:.40}, this is "
                f"{__version__}; go on with that version, or remove it to begin anew"
            )
        self.passes = passes
        self.own = _state_of(self.path)


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced or written; None for a missing file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


_current: ContextVar[Checkpoint | None] = ContextVar("piwo_checkpoint", default=None)


def current() -> Checkpoint | None:
    """Return the checkpoint of the current block, None outside.

    >>> current() is None
    True
    """
    return _current.get()


@contextmanager
def checkpointing(path: str | os.PathLike[str], every: float = 10.0) -> Iterator[None]:
    """Keep in a file what passes inside the block have computed, and continue from it next time.

    A process that is killed at any moment, and started again with the same file, log and
    arguments, gives the same result as one that was never interrupted, bit by bit except for the
    time of creation. Every pass is kept: sums, the action list, the encoding of the context, the
    split. What oracles learn from all rows at once is not kept. Completed passes are not repeated;
    the interrupted one continues after the last piece in the file (row groups, for Parquet). The
    result of a query whose order may change from pass to pass is read from its beginning again.

    Another log, a log that has changed, or another computation is refused. Records, arrays and
    fitted models are compared by their contents; your own functions and classes by their name,
    source text and closures, not by what they look up elsewhere when they run. What is random must
    have a seed.

    The file is replaced in one step each time, so that it is never half written. It is removed
    if the block ends normally, and kept if it ends in an error or by Ctrl-C.

    Args:
        path: the file.
        every: least number of seconds between two writes; more for a slow disk.

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
            f"no folder {without_secrets(kept.path.parent)!r} for the checkpoint "
            f"{without_secrets(path)!r}; make it first"
        )
    kept.read()
    token = _current.set(kept)
    try:
        yield
    except BaseException:
        if kept.passes and kept.begun and not kept.replaced:
            kept.write()
        raise
    else:
        kept.remove()
    finally:
        _current.reset(token)
