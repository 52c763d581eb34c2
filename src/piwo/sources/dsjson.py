"""Vowpal Wabbit's dsjson: one JSON object a line, with ranking, probabilities, cost and context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from piwo.errors import UsageError
from piwo.messages import argument
from piwo.sources.dsjson_lines import EVENT_ID, NUMBERS, EventLines, Layout
from piwo.sources.source import Fragment, Source
from piwo.sources.spool import spooled
from piwo.sources.table import TableSource

__all__ = ["EVENT_ID", "dsjson_source"]

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
# Each rule, as it reads when broken, and the condition that it is. `a` is a ranking, the chosen
# action first; p[j] belongs to a[j]. A label probability is printed as float32 or with six digits,
# hence the relative tolerance of 1e-5.
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
_LAYOUT = Layout(
    _FIELDS,
    _SHAPE,
    _NO_DECISION,
    _RULES,
    {
        "a": "try_cast(e.a as BIGINT[])",
        "p": "e.p",
        "cost": "e._label_cost",
        "k": "len(e.c._multi)",
    },
)


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
    lines = EventLines(tuple(files), tuple(context), _LAYOUT, skip_broken)
    events = _Events(lines, labels)
    raw = spooled(events, events.columns)
    # What a column holds is known when all events were read.
    columns = _Columns(raw, events)
    made = spooled(columns, columns.names, skipped=lines.skipped)
    if isinstance(made, TableSource):
        # Batches are cut anew, as those of many small files would be small.
        made = replace(made, table=made.table.combine_chunks())
    return made, events.count


class _Events:
    """The events of files, read once, by `spooled`; also their only fragment."""

    def __init__(self, lines: EventLines, labels: Sequence[Any] | None) -> None:
        self.lines, self.labels, self.start = lines, labels, 0
        self.name = lines.name
        own = ("action", "cost", "propensity", "propensities", "pdrop", EVENT_ID)
        self.columns = (*own, *(f"v{i}" for i in range(len(lines.context))))
        self.count = 0

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the events, and raise at the end if one breaks a rule, or there is none."""
        for file, parsed in self.lines.tables():
            events = self._same_actions(parsed, file)
            if events.num_rows:
                yield self._record(events)
        self.lines.refuse()
        self.lines.require_any("an event")
        if self.labels is not None and len(self.labels) != self.count:
            raise UsageError(
                f"got {len(self.labels)} {argument('actions')}, but every event of {self.name!r} "
                f"has {self.count} in c._multi"
            )

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
        self.lines.faults.add(rule, file, events["number"].to_numpy()[~same])
        return events.filter(pa.array(same))

    def _record(self, events: pa.Table) -> pa.RecordBatch:
        """Return events as columns."""
        ranking = events["a"].combine_chunks().flatten().to_numpy().reshape(-1, self.count) - 1
        ranked = events["p"].combine_chunks().flatten().to_numpy().reshape(-1, self.count)
        vectors = np.empty_like(ranked)
        np.put_along_axis(vectors, ranking, ranked, axis=1)
        arrays = [
            pa.array(ranking[:, 0]),
            events["cost"].combine_chunks(),
            pa.array(np.ascontiguousarray(ranked[:, 0])),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.count),
            *self.lines.taken(events),
        ]
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
        self.names = [*names, *events.lines.context]
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
        if self._events.lines.thinned:
            arrays.append(pa.array(1.0 / (1.0 - record["pdrop"].to_numpy())))
        if self._events.lines.identified:
            arrays.append(record[EVENT_ID])
        arrays += self._events.lines.contexts(record)
        return pa.RecordBatch.from_arrays(arrays, names=self.names)
