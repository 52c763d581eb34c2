"""The folder of a run: a pair of files per finished logger, so a run can end at any time.

    settings.json                          written first; a run with other settings is refused
    by_logger/good-07.results.parquet      what one logger's policies are worth
    by_logger/good-07.loggers.parquet      what that logger itself is worth
    results.parquet, results.csv           all of them, sorted
    loggers.parquet, loggers.csv
    .lock                                  held while a run writes here

Every file is written under a temporary name and then renamed, and holds no time and no name of a
machine: however often a run was interrupted, its files are the same, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import piwo
from experiments.data import Data
from experiments.files import PARTIAL, csv_text, replace, write
from experiments.loggers import Experiment, LoggerType, Outcome, outcomes
from piwo.errors import FileError

__all__ = [
    "LOGGERS",
    "RESULTS",
    "Finished",
    "Folder",
    "Listener",
    "Run",
    "finished",
    "open_folder",
    "refuse_foreign",
    "run_all",
    "settings_of",
]

FORMAT = 1
"""Of the folder: raised when a run must not go on in a folder that an older program began."""
SETTINGS, LOCK, PARTS = "settings.json", ".lock", "by_logger"
CONTENT = b"content"
"""Key in a Parquet file's metadata: the digest of the settings and the rows that it was written
with."""

RESULTS = pa.schema(
    [
        ("set", pa.string()),
        ("eta", pa.float64()),
        ("algorithm", pa.string()),
        ("h", pa.float64()),
        ("fold", pa.int64()),
        ("reward", pa.float64()),
        ("regret", pa.float64()),
    ]
)
"""One row a learned policy; sorted by the first five."""
LOGGERS = pa.schema(
    [
        ("set", pa.string()),
        ("eta", pa.float64()),
        ("fold", pa.int64()),
        ("behavior", pa.float64()),
        ("best_fixed", pa.float64()),
        ("full_information", pa.float64()),
        ("log10_min_propensity", pa.float64()),
    ]
)
"""One row a logger and fold; sorted by the first three."""
SORTED_BY = {"results": ("set", "eta", "algorithm", "h", "fold"), "loggers": ("set", "eta", "fold")}


# --- the folder


class Listener(Protocol):
    """Who is told how far a run has come."""

    def begin(self, total: int, kept: int) -> None:
        """Hear how many loggers there are, and how many of them an earlier run has left."""

    def done(self, name: str) -> None:
        """Hear that a logger is done and its files are written."""

    def warn(self, text: str) -> None:
        """Hear of something wrong that does not end the run."""


@dataclass(frozen=True)
class Part:
    """What the files of one logger hold, or those of all."""

    results: pa.Table
    loggers: pa.Table


@dataclass(frozen=True)
class Run:
    """A finished run: its sorted tables, and how many loggers it found done."""

    results: pa.Table
    loggers: pa.Table
    kept: int
    computed: int


def settings_of(data: Data, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that the results of a run depend on, as plain data.

    Args:
        data: the rows.
        protocol: the settings of the experiment, among them `seed`.
    """
    own = {
        "format": FORMAT,
        "version": piwo.__version__,
        "data": data.name,
        "n": data.X.shape[0],
        "d": data.X.shape[1],
        "K": len(data.labels),
        "digest": data.digest,
    }
    assert not own.keys() & protocol.keys()
    plain: dict[str, Any] = json.loads(json.dumps({**own, **protocol}))
    return plain


def refuse_foreign(path: Path) -> None:
    """Raise unless the folder is one of a run, or empty, or not yet there.

    Raises:
        FileError: for a file, and for a folder with files that no run has written.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise FileError(f"--out {str(path)!r} is a file, expected a folder; choose another")
    ours = {LOCK, SETTINGS + PARTIAL}
    foreign = sorted(x.name for x in path.iterdir() if x.name not in ours)
    if foreign and SETTINGS not in foreign:
        raise FileError(
            f"--out {str(path)!r} holds other files ({foreign[0]!r}) and no {SETTINGS}, "
            "expected an empty or a new folder; choose another"
        )


@contextmanager
def open_folder(path: Path, settings: Mapping[str, Any]) -> Iterator[Folder]:
    """Lock a folder for one run; new folders get the settings, old ones must have the same.

    Raises:
        FileError: where another run holds it or began it with other settings, or files of something
            else lie there.
    """
    refuse_foreign(path)
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK).open("ab") as lock:
        try:
            _lock(lock)
        except (BlockingIOError, PermissionError) as error:
            raise FileError(
                f"--out {str(path)!r} is in use by another run; wait for it, or choose another"
            ) from error
        refuse_foreign(path)
        _same_settings(path, settings)
        (path / PARTS).mkdir(exist_ok=True)
        try:
            yield Folder(path, settings)
        finally:
            _remove_partial(path)  # also what an earlier run, killed, has left


@dataclass(frozen=True)
class Folder:
    """The folder of one run, which nobody else writes to."""

    path: Path
    settings: Mapping[str, Any]

    def kept(self, name: str, listener: Listener) -> Part | None:
        """Return what an earlier run left of a logger; None if nothing, or if it is damaged."""
        found = [
            self._read(self._part(name, kind), name, schema, listener) for kind, schema in _KINDS
        ]
        results, loggers = found
        return None if results is None or loggers is None else Part(results, loggers)

    def keep(self, name: str, outcome: Outcome) -> Part:
        """Write what came of a logger, and return it."""
        tables = (outcome.results, outcome.logger)
        made = [
            table.select(schema.names).cast(schema)
            for (_, schema), table in zip(_KINDS, tables, strict=True)
        ]
        for (kind, _), table in zip(_KINDS, made, strict=True):
            _write_parquet(self._part(name, kind), table, {CONTENT: self._fingerprint(name, table)})
        return Part(*made)

    def gather(self, parts: Sequence[Part]) -> Part:
        """Write the sorted tables of all loggers as Parquet and CSV, and return them.

        The settings that make the rows what they are stand in the metadata of the Parquet files.
        """
        about = {
            key.encode(): str(self.settings[key]).encode()
            for key in ("seed", "data", "digest", "version")
        }
        whole = {
            "results": pa.concat_tables([part.results for part in parts]),
            "loggers": pa.concat_tables([part.loggers for part in parts]),
        }
        for kind, table in whole.items():
            whole[kind] = table.sort_by(
                [(key, "ascending") for key in SORTED_BY[kind]]
            ).combine_chunks()
            _write_parquet(self.path / f"{kind}.parquet", whole[kind], about)
            write(self.path / f"{kind}.csv", csv_text(whole[kind]).encode())
        return Part(**whole)

    def _part(self, name: str, kind: str) -> Path:
        return self.path / PARTS / f"{name}.{kind}.parquet"

    def _fingerprint(self, name: str, table: pa.Table) -> bytes:
        text = "\n".join([json.dumps(self.settings, sort_keys=True), name, csv_text(table)])
        return hashlib.sha256(text.encode()).hexdigest().encode()

    def _read(
        self, path: Path, name: str, schema: pa.Schema, listener: Listener
    ) -> pa.Table | None:
        if not path.exists():
            return None
        try:
            with pq.ParquetFile(path) as file:
                table = file.read()
            content = (table.schema.metadata or {}).get(CONTENT)
            table = table.replace_schema_metadata(None)
            sound = table.schema.equals(schema) and content == self._fingerprint(name, table)
        except (pa.ArrowException, OSError, ValueError):
            sound = False
        if sound:
            return table
        listener.warn(f"{path.name} is damaged; computing {name} again")
        return None


_KINDS = (("results", RESULTS), ("loggers", LOGGERS))


@dataclass(frozen=True)
class Finished:
    """What lies in the folder of a run that came to its end."""

    settings: Mapping[str, Any]
    results: pa.Table
    loggers: pa.Table


def finished(path: Path) -> Finished:
    """Return what a run has left.

    Raises:
        FileError: where no run has come to its end, or its files are damaged.
    """
    missing = [
        name
        for name in (SETTINGS, *(f"{kind}.parquet" for kind, _ in _KINDS))
        if not (path / name).is_file()
    ]
    if missing:
        raise FileError(
            f"{str(path)!r} has no {missing[0]}, expected the folder of a finished run; finish it"
        )
    tables = []
    for kind, schema in _KINDS:
        file = path / f"{kind}.parquet"
        try:
            tables.append(pq.read_table(file).select(schema.names).cast(schema))
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise FileError(
                f"{str(file)!r} is damaged; the command of its run makes it again"
            ) from error
    return Finished(_read_settings(path / SETTINGS), *tables)


def run_all(
    experiment: Experiment[LoggerType], folder: Folder, listener: Listener, processes: int = 1
) -> Run:
    """Run every logger that the folder does not hold yet, then write and return the tables of all.

    Args:
        experiment: what is run.
        folder: from `open_folder`, with the settings of this experiment.
        listener: is told of each logger.
        processes: how many loggers run at once; more than one only saves time if loggers take
            seconds.
    """
    loggers = experiment.loggers()
    parts = {logger.name: folder.kept(logger.name, listener) for logger in loggers}
    assert len(parts) == len(loggers)
    kept = sum(part is not None for part in parts.values())
    listener.begin(len(loggers), kept)
    missing = [logger for logger in loggers if parts[logger.name] is None]
    for name, outcome in outcomes(experiment, missing, min(processes, len(missing))):
        parts[name] = folder.keep(name, outcome)
        listener.done(name)
    whole = folder.gather([part for part in parts.values() if part is not None])
    return Run(whole.results, whole.loggers, kept, len(loggers) - kept)


# --- settings


def _same_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings, or raise where others stand there."""
    file = path / SETTINGS
    if not file.exists():
        write(file, (json.dumps(settings, indent=2) + "\n").encode())
        return
    before = _read_settings(file)
    keys = [*settings, *(key for key in before if key not in settings)]
    differ = [
        f"{key} was {_told(before, key)}, now {_told(settings, key)}"
        for key in keys
        if _differ(before, settings, key)
    ]
    if differ:
        raise FileError(
            f"--out {str(path)!r} was begun with other settings: {'; '.join(differ)}; "
            "give the same ones, or choose another"
        )


def _read_settings(file: Path) -> Mapping[str, Any]:
    try:
        settings = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise FileError(
            f"{str(file)!r} is damaged; delete the folder, or choose another"
        ) from error
    if not isinstance(settings, dict):
        raise FileError(f"{str(file)!r} holds no settings; delete the folder, or choose another")
    return settings


def _differ(before: Mapping[str, Any], now: Mapping[str, Any], key: str) -> bool:
    return key not in before or key not in now or before[key] != now[key]


def _told(settings: Mapping[str, Any], key: str) -> str:
    """Return a setting as messages show it; of a digest the beginning is enough."""
    if key not in settings:
        return "absent"
    text = json.dumps(settings[key], ensure_ascii=False)
    return (
        f"{settings[key][:12]}..." if key == "digest" and isinstance(settings[key], str) else text
    )


# --- files


def _write_parquet(path: Path, table: pa.Table, metadata: Mapping[bytes, bytes]) -> None:
    replace(path, lambda file: pq.write_table(table.replace_schema_metadata(dict(metadata)), file))


def _remove_partial(path: Path) -> None:
    for folder in (path, path / PARTS):
        for partial in folder.glob(f"*{PARTIAL}"):
            partial.unlink()


def _lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed, or raise; the system unlocks it if the process dies."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
