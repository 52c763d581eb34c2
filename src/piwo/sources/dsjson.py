"""Vowpal Wabbit's dsjson: one JSON object a line, with ranking, probabilities, cost and context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError, UsageError
from piwo.messages import argument
from piwo.sources.action_names import NAMES, Names, are_whole, name_columns, named_events
from piwo.sources.dsjson_entries import ENTRIES, Entries
from piwo.sources.dsjson_lines import EVENT_ID, EventLines, Layout, pointer_of, typed
from piwo.sources.dsjson_values import NUMBERS, ValueCounts
from piwo.sources.lines import RowLines
from piwo.sources.query import quoted
from piwo.sources.source import Fragment, Source
from piwo.sources.spool import spooled
from piwo.sources.table import TableSource

__all__ = ["EVENT_ID", "Decisions", "dsjson_source"]

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
# The entries of _multi do not matter: as BOOLEAN they become nulls, and only their number is used.
_SHAPE = (
    '{"_label_cost":"DOUBLE","_label_probability":"DOUBLE","_label_Action":"DOUBLE",'
    '"_labelIndex":"DOUBLE","pdrop":"DOUBLE","_skipLearn":"BOOLEAN","a":["DOUBLE"],"p":["DOUBLE"],'
    '"_outcomes":["BOOLEAN"],"c":{"_multi":["BOOLEAN"],"_slots":["BOOLEAN"]}}'
)


def _type(field: str) -> str:
    return Layout(_FIELDS, _SHAPE, "null", {}, {}).type_of(field)


def _no_number(field: str) -> str:
    """Return the condition that a field is there and not a number."""
    return f"{_type(field)} not in {('NULL', *NUMBERS)}"


def _holds_others(field: str) -> str:
    """Return the condition that an entry of a list is not a number."""
    types = f"json_type(line, '$.{field}[*]')"
    return f"len(list_filter({types}, lambda x: x not in {NUMBERS})) > 0"


_NO_DECISION = f"""
    case when {_type("a")} = 'NULL' and {_type("p")} = 'NULL' and {_type("c")} = 'NULL'
              and {_type("_outcomes")} = 'NULL' then 'no decision' end
"""
_LOWEST = "case when list_min(e.a) = 0 then 0 else 1 end"
"""What `a` counts from."""
_COUNTS = f"""
    'a from ' || {_LOWEST} || ' and _label_Action from ' ||
    cast({_LOWEST} + e._label_Action - e.a[1] as BIGINT)
"""
"""From which numbers an event counts."""
# Each rule, as it reads when broken, and the condition that it is. `a` is a ranking, the chosen
# action first, from 1 or from 0; p[j] belongs to a[j]. Vowpal Wabbit gives the label to the entry
# `_labelIndex`, from 0, and to its `_label_Action`, from 1, whatever `a` counts from; if `a` counts
# from 0, other writers count that from 0, too. A label probability is printed as float32 or with
# six digits, hence the relative tolerance of 1e-5.
_RULES = {
    "is a multi-slot event (CCB or slates), which piwo.slates.read reads, not one decision": (
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
    "has an a that is not a ranking of 1..K or 0..K-1, the actions of c._multi": (
        f"list_sort(e.a) is distinct from "
        f"cast(range({_LOWEST}, len(e.c._multi) + {_LOWEST}) as DOUBLE[])"
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
    "has a _label_Action that is not the first of a": (
        f"e._label_Action is null or e._label_Action <> e.a[1] and not "
        f"({_LOWEST} = 0 and e._label_Action = e.a[1] + 1)"
    ),
    "has a _labelIndex that is not the place of the first of a, from 0": (
        f"e._labelIndex <> e.a[1] - {_LOWEST}"
    ),
    "has a _label_probability that is not the first of p": (
        "e._label_probability is null or abs(e._label_probability - e.p[1]) > 1e-5 * "
        "greatest(e.p[1], e._label_probability)"
    ),
    "has no number in _label_cost": "e._label_cost is null",
    "has a pdrop outside [0, 1), the chance that an event was dropped": (
        "e.pdrop < 0 or e.pdrop >= 1 or isnan(e.pdrop)"
    ),
}


def _layout(items: Sequence[str], items_label: str | None) -> Layout:
    """Return what is taken of an event.

    Args:
        items: paths inside the entries of `c._multi`.
        items_label: path of the names of actions inside these.
    """
    columns = {
        "a": "try_cast(e.a as BIGINT[])",
        "p": "e.p",
        "cost": "e._label_cost",
        "k": "len(e.c._multi)",
        "lowest": _LOWEST,
        "counts": f"case when kind = 'event' then {_COUNTS} end",
        **ENTRIES,
    }
    for i, path in enumerate(items):
        at = quoted(pointer_of(path), "'")
        columns[f"i{i}"] = f"list_transform(listed, lambda x: json_extract_string(x, {at}))"
        columns[f"k{i}"] = f"k{i}"
    read = list(items)
    if items_label is not None:
        read.append(items_label)
        columns |= name_columns(pointer_of(items_label))
    inside = (("_multi", tuple(read)),) if read else ()
    kinds = tuple((f"k{i}", path) for i, path in enumerate(items))
    return Layout(_FIELDS, _SHAPE, _NO_DECISION, _RULES, columns, inside, kinds)


@dataclass(frozen=True)
class Decisions:
    """What dsjson files hold."""

    source: Source
    count: int
    """The number of actions; of changing ones the largest of an event."""
    changing: bool
    """Whether events differ in the number or the names of their actions, or features of actions
    were named."""
    differing: int = 0
    """How many events have other entries in `c._multi` than the first one."""
    labels: tuple[Any, ...] | None = None
    """The names of all actions, sorted, if a field names them."""


def dsjson_source(
    files: Sequence[str],
    context: Sequence[str],
    labels: Sequence[Any] | None,
    skip_broken: bool,
    items: Sequence[str] = (),
    items_label: str | None = None,
) -> Decisions:
    """Return the events of dsjson files as columns, and the number of actions.

    The columns are action, cost, propensity, propensities (in the order of `c._multi`), weight if
    an event has a `pdrop`, EventId if every event has one, and one for each context path. If the
    number of actions changes, `eligible` lists those of each event, and `propensities` is as long.
    The files are read once, in pieces; what is larger than 256 MB goes to temporary files. The
    source's `skipped` counts the lines that are not events, by reason.

    Args:
        files: their paths.
        context: paths inside `c`, parts separated by "/".
        labels: of the actions in the order of `c._multi`, or with `items_label` in any order; None:
            1, 2, ..., K, or the names that are found.
        skip_broken: count lines of broken JSON instead of raising.
        items: paths inside the entries of `c._multi`; then there is a column `items`, of lists of
            objects, and one of `eligible`.
        items_label: path inside the entries of `c._multi` of what names the action. If events list
            the same names in any order, `propensities` are in the order of the labels.

    Raises:
        DataError: for broken or contradictory events, with their line numbers, and for files
            without any.
        FileError: for files that cannot be read.
        UsageError: for another number of labels than actions.
    """
    lines = EventLines(tuple(files), tuple(context), _layout(items, items_label), skip_broken)
    events = _Events(lines, labels, tuple(items), items_label)
    raw = spooled(events, events.columns)
    # What a column holds is known when all events were read.
    columns = _Columns(raw, events)
    of_rows = RowLines(tuple(files), partial(_numbers, lines.layout, skip_broken))
    made = spooled(columns, columns.names, skipped=lines.skipped, lines=of_rows)
    if isinstance(made, TableSource):
        # Batches are cut anew, as those of many small files would be small.
        made = replace(made, table=made.table.combine_chunks())
    found = None if events.names is None else columns.labels
    return Decisions(made, events.count, events.changing, events.entries.differing, found)


def _numbers(
    layout: Layout, skip_broken: bool, files: tuple[str, ...]
) -> Iterator[tuple[str, int]]:
    """Yield the file and the line of each event."""
    for file, events in EventLines(files, (), layout, skip_broken).tables():
        for number in events["number"].to_pylist():
            yield file, number


class _Events:
    """The events of files, read once, by `spooled`; also their only fragment."""

    def __init__(
        self,
        lines: EventLines,
        labels: Sequence[Any] | None,
        items: tuple[str, ...],
        items_label: str | None,
    ) -> None:
        self.lines, self.labels, self.items, self.start = lines, labels, items, 0
        self.items_label = items_label
        self.names = None if items_label is None else Names(labels)
        self.name = lines.name
        own = ("action", "cost", "propensity", "propensities", "pdrop", EVENT_ID)
        of_context = (f"v{i}" for i in range(len(lines.context)))
        of_names = () if items_label is None else (NAMES,)
        self.columns = (*own, *of_context, *(f"i{i}" for i in range(len(items))), *of_names)
        self.sizes: set[int] = set()
        """The numbers of actions that events have."""
        self._counts: dict[str, str] = {}
        """What the first event of each file counts actions from."""
        self.entries = Entries()
        self.kinds: list[set[str]] = [set() for _ in items]
        """The types that each feature of the actions has."""
        self.values = [ValueCounts() for _ in items]
        """How many values of each feature are numbers."""

    @property
    def count(self) -> int:
        """The largest number of actions of an event."""
        return max(self.sizes)

    @property
    def changing(self) -> bool:
        """Whether each event lists its own actions."""
        others = len(self.sizes) > 1 if self.names is None else self.names.changing
        return others or bool(self.items)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the events, and raise at the end if one breaks a rule, or there is none."""
        for file, parsed in self.lines.tables():
            events = self._counted_alike(parsed, file)
            if self.items_label is not None:
                events = named_events(events, file, self.lines.faults, self.items_label)
            if events.num_rows:
                yield self._record(events)
        self.lines.refuse()
        self.lines.require_any("an event")
        unnamed = self.names is None and self.labels is not None
        if unnamed and len(self.labels or ()) != self.count:
            has = f"every event of {self.name!r} has {self.count}"
            if len(self.sizes) > 1:
                has = f"an event of {self.name!r} has {self.count}"
            raise UsageError(
                f"got {len(self.labels or ())} {argument('actions')}, but {has} in c._multi"
            )
        for path, kinds in zip(self.items, self.kinds, strict=True):
            if kinds <= {"NULL"}:
                raise DataError(
                    f"no entry of c._multi has a value at {path} ({argument('items')}); name paths "
                    "inside its entries"
                )
            if kinds & {"OBJECT", "ARRAY"}:
                raise DataError(
                    f"{path} ({argument('items')}) is no single value in each entry of c._multi; "
                    "name a path that ends in a number or a text"
                )
        for path, counts in zip(self.items, self.values, strict=True):
            counts.warn(f"{path} ({argument('items')})", "entries of c._multi")

    def _counted_alike(self, events: pa.Table, file: str) -> pa.Table:
        """Return the events that count from the same numbers as the first one of their file."""
        first = self._counts.setdefault(file, events["counts"][0].as_py())
        same = pc.equal(events["counts"], first)
        rule = f"does not count actions as the first event of its file ({first})"
        self.lines.faults.add(rule, file, events["number"].to_numpy()[~same.to_numpy()])
        return events.filter(same)

    def _record(self, events: pa.Table) -> pa.RecordBatch:
        """Return events as columns."""
        sizes = events["k"].to_numpy()
        self.sizes.update(np.unique(sizes).tolist())
        self.entries.compare(events)
        ends = np.append(0, np.cumsum(sizes))
        lowest = np.repeat(events["lowest"].to_numpy(), sizes)
        ranking = events["a"].combine_chunks().flatten().to_numpy() - lowest
        ranked = events["p"].combine_chunks().flatten().to_numpy()
        vectors = np.empty_like(ranked)
        vectors[ranking + np.repeat(ends[:-1], sizes)] = ranked
        arrays = [
            pa.array(ranking[ends[:-1]]),
            events["cost"].combine_chunks(),
            pa.array(np.ascontiguousarray(ranked[ends[:-1]])),
            pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(vectors)),
            *self.lines.taken(events),
        ]
        for i, kinds in enumerate(self.kinds):
            kinds.update(pc.unique(events[f"k{i}"].combine_chunks().flatten()).to_pylist())
            kinds.discard(None)
            flat = events[f"i{i}"].combine_chunks().flatten()
            self.values[i].add(flat, events[f"k{i}"].combine_chunks().flatten())
            arrays.append(events[f"i{i}"].combine_chunks())
        if self.names is not None:
            listed = events["names"].combine_chunks()
            self.names.add(listed, are_whole(events))
            arrays.append(listed)
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


class _Columns:
    """The columns of a log from those of events, once it is known what these hold."""

    def __init__(self, raw: Source, events: _Events) -> None:
        self.name, self.start = raw.name, 0
        self._raw, self._events = raw, events
        names = ["action", "cost", "propensity", "propensities"]
        if events.lines.thinned:
            names.append("weight")
        if events.lines.identified:
            names.append(EVENT_ID)
        if events.changing:
            names.append("eligible")
        if events.items:
            names.append("items")
        self.names = [*names, *events.lines.context]
        self.labels: tuple[Any, ...] = tuple(events.labels or range(1, events.count + 1))
        """Of the actions."""
        if events.names is not None:
            self.labels = tuple(events.labels or events.names.labels)
        self._labels = pa.array(self.labels)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for fragment in self._raw.fragments(self._events.columns):
            for record in fragment.records():
                yield self._record(record)

    def _record(self, record: pa.RecordBatch) -> pa.RecordBatch:
        vectors = record["propensities"]
        ends, vectors = pc.subtract(vectors.offsets, vectors.offsets[0]), vectors.flatten()
        listed = self._listed(record, ends.to_numpy())
        chosen = pc.add(ends[:-1], record["action"].cast(ends.type))
        arrays = [listed.take(chosen), record["cost"], record["propensity"]]
        if self._events.changing:
            arrays.append(pa.ListArray.from_arrays(ends, vectors))
        else:
            if self._events.names is not None:
                # in the order of the labels, whatever that of the entries is
                codes = pc.index_in(listed, value_set=self._labels.cast(listed.type)).to_numpy()
                rows = np.repeat(np.arange(len(record)), self._events.count)
                ordered = np.empty((len(record), self._events.count))
                ordered[rows, codes] = vectors.to_numpy()
                vectors = pa.array(ordered.ravel())
            arrays.append(pa.FixedSizeListArray.from_arrays(vectors, self._events.count))
        if self._events.lines.thinned:
            arrays.append(pa.array(1.0 / (1.0 - record["pdrop"].to_numpy())))
        if self._events.lines.identified:
            arrays.append(record[EVENT_ID])
        if self._events.changing:
            arrays += self._of_actions(record, ends, listed)
        arrays += self._events.lines.contexts(record)
        return pa.RecordBatch.from_arrays(arrays, names=self.names)

    def _listed(self, record: pa.RecordBatch, ends: npt.NDArray[Any]) -> pa.Array:
        """Return the labels of the entries of all events, one after the other."""
        if self._events.names is not None:
            return self._events.names.typed(record[NAMES].flatten())
        places = np.arange(ends[-1]) - np.repeat(ends[:-1], np.diff(ends))
        return self._labels.take(pa.array(places))

    def _of_actions(self, record: pa.RecordBatch, ends: pa.Array, listed: pa.Array) -> list[Any]:
        """Return the actions of each event, and the objects with their features."""
        arrays = [pa.ListArray.from_arrays(ends, listed)]
        if self._events.items:
            features: list[pa.Array] = []
            for i, kinds in enumerate(self._events.kinds):
                values = record[f"i{i}"].flatten()
                features.append(typed(values, kinds))
            objects = pa.StructArray.from_arrays(features, list(self._events.items))
            arrays.append(pa.ListArray.from_arrays(ends, objects))
        return arrays
