"""Vowpal Wabbit's dsjson: one JSON object a line, with ranking, probabilities, cost and context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, UsageError
from piwo.messages import argument
from piwo.sources.addresses import name_of
from piwo.sources.lines import Faults, lines_of
from piwo.sources.query import quoted
from piwo.sources.source import Fragment, Source
from piwo.sources.spool import spooled
from piwo.sources.table import TableSource

__all__ = ["EVENT_ID", "dsjson_source"]

EVENT_ID = "EventId"
"""The field of an event that no other event has, and the column of it."""

_LINES_AT_ONCE = 1024
"""Lines that one core parses at a time."""

_FIELDS = (
    "_label_cost",
    "_label_probability",
    "_label_Action",
    "_labelIndex",
    "pdrop",
    "_skipLearn",
    "a",
    "p",
    "_outcomes",
    "c",
)
"""What is read of an event."""
_NUMBERS = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DOUBLE")
"""The types that numbers have in DuckDB's JSON."""
_NUMERIC = {*_NUMBERS, "NULL"}
_SHAPE = (
    '{"_label_cost":"DOUBLE","_label_probability":"DOUBLE","_label_Action":"DOUBLE",'
    '"_labelIndex":"DOUBLE","pdrop":"DOUBLE","_skipLearn":"BOOLEAN","a":["DOUBLE"],"p":["DOUBLE"],'
    '"_outcomes":["BOOLEAN"],"c":{"_multi":["BOOLEAN"],"_slots":["BOOLEAN"]}}'
)


# The entries of _multi do not matter: as BOOLEAN they become nulls, and only their number is used.
# A value that DuckDB cannot convert becomes null, so the types in the text are looked at, too.
def _type(field: str) -> str:
    """Return the SQL expression for the type of a field in the text; 'NULL' if it is absent."""
    return f"coalesce(types[{_FIELDS.index(field) + 1}], 'NULL')"


def _no_number(field: str) -> str:
    """Return the condition that a field is there and not a number."""
    return f"{_type(field)} not in {('NULL', *_NUMBERS)}"


def _holds_others(field: str) -> str:
    """Return the condition that an entry of a list is not a number."""
    types = f"json_type(line, '$.{field}[*]')"
    return f"len(list_filter({types}, lambda x: x not in {_NUMBERS})) > 0"


_KIND = f"""
    case when regexp_full_match(line, '\\s*') then 'blank'
         when not regexp_matches(line, '^\\s*\\{{') then 'not JSON'
         when e is null then 'broken JSON'
         when {_type("_skipLearn")} = 'BOOLEAN' and e._skipLearn
              and len(list_filter(keys[1], lambda k: k = '_skipLearn')) = 1
              then 'skip-learn'
         when {_type("a")} = 'NULL' and {_type("p")} = 'NULL' and {_type("c")} = 'NULL'
              and {_type("_outcomes")} = 'NULL' then 'no decision'
         else 'event' end
"""
# Each rule, as it reads when broken, and the condition that it is. `a` is a ranking, the chosen
# action first; p[j] belongs to a[j]. A label probability is printed as float32 or with six digits,
# hence the relative tolerance of 1e-5.
_RULES = {
    "is a multi-slot event (CCB or slates), expected one decision a line": (
        "e._outcomes is not null or e.c._slots is not null"
    ),
    "has no action list c._multi": "coalesce(len(e.c._multi), 0) = 0",
    "has a and p that are not as long as c._multi": (
        "coalesce(len(e.a), 0) <> len(e.c._multi) or coalesce(len(e.p), 0) <> len(e.c._multi)"
    ),
    "has a p with entries that are not numbers": _holds_others("p"),
    "has an a with entries that are not whole numbers": (
        f"{_holds_others('a')} or len(list_filter(e.a, lambda x: x <> floor(x))) > 0"
    ),
    "has an a that is not a ranking of 1..K, the actions of c._multi": (
        "list_sort(e.a) is distinct from cast(range(1, len(e.c._multi) + 1) as DOUBLE[])"
    ),
    "has a _skipLearn that is not true or false": (
        f"{_type('_skipLearn')} not in ('NULL', 'BOOLEAN')"
    ),
    "has a _label_cost that is not a number": _no_number("_label_cost"),
    "has a _label_probability that is not a number": _no_number("_label_probability"),
    "has a _label_Action that is not a whole number": (
        f"{_no_number('_label_Action')} or e._label_Action <> floor(e._label_Action)"
    ),
    "has a _labelIndex that is not a whole number": (
        f"{_no_number('_labelIndex')} or e._labelIndex <> floor(e._labelIndex)"
    ),
    "has a pdrop that is not a number": _no_number("pdrop"),
    "has a _label_Action that is not the first of a": "e._label_Action is distinct from e.a[1]",
    "has a _labelIndex that is not _label_Action - 1": "e._labelIndex <> e.a[1] - 1",
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


def dsjson_source(
    files: Sequence[str], context: Sequence[str], labels: Sequence[Any] | None, skip_broken: bool
) -> tuple[Source, int]:
    """Return the events of dsjson files as columns, and the number of actions.

    The columns are action, cost, propensity, propensities (in the order of `c._multi`), weight if
    an event has a `pdrop`, EventId if every event has one, and one for each context path. The files
    are read once, in pieces; what is larger than 256 MB goes to temporary files. The source's
    `skipped` counts the lines that are not events, by reason.

    Args:
        files: their paths.
        context: paths inside `c`, parts separated by "/".
        labels: of the actions in the order of `c._multi`; None: 1, 2, ..., K.
        skip_broken: count lines of broken JSON instead of raising.

    Raises:
        DataError: for broken or contradictory events, with their line numbers, and for files
            without any.
        FileError: for files that cannot be read.
        UsageError: for another number of labels than actions.
    """
    events = _Events(tuple(files), tuple(context), labels, skip_broken)
    raw = spooled(events, events.columns)
    # What a column holds is known when all events were read.
    columns = _Columns(raw, events)
    made = spooled(columns, columns.names, skipped=events.skipped)
    if isinstance(made, TableSource):
        # Batches are cut anew, as those of many small files would be small.
        made = replace(made, table=made.table.combine_chunks())
    return made, events.count


def _places(context: Sequence[str]) -> dict[str, list[str]]:
    """Return the objects of an event that are read, and which of their fields."""
    read: dict[str, list[str]] = {"": list(_FIELDS), "/c": ["_multi", "_slots"]}
    for path in context:
        place = "/c"
        for part in path.strip("/").split("/"):
            known = read.setdefault(place, [])
            if part not in known:
                known.append(part)
            place += "/" + _pointer(part)
    return read


def _pointer(part: str) -> str:
    """Return the name of a field as JSON pointers have it."""
    return part.replace("~", "~0")


def _parsed(places: Sequence[str]) -> str:
    """Return the query that parses lines; `keys` has the fields of the objects at these places."""
    types = _sql_list(["/" + x for x in _FIELDS])
    return f"""
        select number, line,
               case when valid then json_transform(line, '{_SHAPE}') end as e,
               case when valid then json_type(line, {types}) end as types,
               case when valid then json_extract_string(line, '$.{EVENT_ID}') end as event,
               case when valid then json_keys(line, {_sql_list(places)}) end as keys
        from (select number, line, json_valid(line) as valid from chunk)
    """


def _sql_list(texts: Sequence[str]) -> str:
    return "[" + ", ".join(quoted(x, "'") for x in texts) + "]"


def _twice_rules(places: Mapping[str, Sequence[str]]) -> str:
    """Return the rules against fields that an object holds twice: the first would win."""
    rules = ""
    for i, (place, fields) in enumerate(places.items(), start=1):
        keys = f"keys[{i}]"
        counts = f"len(list_filter({keys}, lambda k: k = x)) > 1"
        found = f"list_filter({_sql_list(fields)}, lambda x: {counts})[1]"
        inside = quoted(f"{place}/".removeprefix("/"), "'")
        rules += (
            f" when len({keys}) > len(list_distinct({keys})) and {found} is not null "
            f"then 'has ' || {inside} || {found} || ' twice'"
        )
    return rules


class _Events:
    """The events of files, read once, by `spooled`; also their only fragment.

    Counts other lines and broken rules, and notes what columns hold.
    """

    def __init__(
        self,
        files: tuple[str, ...],
        context: tuple[str, ...],
        labels: Sequence[Any] | None,
        skip_broken: bool,
    ) -> None:
        import duckdb

        self.files, self.labels, self.start = files, labels, 0
        self.name = name_of(files)
        own = ("action", "cost", "propensity", "propensities", "pdrop", EVENT_ID)
        self.columns = (*own, *(f"v{i}" for i in range(len(context))))
        self.thinned = False
        self.identified = True
        self.kinds: list[set[str]] = [set() for _ in context]
        self.context = context
        self.counts: Counter[str] = Counter()
        self._skip_broken = skip_broken
        self._faults = Faults("dsjson: an event")
        self.count = 0
        self._connection = duckdb.connect()
        places = _places(context)
        rules = _twice_rules(places)
        for rule, broken in _RULES.items():
            rules += f" when {broken} then '{rule}'"
        extra = ""
        for i, path in enumerate(context):
            at = quoted("/c/" + _pointer(path.strip("/")), "'")
            extra += (
                f", case when e is not null then json_extract_string(line, {at}) end "
                f"as v{i}, case when e is not null then json_type(line, {at}) end as "
                f"t{i}"
            )
        self._query = f"""
            select number, kind, event, try_cast(e.a as BIGINT[]) as a, e.p as p,
                   e._label_cost as cost,
                   coalesce(e.pdrop, 0) as pdrop, len(e.c._multi) as k,
                   case when kind = 'event' then case {rules} end end as fault {extra}
            from (select *, {_KIND} as kind from ({_parsed(list(places))})) order by number
        """

    @property
    def skipped(self) -> dict[str, int]:
        """How many lines are not events, by reason."""
        return {kind: self.counts[kind] for kind in _SKIPPED if self.counts[kind]}

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the events, and raise at the end if one breaks a rule, or there is none."""
        for file in self.files:
            for number, lines in lines_of(file):
                events = self._parsed(file, number, lines)
                if events.num_rows:
                    yield self._record(events)
        self._refuse_faults()
        if not self.count:
            counted = ", ".join(f"{x} {self.counts[x]}" for x in self.counts if self.counts[x])
            raise DataError(
                f"no rows in {self.name!r}: no line is an event (lines: {counted or 0})"
            )
        if self.labels is not None and len(self.labels) != self.count:
            raise UsageError(
                f"got {len(self.labels)} {argument('actions')}, but every event of {self.name!r} "
                f"has {self.count} in c._multi"
            )
        for path, kinds in zip(self.context, self.kinds, strict=True):
            if kinds <= {"NULL"}:
                raise DataError(
                    f"no event has a value at c/{path} ({argument('context')}); "
                    "name paths inside c, such as U/x"
                )

    def _parsed(self, file: str, number: int, lines: list[str]) -> pa.Table:
        """Return the sound events of some lines, of which the first has the given number."""
        numbers = np.arange(number, number + len(lines))
        chunk = pa.table({"number": numbers, "line": pa.array(lines, pa.large_string())})
        # Small batches, so that DuckDB parses them on all cores.
        pieces = chunk.to_batches(max_chunksize=_LINES_AT_ONCE)
        self._connection.register("chunk", pa.Table.from_batches(pieces))
        parsed = pa.RecordBatchReader.from_stream(self._connection.sql(self._query)).read_all()
        kinds = parsed["kind"].to_numpy()
        for kind in _SKIPPED:
            self.counts[kind] += int((kinds == kind).sum())
        if not self._skip_broken:
            self._faults.add(
                "is broken JSON", file, parsed["number"].to_numpy()[kinds == "broken JSON"]
            )
        events = parsed.filter(pa.array(kinds == "event"))
        self.counts["event"] += events.num_rows
        faults = events["fault"].to_numpy()
        for rule in pc.drop_null(pc.unique(events["fault"])).to_pylist():
            self._faults.add(rule, file, events["number"].to_numpy()[faults == rule])
        events = events.filter(pc.is_null(events["fault"])).drop_columns(["kind", "fault"])
        if events.num_rows:
            self._check_context(events, file)
            events = self._same_actions(events, file)
        return events

    def _same_actions(self, events: pa.Table, file: str) -> pa.Table:
        """Return the events with as many actions as the first one."""
        k = events["k"].to_numpy()
        self.count = self.count or int(k[0])
        same = k == self.count
        if same.all():
            return events
        rule = (
            f"has another number of actions than the first event ({self.count}), "
            "which is not supported,"
        )
        self._faults.add(rule, file, events["number"].to_numpy()[~same])
        return events.filter(pa.array(same))

    def _check_context(self, events: pa.Table, file: str) -> None:
        for i, path in enumerate(self.context):
            kinds = pc.is_in(events[f"t{i}"], value_set=pa.array(["OBJECT", "ARRAY"])).to_numpy()
            rule = (
                f"has no single value at c/{path} ({argument('context')}); name a path "
                "that ends in a number or a text"
            )
            self._faults.add(rule, file, events["number"].to_numpy()[kinds])

    def _record(self, events: pa.Table) -> pa.RecordBatch:
        """Return events as columns, and note what they hold."""
        ranking = events["a"].combine_chunks().flatten().to_numpy().reshape(-1, self.count) - 1
        ranked = events["p"].combine_chunks().flatten().to_numpy().reshape(-1, self.count)
        vectors = np.empty_like(ranked)
        np.put_along_axis(vectors, ranking, ranked, axis=1)
        dropped = events["pdrop"].to_numpy()
        self.thinned = self.thinned or bool(dropped.any())
        self.identified = self.identified and not events["event"].null_count
        arrays = [
            pa.array(ranking[:, 0]),
            events["cost"].combine_chunks(),
            pa.array(np.ascontiguousarray(ranked[:, 0])),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.count),
            pa.array(dropped),
            events["event"].combine_chunks(),
        ]
        for i, kinds in enumerate(self.kinds):
            kinds.update(pc.drop_null(pc.unique(events[f"t{i}"])).to_pylist())
            arrays.append(events[f"v{i}"].combine_chunks())
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _refuse_faults(self) -> None:
        """Raise if an event breaks a rule."""
        hint = ""
        if "is broken JSON" in self._faults.counts:
            hint = f"; pass {argument('on_error', 'skip')} to leave out and count broken lines"
        self._faults.refuse(hint)


class _Columns:
    """The columns of a log from those of events, once it is known what these hold."""

    def __init__(self, raw: Source, events: _Events) -> None:
        self.name, self.start = raw.name, 0
        self._raw, self._events = raw, events
        names = ["action", "cost", "propensity", "propensities"]
        if events.thinned:
            names.append("weight")
        if events.identified:
            names.append(EVENT_ID)
        self.names = [*names, *events.context]
        self._labels = pa.array(events.labels or range(1, events.count + 1))

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for fragment in self._raw.fragments(self._events.columns):
            for record in fragment.records():
                yield self._record(record)

    def _record(self, record: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [self._labels.take(record["action"])]
        arrays += [record[x] for x in ("cost", "propensity", "propensities")]
        if self._events.thinned:
            arrays.append(pa.array(1.0 / (1.0 - record["pdrop"].to_numpy())))
        if self._events.identified:
            arrays.append(record[EVENT_ID])
        for i, kinds in enumerate(self._events.kinds):
            values = record[f"v{i}"]
            if kinds <= _NUMERIC:
                values = values.cast(pa.float64())
            arrays.append(values)
        return pa.RecordBatch.from_arrays(arrays, names=self.names)
