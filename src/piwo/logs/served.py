"""The folder of decisions and rewards that `piwo.serve` writes, read as a log.

The folder holds a manifest (`piwo-log.json`), and for each writer and time pieces of decisions and
of rewards. A piece is JSON lines while it is written, and Parquet once it is complete: then a file
of lines with the same name is a leftover that is not read. A last line without its end was never
acknowledged; nor was what follows the length in a file of the same name that ends in
`.acknowledged`, which a writer leaves if it cannot remove rows that it could not synchronize.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa

from piwo.errors import DataError, FileError, warn
from piwo.files import read_file
from piwo.logs.actions import Actions
from piwo.logs.options import Logger
from piwo.messages import argument
from piwo.sources.duckdb_errors import duckdb_errors
from piwo.sources.parquet import ParquetSource
from piwo.sources.query import quoted
from piwo.sources.source import Source
from piwo.sources.temporary import TemporaryFolder
from piwo.visible import without_secrets

__all__ = [
    "ACKNOWLEDGED",
    "ITEMS",
    "MANIFEST",
    "RESERVED",
    "SEVERAL",
    "Manifest",
    "ServedLog",
    "acknowledged_bytes",
    "is_served",
    "logger_of",
    "manifest_of",
    "piece_table",
    "served_log",
]

MANIFEST = "piwo-log.json"
ACKNOWLEDGED = ".acknowledged"
"""Suffix of a file with the number of bytes of a file of lines that count."""
FORMAT, VERSION = "piwo-decisions", 1
WITH_ITEMS = 2
"""Version of folders with features of items, which earlier versions of piwo cannot read."""
ITEMS = "items"
"""Column of the features of eligible actions, in folders that have it."""
RESERVED = (
    "decision_id",
    "time",
    "action",
    "propensity",
    "propensities",
    "eligible",
    "policy",
    "reward",
)
"""Columns that every such log has, and that no context column may be called."""
SEVERAL: Mapping[str, str] = {
    "first": "arg_min(reward, time)",
    "last": "arg_max(reward, time)",
    "sum": "sum(reward)",
    "max": "max(reward)",
}
"""What several rewards of a decision mean -> its SQL."""
Piece = Literal["decisions", "rewards"]
_TYPES = {"number": pa.float64(), "text": pa.string(), "vector": pa.list_(pa.float64())}
_BLOCK_BYTES = 2**24
"""Of JSON lines that are parsed at once; a line must fit."""
_JOIN_MEMORY = "1GB"
"""For the join of decisions and rewards; the rest goes to disk."""
_JOIN_THREADS = 4
"""At most, so that each has enough of that memory."""
_ROWS_A_GROUP = 2**16
_ATTEMPTS = 5
"""How often a folder is listed again: its writer may complete a piece between listing and
reading."""
_MARGIN = timedelta(seconds=5)
"""How long a reward may take from its time stamp to the disk."""


@dataclass(frozen=True)
class Manifest:
    """What the rows of a folder of decisions mean.

    >>> manifest = Manifest({"age": "number"}, ("a", "b"))
    >>> Manifest.from_json(manifest.to_json()) == manifest
    True
    """

    context: Mapping[str, str]
    """Context column -> number, text or vector."""
    actions: tuple[Any, ...]
    reward_range: tuple[float, float] = (0.0, 1.0)
    window: float | None = None
    """Seconds after a decision in which a reward counts; None: at any time."""
    absent: float = 0.0
    """What a decision earned that has no reward when its window is over."""
    several: str = "first"
    unit: str | None = None
    items: Mapping[str, str] | None = None
    """Feature of an eligible action -> number, text or vector; None: none is logged."""

    def to_json(self) -> str:
        """Return the manifest as it is written."""
        page = {"format": FORMAT, "version": VERSION, **vars(self)}
        if self.items is None:
            del page["items"]
        else:
            page["version"] = WITH_ITEMS
        return json.dumps(page, indent=1, allow_nan=False, default=list) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Return the manifest that was written.

        Raises:
            ValueError: if it is not one.
        """
        page = json.loads(text)
        if not isinstance(page, dict) or page.pop("format", None) != FORMAT:
            raise ValueError("it is not the manifest of a log of decisions")
        if page.pop("version", None) not in {VERSION, WITH_ITEMS}:
            raise ValueError("its version is unknown; update piwo")
        made = cls(
            _kinds(page["context"]) or {},
            tuple(page["actions"]),
            tuple(page["reward_range"]),
            page["window"],
            float(page["absent"]),
            str(page["several"]),
            page["unit"],
            _kinds(page.get("items")),
        )
        kinds = {*made.context.values(), *(made.items or {}).values()}
        known = kinds <= _TYPES.keys() and made.several in SEVERAL
        if not known or len(made.reward_range) != 2:
            raise ValueError("it holds a kind that is unknown; update piwo")
        Actions(made.actions)
        return made

    def schema(self, piece: Piece) -> pa.Schema:
        """Return the columns of the decisions or of the rewards."""
        time = pa.timestamp("us", "UTC")
        if piece == "rewards":
            return pa.schema(
                {"decision_id": pa.string(), "time": time, "reward": pa.float64()}.items()
            )
        label = pa.int64() if isinstance(self.actions[0], int) else pa.string()
        columns = {
            "decision_id": pa.string(),
            "time": time,
            "action": label,
            "propensity": pa.float64(),
            "propensities": pa.list_(pa.float64()),
            "eligible": pa.list_(label),
            "policy": pa.string(),
        }
        if self.items is not None:
            fields = [(name, _TYPES[kind]) for name, kind in self.items.items()]
            columns[ITEMS] = pa.list_(pa.struct(fields))
        if self.unit is not None:
            columns[self.unit] = pa.string()
        for name, kind in self.context.items():
            columns[name] = _TYPES[kind]
        return pa.schema(columns.items())


def _kinds(page: Any) -> dict[str, str] | None:
    """Return name -> kind as it was written."""
    if page is None:
        return None
    return {str(name): str(kind) for name, kind in page.items()}


@dataclass(frozen=True)
class ServedLog:
    """A folder of decisions as a source, and what its manifest declares."""

    source: Source
    actions: tuple[Any, ...]
    reward_range: tuple[float, float]
    roles: Mapping[str, Any] = field(default_factory=dict)
    items: str | None = None
    """The column of the features of eligible actions."""


def manifest_of(folder: str | os.PathLike[str]) -> Manifest | None:
    """Return the manifest of a folder; None if it has none.

    Raises:
        FileError: for one that is damaged.
    """
    path = Path(folder) / MANIFEST
    if not path.exists():
        return None
    try:
        return Manifest.from_json(read_file(path))
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        line = (str(cause).splitlines() or [""])[0]
        raise FileError(
            f"{without_secrets(path)!r} is damaged: {line}; copy it from a backup"
        ) from None


def is_served(source: Any) -> bool:
    """Whether a source is a folder of decisions.

    >>> is_served("log.parquet")
    False
    """
    folder = _folder(source)
    return folder is not None and (folder / MANIFEST).exists()


def _folder(source: Any) -> Path | None:
    """Return a source as a folder; None if it is something else."""
    if not isinstance(source, str | os.PathLike):
        return None
    try:
        folder = Path(source).expanduser()
        return folder if folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):
        # A query, or a name that is too long.
        return None


def served_log(source: Any) -> ServedLog | None:
    """Return the log of a folder that `piwo.serve` writes; None for everything else.

    Decisions whose window is not over are left out: which these are does not depend on their
    rewards. The rows are those of one moment, in the order of time.

    Args:
        source: as in `piwo.read`.

    Raises:
        FileError: for a folder that is damaged.
        DataError: if no decision can be used yet.

    Warns:
        PiwoWarning: for decisions whose window is not over, for decisions without a reward if
            there is no window, and for rewards of decisions that the folder does not have.
    """
    folder = _folder(source)
    if folder is None:
        return None
    manifest = manifest_of(folder)
    if manifest is None:
        return None
    roles: dict[str, Any] = {"context": list(manifest.context), "time": "time"}
    if manifest.unit is not None:
        roles["unit"] = manifest.unit
    else:
        roles["key"] = "decision_id"
    # The rows are joined on disk, as they may be more than fit in memory.
    space = TemporaryFolder()
    moment = datetime.now(UTC)
    decisions = _pieces(folder, "decisions", manifest, space)
    rewards = _pieces(folder, "rewards", manifest, space)
    files = (decisions.values(), rewards.values())
    with _Join(*files, manifest, moment, str(folder), space) as join:
        roles |= join.lists()
        items = roles.pop(ITEMS, None)
        actions = (*manifest.actions, *join.other_labels())
        made = join.rows()
    made.name, made.folder = str(folder), space
    made.copied_from = (*decisions, *rewards)
    return ServedLog(made, actions, manifest.reward_range, roles, items)


def logger_of(declared: Logger | None, served: ServedLog | None, source: Source) -> Logger | None:
    """Return the logger that was declared, or "learning" for decisions of several policies.

    A later policy was probably learned from decisions of the earlier ones.

    Args:
        declared: see `piwo.read`.
        served: what `served_log` returned; None: the log is not a folder of decisions.
        source: the rows of it that are read.

    Warns:
        PiwoWarning: for several policies.

    >>> from piwo.sources.table import TableSource
    >>> source = TableSource(pa.table({"policy": ["1f", "1f", None]}))
    >>> logger_of(None, ServedLog(source, ("a",), (0.0, 1.0)), source) is None
    True
    """
    if declared is not None or served is None:
        return declared
    names: set[str] = set()
    for fragment in source.fragments(["policy"]):
        for record in fragment.records():
            names.update(record.column(0).unique().drop_null().to_pylist())
    if len(names) < 2:
        return None
    warn(
        f"{len(names)} policies wrote this log, so it counts as that of a logger that learned from "
        f"earlier rows; declare {argument('logger', 'fixed')} if none did, or read the rows of one "
        f"policy ({argument('where')})",
        kind="several policies",
    )
    return "learning"


def _pieces(
    folder: Path, piece: Piece, manifest: Manifest, space: TemporaryFolder
) -> dict[str, str]:
    """Return the files of one kind in a folder -> Parquet files with their rows.

    Args:
        folder: where they are.
        piece: the kind.
        manifest: of the folder.
        space: for copies of files that are still lines.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _listed(folder, piece, manifest, space)
        except FileNotFoundError:
            # Its writer has completed a piece in the meantime.
            continue
    raise FileError(
        f"the files in {without_secrets(folder)!r} change too fast to be read; try again"
    )


def _listed(
    folder: Path, piece: Piece, manifest: Manifest, space: TemporaryFolder
) -> dict[str, str]:
    schema = manifest.schema(piece)
    # Listed once: a piece whose lines vanish afterwards is an error, and the folder is read again.
    names = set(os.listdir(folder))  # noqa: PTH208 (one snapshot of names)
    found: dict[str, str] = {}
    for name in sorted(names):
        path = folder / name
        if not name.startswith(f"{piece}-"):
            continue
        if path.suffix == ".parquet":
            _check_piece(path, schema)
            found[str(path)] = str(path)
        elif path.suffix == ".jsonl" and f"{path.stem}.parquet" not in names:
            table = piece_table(acknowledged_bytes(path), schema, path)
            found[str(path)] = _copied(table, space, path.stem)
    return found


def _copied(table: pa.Table, space: TemporaryFolder, name: str) -> str:
    """Write rows to a file in the folder for temporary files, and return its path."""
    import pyarrow.parquet as pq

    path = str(space.path / f"{name}.parquet")
    try:
        with pq.ParquetWriter(path, table.schema) as writer:
            writer.write_table(table)
    except OSError as cause:
        raise FileError(
            f"the rows that are joined do not fit on disk at {str(space.path)!r} ({cause}); make "
            "room, or set TMPDIR"
        ) from None
    return path


def _check_piece(path: Path, schema: pa.Schema) -> None:
    """Raise if a piece is damaged, or lacks columns."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group, schema.names)
            written = file.schema_arrow
        missing = [name for name in schema.names if name not in written.names]
    except (pa.ArrowException, OSError) as cause:
        if isinstance(cause, FileNotFoundError):
            raise
        missing, reason = [], str(cause)
    else:
        reason = f"it has no column {missing[0]!r}" if missing else ""
    if reason:
        raise FileError(
            f"{without_secrets(path)!r} cannot be read as Parquet ({reason}); copy it again"
        )


def acknowledged_bytes(path: Path) -> bytes:
    """Return the bytes of a file of lines, without those after the length that counts.

    Raises:
        FileError: if the file with the length is damaged.
    """
    data = path.read_bytes()
    mark = path.with_suffix(ACKNOWLEDGED)
    try:
        return data[: int(mark.read_bytes())]
    except FileNotFoundError:
        return data
    except ValueError:
        raise FileError(
            f"{without_secrets(mark)!r} is damaged, expected a number of bytes; copy it again"
        ) from None


def piece_table(data: bytes, schema: pa.Schema, path: Path) -> pa.Table:
    """Return the rows of a piece that is still JSON lines.

    Args:
        data: its bytes; what follows the last line end was not acknowledged and is left out.
        schema: of the piece.
        path: for errors.

    Raises:
        FileError: for a line that is not a row.
    """
    import pyarrow.json as pj

    whole = data[: data.rfind(b"\n") + 1]
    if not whole:
        return schema.empty_table()
    place = schema.get_field_index("time")
    # A time is written as whole microseconds.
    written = schema.set(place, pa.field("time", pa.int64()))
    options = pj.ParseOptions(explicit_schema=written, unexpected_field_behavior="error")
    try:
        found = pj.read_json(
            pa.BufferReader(whole), pj.ReadOptions(block_size=_BLOCK_BYTES), options
        )
        return found.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError) as cause:
        line = " ".join(str(cause).split())[:200]
        raise FileError(
            f"{without_secrets(path)!r} holds what piwo.serve did not write ({line}); copy it "
            "again, or remove the line"
        ) from None


class _Join:
    """The decisions whose window is over, and their rewards, on a DuckDB connection.

    Args:
        decisions: Parquet files.
        rewards: Parquet files.
        manifest: of the folder.
        moment: just before the files were listed.
        name: of the folder, for errors.
        space: for what does not fit in memory, and the result.
    """

    def __init__(
        self,
        decisions: Iterable[str],
        rewards: Iterable[str],
        manifest: Manifest,
        moment: datetime,
        name: str,
        space: TemporaryFolder,
    ) -> None:
        import duckdb

        self._manifest, self._name, self._space = manifest, name, space
        self._inside = self._closed = "true"
        self._known = f"r.time <= {_moment(moment)}"
        """Rewards whose decisions are in the files: these were on the disk before."""
        if manifest.window is not None:
            width = f"to_microseconds({round(manifest.window * 1e6)})"
            self._inside = f"r.time >= d.time and r.time <= d.time + {width}"
            # A reward of before this moment is in the files.
            self._closed = f"d.time + {width} <= {_moment(moment - _MARGIN)}"
        self._connection = duckdb.connect()
        self._run("set timezone = 'UTC'")
        self._run(f"set temp_directory = {_text(str(space.path))}")
        self._run(f"set memory_limit = '{_JOIN_MEMORY}'")
        self._run(f"set threads = {min(os.cpu_count() or 1, _JOIN_THREADS)}")
        pieces: dict[Piece, Iterable[str]] = {"decisions": decisions, "rewards": rewards}
        for piece, files in pieces.items():
            schema = manifest.schema(piece)
            # A query needs at least one file.
            empty = _copied(schema.empty_table(), space, piece)
            listed = ", ".join(map(_text, (empty, *files)))
            columns = ", ".join(map(quoted, schema.names))
            self._run(
                f"create view {piece} as select {columns} from read_parquet([{listed}], "
                "union_by_name = true, hive_partitioning = false)"
            )
        self._columns = "d.*"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def lists(self) -> dict[str, str]:
        """Return the roles of lists that the rows have, and say what is left out.

        Raises:
            DataError: if there is no row.
        """
        ((every, rows, eligible, propensities),) = self._run(
            f"select count(*), count(*) filter ({self._closed}), "
            f"count(eligible) filter ({self._closed}), "
            f"count(propensities) filter ({self._closed}) from decisions d"
        )
        if not every:
            raise DataError(
                f"no rows in {without_secrets(self._name)!r}, expected at least one decision"
            )
        unrewarded = 0
        if self._manifest.window is None:
            ((unrewarded,),) = self._run(
                "select count(*) from decisions d anti join rewards using (decision_id)"
            )
        _say_what_is_open(every - rows, unrewarded, self._manifest)
        ((unmatched,),) = self._run(
            "select count(*) from rewards r anti join decisions d using (decision_id) "
            f"where {self._known}"
        )
        _say_what_is_unmatched(unmatched)
        if not rows:
            raise DataError(
                f"the reward of no decision in {without_secrets(self._name)!r} is settled: its "
                f"window is {self._manifest.window:g} s; read it later"
            )
        roles, left_out = {}, []
        if eligible:
            roles["eligible"] = "eligible"
        else:
            left_out.append("eligible")
        if self._manifest.items is not None:
            if self._all_have_items(rows):
                roles[ITEMS] = ITEMS
            else:
                left_out.append(ITEMS)
        if propensities == rows:
            roles |= {"propensities": "propensities", "propensity": "propensity"}
        else:
            left_out.append("propensities")
        excluded = f" exclude ({', '.join(left_out)})" if left_out else ""
        replaced = ""
        if eligible < rows and eligible:
            labels = ", ".join(map(_literal, self._manifest.actions))
            replaced = f" replace (coalesce(d.eligible, [{labels}]) as eligible)"
        self._columns = f"d.*{excluded}{replaced}"
        return roles

    def _all_have_items(self, rows: int) -> bool:
        """Whether each decision has features of its items; say if only some have."""
        ((found,),) = self._run(f"select count({ITEMS}) filter ({self._closed}) from decisions d")
        if 0 < found < rows:
            warn(
                f"{rows - found:,} of {rows:,} decisions have no features of items, so that these "
                f"are not read; give {argument('items')} as a table, or with every decision",
                kind="items",
            )
        return bool(found == rows)

    def other_labels(self) -> list[Any]:
        """Return the labels that are not in the manifest, sorted: with items there may be some."""
        if self._manifest.items is None:
            return []
        found = self._run(
            "select distinct unnest(eligible) as label from decisions d "
            f"where {self._closed} order by label"
        )
        known = set(self._manifest.actions)
        return [label for (label,) in found if label is not None and label not in known]

    def rows(self) -> ParquetSource:
        """Return the rows in the order of time, in a file."""
        manifest = self._manifest
        path = str(self._space.path / "joined.parquet")
        rewarded = f"""
            select decision_id, {SEVERAL[manifest.several]} as reward
            from (
                select r.* from rewards r join decisions d using (decision_id) where {self._inside}
            )
            group by decision_id
        """
        self._run(f"""
            copy (
                select {self._columns},
                    coalesce(w.reward, {_literal(manifest.absent)}::DOUBLE) as reward
                from decisions d left join ({rewarded}) w using (decision_id)
                where {self._closed} order by d.time, d.decision_id
            ) to {_text(path)} (format parquet, row_group_size {_ROWS_A_GROUP})
        """)
        return ParquetSource([path])

    def _run(self, sql: str) -> list[Any]:
        with duckdb_errors(self._name):
            found: list[Any] = self._connection.execute(sql).fetchall()
        return found


def _text(text: str) -> str:
    """Return a text for SQL."""
    return quoted(text, "'")


def _literal(value: Any) -> str:
    """Return a label or a number for SQL."""
    return _text(value) if isinstance(value, str) else repr(value)


def _moment(moment: datetime) -> str:
    """Return a moment for SQL."""
    return f"'{moment.isoformat()}'::TIMESTAMPTZ"


def _say_what_is_unmatched(rewards: int) -> None:
    if rewards:
        warn(
            f"{rewards:,} rewards name no decision of this log and are left out; check that each "
            "was sent with the decision_id of its decision, to the log of that decision",
            kind="unmatched rewards",
        )


def _say_what_is_open(waiting: int, unrewarded: int, manifest: Manifest) -> None:
    if waiting:
        warn(
            f"{waiting:,} decisions are left out, as their rewards may still come (the window is "
            f"{manifest.window:g} s)",
            kind="open decisions",
        )
    if manifest.window is None and unrewarded:
        warn(
            f"{unrewarded:,} decisions have no reward yet and count as {manifest.absent:g}; "
            f"declare {argument('window')} when the log is made, so that late rewards are waited "
            "for",
            kind="open decisions",
        )
