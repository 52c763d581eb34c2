"""Writes decisions and rewards so that no acknowledged row is lost; `piwo.read` reads the folder.

Rows are appended to a file of JSON lines and synchronized with the disk before a call returns. A
file that has enough rows becomes Parquet, in a thread of its own. See `piwo.logs.served` for what
the folder holds.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self
from uuid import uuid4

import pyarrow as pa

from piwo.checks import check_count, check_finite, check_flag, check_kind, check_positive
from piwo.errors import DataError, FileError, UsageError
from piwo.files import writing
from piwo.logs.actions import Actions
from piwo.logs.features import Features
from piwo.logs.options import check_reward_range
from piwo.logs.served import (
    ACKNOWLEDGED,
    ITEMS,
    MANIFEST,
    RESERVED,
    SEVERAL,
    Manifest,
    Piece,
    acknowledged_bytes,
    manifest_of,
    piece_table,
)
from piwo.messages import argument
from piwo.serve.encoding import is_utf8, text_of
from piwo.serve.values import KINDS, plain_value
from piwo.visible import without_secrets

__all__ = ["LogWriter"]

_OWN_NAME = re.compile(r"(decisions|rewards)-\d{8}T\d{6}-\d+-[0-9a-f]{8}\.jsonl", re.ASCII)
"""Names that `LogWriter._new` makes; other files in the folder are left alone."""


@dataclass
class _Open:
    """A file of JSON lines that is being written."""

    handle: int
    path: Path
    born: float
    size: int = 0
    """Bytes that were acknowledged."""
    rows: int = 0
    torn: bool = False
    """Whether rows that were not acknowledged may follow the others."""

    def cut(self) -> None:
        """Remove what was not acknowledged."""
        os.ftruncate(self.handle, self.size)
        os.lseek(self.handle, self.size, os.SEEK_SET)
        self.torn = False


class LogWriter:
    """Appends decisions and rewards to a folder that `piwo.read` reads without further options.

    Several processes may write into one folder, each into files of its own, and a reward may be
    written by another process than its decision. When a folder is opened, the files that killed
    processes left become Parquet. May be called from several threads.

    Args:
        folder: made if there is none.
        actions: the action list.
        features: the context columns, as a policy encodes them.
        also: other columns of the context to log, and whether each is "number", "text" or "vector":
            a policy that ignores the context logs none, and nothing could be learned from it.
        items: features of the eligible actions to log with each decision, name -> "number", "text"
            or "vector", for policies that score items by features; see `Server.decide`. The actions
            may then be others in every decision. None: as the folder has them, none in a new one.
        reward_range: the declared (lo, hi) of the reward; None: (0, 1), or that of the folder.
        window: seconds after a decision in which a reward counts; decisions whose window is not
            over are not read. None: a reward counts at any time.
        absent: what a decision without a reward earned; None: the lower end of the range.
        several: what several rewards of a decision mean: "first", "last", "sum" or "max".
        unit: the name of a value in the context, such as "user", whose decisions depend on each
            other; it is logged as text.
        rows_a_file: after how many rows a file becomes Parquet.
        seconds_a_file: after how many seconds, at the next row.
        sync: whether to wait until rows are on the disk. False: a row survives the end of this
            process, but not that of the machine.

    Raises:
        UsageError: for names that a log has itself, and for a folder of another log.
        FileError: if the folder cannot be written.

    >>> import tempfile, piwo
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LogWriter(folder, Actions(["a", "b"]), Features(())) as log:
    ...         log.decisions([{"decision_id": "1", "time": 0, "action": "a", "propensity": 0.5}])
    ...         log.rewards([{"decision_id": "1", "time": 9, "reward": 1.0}])
    ...     read = piwo.read(folder)
    ...     [(batch.action.tolist(), batch.reward.tolist()) for batch in read.each_batch()]
    [([0], [1.0])]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        actions: Actions,
        features: Features,
        *,
        also: Mapping[str, str] | None = None,
        items: Mapping[str, str] | None = None,
        reward_range: tuple[float, float] | None = None,
        window: float | None = None,
        absent: float | None = None,
        several: Literal["first", "last", "sum", "max"] | None = None,
        unit: str | None = None,
        rows_a_file: int = 50_000,
        seconds_a_file: float = 3600.0,
        sync: bool = True,
    ) -> None:
        check_kind("actions", actions, Actions)
        check_kind("features", features, Features)
        check_count("rows_a_file", rows_a_file, 1)
        check_positive("seconds_a_file", seconds_a_file)
        check_flag("sync", sync)
        self.folder = Path(folder)
        self._asked = _asked(reward_range, window, absent, several, unit, items)
        self.manifest = self._shared_manifest(actions, _with(_columns_of(features), also))
        self.reward_range = self.manifest.reward_range
        self.rows_a_file, self.seconds_a_file, self.sync = rows_a_file, seconds_a_file, sync
        self.problem: str | None = None
        """Why the last file could not become Parquet; its rows are kept as JSON lines."""
        self._actions = Actions(self.manifest.actions)
        self._open: dict[Piece, _Open] = {}
        self._locks: dict[Piece, threading.Lock] = {
            "decisions": threading.Lock(),
            "rewards": threading.Lock(),
        }
        self._pool = ThreadPoolExecutor(1, "piwo-log")
        self._closed = False
        names = list(self.manifest.context)
        if self.manifest.unit is not None:
            names.append(self.manifest.unit)
        self.columns = frozenset(names)
        """What is logged of a context."""
        self._recover()

    def check_fits(
        self, actions: Actions, features: Features, items: Mapping[str, str] | None = None
    ) -> None:
        """Raise unless decisions over these actions and columns can be logged here.

        Args:
            actions: of the policy; if the log has features of items, other labels will do.
            features: the context columns of the policy.
            items: the features of items that it reads.

        Raises:
            UsageError: naming what differs.
        """
        if self.manifest.items is not None:
            # Items change; what they are called does not.
            same = isinstance(actions.labels[0], int) == isinstance(self._actions.labels[0], int)
        else:
            same = actions == self._actions
        if not same:
            raise UsageError(
                f"the policy has the actions {actions.preview()}, the log in "
                f"{without_secrets(self.folder)!r} has {self._actions.preview()}; log to a new "
                "folder"
            )
        for name, kind in (items or {}).items():
            if self.manifest.items is not None and self.manifest.items.get(name) != kind:
                raise UsageError(
                    f"the policy takes {name!r} ({kind}) of items, which the log in "
                    f"{without_secrets(self.folder)!r} does not have; log to a new folder"
                )
        for name, kind in (self.manifest.items or {}).items():
            if items is not None and kind == "vector" and name not in items:
                raise UsageError(
                    f"{name!r} of items is a vector that the policy does not read, so nothing says "
                    "how long it is; log a number for each of its entries"
                )
        wanted = _columns_of(features)
        for name, kind in wanted.items():
            if self.manifest.context.get(name) != kind:
                raise UsageError(
                    f"the policy takes the context column {name!r} ({kind}), which the log in "
                    f"{without_secrets(self.folder)!r} does not have; log to a new folder"
                )

    def context_of(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a context that are logged, in the types of the log.

        Raises:
            DataError: for a value of another type, and without the unit.
        """
        found: dict[str, Any] = {}
        for name, kind in self.manifest.context.items():
            value = context.get(name)
            # Most values are finite numbers, and a server has no time to look twice.
            ordinary = type(value) is float and kind == "number" and value - value == 0.0
            found[name] = value if ordinary else plain_value(name, kind, value)
        unit = self.manifest.unit
        if unit is not None:
            if context.get(unit) is None:
                raise DataError(f"the context has no {unit!r}, the unit of the log; give it")
            found[unit] = text_of(unit, context[unit])
        return found

    def decisions(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write decisions; when this returns, they are on the disk.

        Args:
            rows: as `Server.choose` makes them; times are whole microseconds since 1970.

        Raises:
            FileError: if they cannot be written; then none of them is in the log.
            UsageError: after `close`.
        """
        self._append("decisions", rows)

    def rewards(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rewards; when this returns, they are on the disk.

        Args:
            rows: with `decision_id`, `time` and `reward`.

        Raises:
            FileError: if they cannot be written; then none of them is in the log.
            UsageError: after `close`.
        """
        self._append("rewards", rows)

    def check_room(self) -> None:
        """Write a file into the folder, and remove it.

        Raises:
            FileError: if it cannot be written.
        """
        path = self.folder / f".room-{uuid4().hex}"
        try:
            with path.open("xb") as out:
                _write_all(out.fileno(), bytes(2**16))
                os.fsync(out.fileno())
        except OSError as cause:
            raise FileError(
                f"{without_secrets(self.folder)!r} cannot be written: {cause.strerror or cause}; "
                "make room, or check the folder"
            ) from None
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def rotate(self) -> None:
        """Let what was written so far become Parquet, and wait for it.

        Raises:
            UsageError: after `close`.
        """
        for piece, lock in self._locks.items():
            with lock:
                self._check_open()
                self._finish(piece)
        self._pool.submit(_nothing).result()

    def close(self) -> None:
        """Let all files become Parquet. Nothing can be written afterwards."""
        for piece, lock in self._locks.items():
            with lock:
                self._closed = True
                self._finish(piece)
        self._pool.shutdown()

    def _check_open(self) -> None:
        """Raise if the writer was closed; under a lock, so that no row is written after that."""
        if self._closed:
            raise UsageError(
                f"the log in {without_secrets(self.folder)!r} was closed by this writer, and "
                "nothing was logged; make a new LogWriter for the folder"
            )

    def __enter__(self) -> Self:
        """Return the writer; `close` is called at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the log."""
        self.close()

    def _append(self, piece: Piece, rows: Sequence[Mapping[str, Any]]) -> None:
        lines = [json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows]
        data = "".join(f"{line}\n" for line in lines).encode()
        with self._locks[piece]:
            self._check_open()
            try:
                file = self._open.get(piece)
                if file is None:
                    file = self._open[piece] = self._new(piece)
                self._put(piece, file, data)
            except OSError as cause:
                raise FileError(
                    f"{len(rows):,} {piece} cannot be logged in {without_secrets(self.folder)!r}: "
                    f"{cause.strerror or cause}; make room, or check the folder"
                ) from None
            file.size += len(data)
            file.rows += len(rows)
            old = time.monotonic() - file.born >= self.seconds_a_file
            if old or file.rows >= self.rows_a_file:
                self._finish(piece)

    def _put(self, piece: Piece, file: _Open, data: bytes) -> None:
        """Write bytes at the end of a file, all of them or none.

        Raises:
            OSError: if they cannot be written.
        """
        try:
            if file.torn:
                file.cut()
            _write_all(file.handle, data)
            if self.sync:
                _fsync(file.handle)
        except BaseException:
            # What was not acknowledged must not be read, and no later row may follow half a line.
            try:
                file.cut()
            except OSError:
                self._give_up(piece, file)
            raise

    def _give_up(self, piece: Piece, file: _Open) -> None:
        """Close a file that ends with rows that were not acknowledged; mark where they begin."""
        try:
            _create(file.path.with_suffix(ACKNOWLEDGED), f"{file.size}\n".encode())
        except OSError:
            # It stays open, and nothing is written before it can be cut.
            file.torn = True
            return
        del self._open[piece]
        os.close(file.handle)

    def _new(self, piece: Piece) -> _Open:
        """Return a new file of lines, locked for as long as this process writes it."""
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        name = f"{piece}-{moment}-{os.getpid()}-{uuid4().hex[:8]}.jsonl"
        path, hidden = self.folder / name, self.folder / f".{name}"
        handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0))
        try:
            _lock(handle)
            # Under its own name only when it is locked: see `_recover`.
            hidden.rename(path)
            _sync_folder(self.folder)
        except BaseException:
            os.close(handle)
            hidden.unlink(missing_ok=True)
            raise
        return _Open(handle, path, time.monotonic())

    def _finish(self, piece: Piece) -> None:
        """Close the open file of a kind; a thread makes it Parquet."""
        file = self._open.pop(piece, None)
        if file is not None:
            self._pool.submit(self._seal, file.path, piece, file.handle, file.size)

    def _seal(self, path: Path, piece: Piece, handle: int, size: int | None = None) -> None:
        """Make a file of lines Parquet, then remove it. If that fails, the lines stay.

        Args:
            path: of the file.
            piece: what it holds.
            handle: of the file, closed at the end.
            size: bytes that were acknowledged; None: all, unless a file says how many.
        """
        import pyarrow.parquet as pq

        try:
            table = piece_table(acknowledged_bytes(path)[:size], self.manifest.schema(piece), path)
            if len(table):
                with writing(path.with_suffix(".parquet")) as out:
                    pq.write_table(table, out, compression="zstd", write_page_checksum=True)
                _sync_folder(self.folder)
            if len(table) or not path.stat().st_size:
                path.unlink()
            else:
                # Not a row is whole, and what the bytes are is not known: they are kept.
                path.rename(path.with_suffix(".damaged"))
        except (OSError, FileError, pa.ArrowException) as cause:
            self.problem = f"{path.name}: {cause}"
        finally:
            os.close(handle)

    def _recover(self) -> None:
        """Make Parquet of the files that killed processes left."""
        for path in sorted(self.folder.glob("*-*.jsonl")):
            if not _OWN_NAME.fullmatch(path.name):
                continue
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
                try:
                    free = _lock(handle)
                except OSError:
                    os.close(handle)
                    raise
                piece: Piece = "rewards" if path.name.startswith("rewards-") else "decisions"
                if not free:
                    os.close(handle)
                elif path.with_suffix(".parquet").exists():
                    # It was killed between writing Parquet and removing the lines.
                    path.unlink()
                    os.close(handle)
                else:
                    self._pool.submit(self._seal, path, piece, handle)

    def _shared_manifest(self, actions: Actions, columns: dict[str, str]) -> Manifest:
        """Return the manifest of the folder; make both if there is none."""
        unit = self._asked.get("unit")
        names = list(columns)
        if unit is not None:
            names.append(unit)
        _check_names(names, actions, "items" in self._asked)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            found = manifest_of(self.folder)
            if found is None:
                made = Manifest(columns, actions.labels, **self._asked)
                if "absent" not in self._asked:
                    low = made.reward_range[0]
                    made = Manifest(columns, actions.labels, **self._asked, absent=low)
                _create(self.folder / MANIFEST, made.to_json().encode())
                # Another process may have been first.
                found = manifest_of(self.folder) or made
        except OSError as cause:
            raise FileError(
                f"{without_secrets(self.folder)!r} cannot be written: {cause.strerror or cause}; "
                "check the folder"
            ) from None
        for name, value in self._asked.items():
            if getattr(found, name) != value:
                raise UsageError(
                    f"{argument(name, value)}, but the log in {without_secrets(self.folder)!r} "
                    f"was made with {getattr(found, name)!r}; log to a new folder"
                )
        return found


def _asked(
    reward_range: tuple[float, float] | None,
    window: float | None,
    absent: float | None,
    several: str | None,
    unit: str | None,
    items: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return what was declared, checked."""
    found: dict[str, Any] = {}
    if items is not None:
        check_kind("items", items, Mapping, ", name -> 'number', 'text' or 'vector'")
        found["items"] = _with({}, items, "items")
        _check_item_names(list(items))
    if reward_range is not None:
        check_reward_range(reward_range)
        found["reward_range"] = (float(reward_range[0]), float(reward_range[1]))
        if not math.isfinite(found["reward_range"][1]):
            raise UsageError(f"{argument('reward_range')} is not finite, expected (lo, hi)")
    if window is not None:
        check_positive("window", window)
        found["window"] = float(window)
    if absent is not None:
        check_finite("absent", absent)
        found["absent"] = float(absent)
    if several is not None:
        if several not in SEVERAL:
            raise UsageError(
                f"{argument('several')} is {several!r}, expected one of {', '.join(SEVERAL)}"
            )
        found["several"] = several
    if unit is not None:
        check_kind("unit", unit, str)
        found["unit"] = unit
    return found


def _check_names(names: Sequence[str], actions: Actions, items: bool) -> None:
    """Raise for columns and labels that could be written and not be read.

    Raises:
        UsageError: for two columns of one name, and for what is not text.
    """
    for text in (*names, *actions.labels):
        if isinstance(text, str) and not is_utf8(text):
            raise UsageError(f"{text!r} is not valid text (UTF-8) and cannot be logged; rename it")
    # DuckDB, which joins decisions and rewards, compares names without case.
    known = {x.casefold() for x in RESERVED}
    if items:
        known.add(ITEMS)
    for name in names:
        if name.casefold() in known:
            raise UsageError(
                f"context column {name!r} has the name of another column of the log (upper and "
                "lower case are the same); rename it"
            )
        known.add(name.casefold())


def _check_item_names(names: Sequence[str]) -> None:
    """Raise for features of items that could be written and not be read."""
    if not names:
        raise UsageError(f"{argument('items')} is empty, expected features of items")
    for text in names:
        if not is_utf8(text):
            raise UsageError(f"{text!r} is not valid text (UTF-8) and cannot be logged; rename it")
    if len({name.casefold() for name in names}) < len(names):
        raise UsageError(
            f"{argument('items')} has two features of one name (upper and lower case are the "
            "same); rename one"
        )


def _columns_of(features: Features) -> dict[str, str]:
    return {item.column: KINDS[item.kind] for item in features.items}


def _with(
    columns: dict[str, str], also: Mapping[str, str] | None, called: str = "also"
) -> dict[str, str]:
    """Return the columns of a policy and others, checked."""
    for name, kind in (also or {}).items():
        if kind not in KINDS.values() or columns.get(name, kind) != kind:
            raise UsageError(
                f"{argument(called)} has {name!r}: {kind!r}, expected 'number', 'text' or "
                "'vector', as the policy has it"
            )
    return {**columns, **(also or {})}


def _write_all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _fsync(handle: int) -> None:
    # Length and contents, without the times of the file.
    getattr(os, "fdatasync", os.fsync)(handle)


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, on systems where a folder can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock a file for as long as it is open; return False where files have no locks.

    Raises:
        OSError: if another process has it.
    """
    try:
        import fcntl
    except ImportError:
        return False
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _create(path: Path, data: bytes) -> None:
    """Write a file unless it exists, whole or not at all."""
    hidden = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        with hidden.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _nothing() -> None:
    """Do nothing: when the pool has done it, it has done all before it."""
