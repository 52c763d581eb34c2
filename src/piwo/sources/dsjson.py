"""Vowpal Wabbit dsjson: one JSON object a line, with ranking, probabilities, cost and context."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, FileError, UsageError, warn
from piwo.logs.actions import Actions
from piwo.logs.columns import Columns
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.sources.paths import files_of
from piwo.sources.source import Fragment, TableSource, quoted

__all__ = ["DsjsonSource", "read_dsjson"]

_CHUNK = 1 << 24
"""Bytes of a file that are parsed at once."""
_PIECE = 1024
"""Lines that one core parses at a time."""
_SHOWN = 5

_SHAPE = (
    '{"_label_cost":"DOUBLE","_label_probability":"DOUBLE","_label_Action":"BIGINT","_labelIndex":"BIGINT",'
    '"pdrop":"DOUBLE","_skipLearn":"BOOLEAN","a":["BIGINT"],"p":["DOUBLE"],"_outcomes":["BOOLEAN"],'
    '"c":{"_multi":["BOOLEAN"],"_slots":["BOOLEAN"]}}'
)
# the entries of _multi are not looked at; read as BOOLEAN they become nulls, and only their number
# is used
_PARSED = f"""
    select number, line, case when json_valid(line) then json_transform(line, '{_SHAPE}') end as e from chunk
"""
_KIND = """
    case when regexp_full_match(line, '\\s*') then 'blank'
         when not regexp_matches(line, '^\\s*\\{') then 'not JSON'
         when e is null then 'broken JSON'
         when e._skipLearn then 'skip-learn'
         when e.a is null and e.p is null and e.c is null and e._outcomes is null then 'no decision'
         else 'event' end
"""
# Each rule in words, and where it is broken. `a` is a ranking, the chosen action first; p[j]
# belongs to a[j]. A label probability is printed as float32 or to six digits, hence 1e-5 relative.
_RULES = {
    "is a multi-slot event (CCB or slates), expected one decision a line": (
        "e._outcomes is not null or e.c._slots is not null"
    ),
    "has no action list c._multi": "coalesce(len(e.c._multi), 0) = 0",
    "has a and p that are not as long as c._multi": (
        "coalesce(len(e.a), 0) <> len(e.c._multi) or coalesce(len(e.p), 0) <> len(e.c._multi)"
    ),
    "has an a that is not a ranking of 1..K, the actions of c._multi": (
        "list_sort(e.a) is distinct from range(1, len(e.c._multi) + 1)"
    ),
    "has a _label_Action that is not the first of a": "e._label_Action is distinct from e.a[1]",
    "has a _labelIndex that is not _label_Action - 1": "e._labelIndex <> e.a[1] - 1",
    "has a p with entries that are no numbers": "len(list_filter(e.p, lambda x: x is null)) > 0",
    "has a _label_probability that is not the first of p": (
        "e._label_probability is null or abs(e._label_probability - e.p[1]) > 1e-5 * "
        "greatest(e.p[1], e._label_probability)"
    ),
    "has no number in _label_cost": "e._label_cost is null",
    "has a pdrop outside [0, 1), the chance that an event was dropped": (
        "e.pdrop < 0 or e.pdrop >= 1 or isnan(e.pdrop)"
    ),
}
_SKIPPED = ("blank", "not JSON", "skip-learn", "no decision", "broken JSON")


@dataclass(frozen=True)
class DsjsonSource:
    """The events of dsjson files, as columns in memory.

    `skipped` counts the lines that are no events, by reason.

    >>> import pyarrow as pa
    >>> DsjsonSource(TableSource(pa.table({"action": ["1"]})), {"blank": 2}).skipped["blank"]
    2
    """

    table: TableSource
    skipped: Mapping[str, int] = field(default_factory=dict)
    steady: bool = True

    @property
    def name(self) -> str:
        """How to call it in messages."""
        return self.table.name

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """The number of events."""
        return self.table.rows

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return slices of a few batches each."""
        return self.table.fragments(columns)

    def distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column."""
        return self.table.distinct(column)

    def source_id(self) -> tuple[Any, ...]:
        """Return a digest of the events."""
        return self.table.source_id()


def read_dsjson(
    paths: str | Path | Sequence[str | Path],
    *,
    context: str | Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    on_error: Literal["raise", "skip"] = "raise",
) -> Log:
    """Return the log of Vowpal Wabbit dsjson files (one decision a line).

    `a` is a ranking with the chosen action first, and p[j] is the probability of action a[j]; both
    are checked against `_label_Action`, `_labelIndex` and `_label_probability`. The reward is minus
    `_label_cost`. A `pdrop` becomes the sampling weight 1 / (1 - pdrop), in numerator and
    denominator of every mean.

    Lines that are no events are left out and counted by reason in one warning and in
    `log.source.skipped`: blank, not JSON, skip-learn (deferred and never shown), no decision (an
    outcome by itself). The files are read once, in pieces; what is kept is about 8 (K + 5) bytes an
    event. Every event must have the same K actions in `c._multi`; a log whose number of actions
    varies is refused.

    Args:
        paths: path, glob, or a list of them; a name may end in .gz.
        context: paths inside `c`, parts separated by "/", such as "U/x" or "FromUrl/0/weather"; a
            path whose values are all numbers is a number, any other is text.
        actions: K labels in the order of `c._multi`; None: 1, 2, ..., K, as `_label_Action` counts.
        reward_range: the declared (lo, hi) of the reward, minus the cost.
        on_error: "skip" leaves out and counts lines of broken JSON instead of raising.

    Returns:
        A `Log` with full propensity vectors, and row numbers that count events.

    Raises:
        DataError: for broken or contradictory events, with their line numbers, and for a log
            without any.
        FileError: for files that are missing or cannot be read.

    Source: the dsjson format of Vowpal Wabbit's wiki; the ranked order is that of its
        reinforcement-learning client.

    >>> with open("log.dsjson", "w") as file:
    ...     written = file.write(
    ...         '{"_label_cost":-1,"_label_probability":0.6,"_label_Action":2,"_labelIndex":1,'
    ...         '"a":[2,1],"p":[0.6,0.4],"c":{"U":{"x":1},"_multi":[{"f":1},{"f":2}]}}'
    ...     )
    >>> log = read_dsjson("log.dsjson", context="U/x")
    >>> next(log.each_batch(propensities=True)).propensities.tolist()
    [[0.4, 0.6]]
    """
    if on_error not in ("raise", "skip"):
        raise UsageError(f"{argument('on_error')} is {on_error!r}, expected 'raise' or 'skip'")
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    files = [file for item in listed for file in files_of(str(item))]
    reader = _Reader((context,) if isinstance(context, str) else tuple(context), on_error == "skip")
    for file in files:
        for number, lines in _chunks(file):
            reader.add(file, number, lines)
    name = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    table, labels = reader.table(name, None if actions is None else Actions(actions))
    columns = Columns(
        reward="cost",
        cost=True,
        propensities="propensities",
        weight="weight" if "weight" in table.column_names else None,
        context=reader.context,
    )
    source = DsjsonSource(
        TableSource(table, name), {x: reader.counts[x] for x in _SKIPPED if reader.counts[x]}
    )
    if source.skipped:
        left_out = ", ".join(f"{reason} {count}" for reason, count in source.skipped.items())
        counts = f"{sum(source.skipped.values())} of {reader.counts.total()} lines"
        warn(f"{name}: {counts} are no events ({left_out})")
    return Log.of(source, columns, labels, reward_range=reward_range)


def _chunks(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield pieces of a file: the number of the first line, from 1, and the lines."""
    number, rest = 1, b""
    try:
        with gzip.open(path) if path.endswith(".gz") else Path(path).open("rb") as file:
            while block := file.read(_CHUNK):
                head, newline, rest_of_block = block.rpartition(b"\n")
                if not newline:
                    rest += block
                    continue
                lines = _text(rest + head, path, number).split("\n")
                yield number, lines
                number, rest = number + len(lines), rest_of_block
    except (OSError, EOFError) as cause:
        raise FileError(f"{path!r} cannot be read ({cause}); write or copy it again") from None
    if rest:
        yield number, [_text(rest, path, number)]


def _text(data: bytes, path: str, number: int) -> str:
    try:
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as cause:
        line = number + data.count(b"\n", 0, cause.start)
        raise DataError(
            f"{path!r}, line {line}: not UTF-8 ({cause.reason}); convert the file to UTF-8"
        ) from None


class _Reader:
    """Collects the columns of the events, the counts of other lines, and the broken rules."""

    def __init__(self, context: tuple[str, ...], skip_broken: bool) -> None:
        import duckdb

        self.context = context
        self.counts: Counter[str] = Counter()
        self._skip_broken = skip_broken
        self._faults: Counter[str] = Counter()
        self._fault_lines: dict[str, list[str]] = defaultdict(list)
        self._parts: list[pa.Table] = []
        self._k: int | None = None
        self._connection = duckdb.connect()
        rules = " ".join(f"when {broken} then '{rule}'" for rule, broken in _RULES.items())
        pointers = [quoted("/c/" + path.strip("/"), "'") for path in context]
        extra = "".join(
            f", case when e is not null then json_extract_string(line, {at}) end as v{i}, "
            f"case when e is not null then json_type(line, {at}) end as t{i}"
            for i, at in enumerate(pointers)
        )
        self._query = f"""
            select number, kind, e.a as a, e.p as p, e._label_cost as cost, coalesce(e.pdrop, 0) as pdrop,
                   len(e.c._multi) as k, case when kind = 'event' then case {rules} end end as fault {extra}
            from (select *, {_KIND} as kind from ({_PARSED})) order by number
        """

    def add(self, file: str, number: int, lines: list[str]) -> None:
        """Take in lines of a file, whose first has the given number."""
        numbers = np.arange(number, number + len(lines))
        chunk = pa.table({"number": numbers, "line": pa.array(lines, pa.large_string())})
        # small pieces, so that DuckDB parses them on all cores
        self._connection.register(
            "chunk", pa.Table.from_batches(chunk.to_batches(max_chunksize=_PIECE))
        )
        parsed = pa.RecordBatchReader.from_stream(self._connection.sql(self._query)).read_all()
        kinds = parsed["kind"].to_numpy()
        for kind in _SKIPPED:
            self.counts[kind] += int((kinds == kind).sum())
        if not self._skip_broken:
            self._fault("is broken JSON", file, parsed["number"].to_numpy()[kinds == "broken JSON"])
        events = parsed.filter(pa.array(kinds == "event"))
        self.counts["event"] += events.num_rows
        faults = events["fault"].to_numpy()
        for rule in _RULES:
            self._fault(rule, file, events["number"].to_numpy()[faults == rule])
        events = events.filter(pc.is_null(events["fault"])).drop_columns(["kind", "fault"])
        if events.num_rows:
            self._same_actions(events, file)
            self._check_context(events, file)
            self._parts.append(events)

    def _fault(self, rule: str, file: str, numbers: Any) -> None:
        if len(numbers):
            self._faults[rule] += len(numbers)
            self._fault_lines[rule] += [
                f"{file}, line {number}" for number in sorted(numbers)[:_SHOWN]
            ]

    def _same_actions(self, events: pa.Table, file: str) -> None:
        k = events["k"].to_numpy()
        self._k = self._k or int(k[0])
        other = np.flatnonzero(k != self._k)
        if len(other):
            rule = f"has another number of actions than the first event ({self._k}), which is not supported,"
            self._fault(rule, file, events["number"].to_numpy()[other])

    def _check_context(self, events: pa.Table, file: str) -> None:
        for i, path in enumerate(self.context):
            kinds = pc.is_in(events[f"t{i}"], value_set=pa.array(["OBJECT", "ARRAY"])).to_numpy()
            rule = f"has no single value at c/{path} (context); name a path that ends in a number or a text"
            self._fault(rule, file, events["number"].to_numpy()[kinds])

    def table(self, name: str, actions: Actions | None) -> tuple[pa.Table, Actions]:
        """Return the columns of all events, and the action list."""
        if self._faults:
            shown = (
                f"{rule} in {count} {'line' if count == 1 else 'lines'} "
                f"({'; '.join(self._fault_lines[rule][:_SHOWN])})"
                for rule, count in self._faults.items()
            )
            hint = (
                f"; pass {argument('on_error', 'skip')} to leave out and count broken lines"
                if "is broken JSON" in self._faults
                else ""
            )
            raise DataError(f"dsjson: an event {' | an event '.join(shown)}{hint}")
        if self._k is None:
            counted = ", ".join(f"{kind} {count}" for kind, count in self.counts.items() if count)
            raise DataError(f"no rows in {name!r}: no line is an event (lines: {counted or 0})")
        actions = Actions(range(1, self._k + 1)) if actions is None else actions
        if len(actions) != self._k:
            raise UsageError(
                f"got {len(actions)} actions, but every event of {name!r} has {self._k} in c._multi"
            )
        events = pa.concat_tables(self._parts).combine_chunks()
        self._parts.clear()
        ranking = events["a"].combine_chunks().flatten().to_numpy().reshape(-1, self._k) - 1
        ranked = events["p"].combine_chunks().flatten().to_numpy().reshape(-1, self._k)
        vectors = np.empty_like(ranked)
        np.put_along_axis(vectors, ranking, ranked, axis=1)
        columns: dict[str, Any] = {
            "action": pa.array(actions.take(ranking[:, 0])),
            "cost": events["cost"],
            "propensity": np.ascontiguousarray(ranked[:, 0]),
            "propensities": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self._k),
        }
        dropped = events["pdrop"].to_numpy()
        if dropped.any():
            columns["weight"] = 1.0 / (1.0 - dropped)
        columns.update(
            {path: self._context_column(events, i) for i, path in enumerate(self.context)}
        )
        return pa.table(columns), actions

    def _context_column(self, events: pa.Table, i: int) -> Any:
        kinds = pc.drop_null(pc.unique(events[f"t{i}"])).to_pylist()
        if not kinds or kinds == ["NULL"]:
            raise DataError(
                f"no event has a value at c/{self.context[i]} (context); name paths inside c, such "
                "as U/x"
            )
        numbers = set(kinds) <= {"UBIGINT", "BIGINT", "HUGEINT", "UHUGEINT", "DOUBLE", "NULL"}
        values = events[f"v{i}"]
        return values.cast(pa.float64()) if numbers else values
