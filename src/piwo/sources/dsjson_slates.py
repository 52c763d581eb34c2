"""Vowpal Wabbit's dsjson of decisions with several slots: ccb and slates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from piwo.sources.action_names import NAMES, Names, are_whole, name_columns, named_events
from piwo.sources.dsjson_entries import ENTRIES, Entries
from piwo.sources.dsjson_lines import EventLines, Layout, pointer_of
from piwo.sources.dsjson_values import NUMBERS
from piwo.sources.slate_events import (
    COUNT,
    INCLUDED,
    Finished,
    SlateEvents,
    check_context,
    earned_of,
    form_in_words,
    require_labels,
)
from piwo.sources.source import Fragment
from piwo.sources.spool import spooled

__all__ = ["dsjson_slates"]

_FIELDS = ("_label_cost", "pdrop", "_skipLearn", "a", "p", "_outcomes", "c")
"""What is read of an event."""
_SHAPE = (
    '{"_label_cost":"DOUBLE","pdrop":"DOUBLE","_skipLearn":"BOOLEAN",'
    '"_outcomes":[{"_label_cost":"DOUBLE","_a":["DOUBLE"],"_p":["DOUBLE"]}],'
    '"c":{"_multi":[{"_slot_id":"DOUBLE"}],"_slots":[{"_inc":["DOUBLE"]}]}}'
)
_TOLERANCE = 1e-4
"""How far the probabilities of a slot may be from the sum 1: they are printed as float32."""


def _types(path: str) -> str:
    """Return the types in the text of what a path with wildcards finds."""
    return f"json_type(line, '$.{path}')"


def _others(path: str) -> str:
    """Return the condition that a path finds what is not a number."""
    return f"len(list_filter({_types(path)}, lambda x: x not in {NUMBERS})) > 0"


def _of_outcomes(condition: str) -> str:
    """Return the condition that one holds for some outcome o."""
    return f"len(list_filter(e._outcomes, lambda o: {condition})) > 0"


def _no_number(field: str) -> str:
    return f"{_type(field)} not in {('NULL', *NUMBERS)}"


def _type(field: str) -> str:
    return Layout(_FIELDS, _SHAPE, "null", {}, {}).type_of(field)


_SLATES = "len(json_type(line, '$.c._multi[*]._slot_id')) > 0"
"""Whether actions are of one slot each (slates)."""
_COSTS = "len(json_type(line, '$._outcomes[*]._label_cost'))"
_UNUSABLE = f"""
    case when {_type("a")} = 'NULL' and {_type("p")} = 'NULL' and {_type("c")} = 'NULL'
              and {_type("_outcomes")} = 'NULL' then 'no decision'
         when {_type("a")} = 'NULL' and {_type("p")} = 'NULL' and coalesce(len(e.c._slots), 0) > 0
              and case when {_SLATES} then {_type("_label_cost")} = 'NULL'
                       else {_type("_outcomes")} in ('NULL', 'ARRAY') and {_COSTS} = 0 end
              and len(keys[1]) = len(list_distinct(keys[1]))
              then 'no label' end
"""
# The place in c._multi of the action that an outcome o of slot s (from 0) chose.
_OWN = "list_filter(range(len(e.c._multi)), lambda i: e.c._multi[i + 1]._slot_id = s)"
_CHOSEN = f"""
    list_transform(range(len(e._outcomes)), lambda s:
        case when {_SLATES}
             then {_OWN}[try_cast(e._outcomes[s + 1]._a[1] as BIGINT) + 1]
             else try_cast(e._outcomes[s + 1]._a[1] as BIGINT) end)
"""
_KNOWN = f"""
    len(list_filter(range(len(e._outcomes)), lambda s:
        list_min(e._outcomes[s + 1]._a) < 0 or list_max(e._outcomes[s + 1]._a) >=
            case when {_SLATES} then len({_OWN}) else len(e.c._multi) end)) > 0
"""
# Each rule, as it reads when broken, and the condition that it is.
_RULES = {
    "is one decision with one action, which piwo.read reads, not one of several slots": (
        f"{_type('a')} <> 'NULL' or {_type('p')} <> 'NULL'"
    ),
    "has no action list c._multi": "coalesce(len(e.c._multi), 0) = 0",
    "has no slots c._slots": "coalesce(len(e.c._slots), 0) = 0",
    "has actions with a whole _slot_id and actions without": (
        f"{_SLATES} and (len(json_type(line, '$.c._multi[*]._slot_id')) < len(e.c._multi) or "
        f"{_others('c._multi[*]._slot_id')} or "
        "len(list_filter(e.c._multi, lambda x: x._slot_id <> floor(x._slot_id))) > 0)"
    ),
    "has other numbers of _outcomes and c._slots": (
        "coalesce(len(e._outcomes), 0) <> len(e.c._slots)"
    ),
    "has a field of an outcome twice": (
        "len(list_filter(json_extract(line, '$._outcomes[*]'), lambda x: "
        "len(json_keys(x)) > len(list_distinct(json_keys(x))))) > 0"
    ),
    "has an outcome without lists _a and _p of the same length": (
        _of_outcomes(
            "o is null or coalesce(len(o._a), 0) = 0 or coalesce(len(o._p), 0) <> len(o._a)"
        )
    ),
    "has an _a with entries that are not whole numbers": (
        f"{_others('_outcomes[*]._a[*]')} or "
        + _of_outcomes("len(list_filter(o._a, lambda x: x <> floor(x))) > 0")
    ),
    "has an _a with numbers of no action": _KNOWN,
    "has an _inc with entries that are not numbers of its actions": (
        f"{_others('c._slots[*]._inc[*]')} or len(list_filter(e.c._slots, lambda x: "
        "list_min(x._inc) < 0 or list_max(x._inc) >= len(e.c._multi) or "
        "len(list_filter(x._inc, lambda y: y <> floor(y))) > 0)) > 0"
    ),
    "has an _a that lists an action twice": (_of_outcomes("len(list_distinct(o._a)) < len(o._a)")),
    "has a _p with entries that are not numbers": _others("_outcomes[*]._p[*]"),
    "has a _p with negative entries": _of_outcomes("list_min(o._p) < 0"),
    "has a _p that does not sum to 1": (
        _of_outcomes(f"len(o._p) > 1 and abs(list_sum(o._p) - 1) > {_TOLERANCE}")
    ),
    "shows an action in two slots": f"len(list_distinct({_CHOSEN})) < len(e._outcomes)",
    "has a _label_cost that is not a number": (
        f"case when {_SLATES} then {_no_number('_label_cost')} "
        f"else {_others('_outcomes[*]._label_cost')} end"
    ),
    "has slots with a _label_cost and slots without, whose reward is not known": (
        f"not {_SLATES} and {_COSTS} < len(e._outcomes)"
    ),
    "has a _skipLearn that is not true or false": (
        f"{_type('_skipLearn')} not in ('NULL', 'BOOLEAN')"
    ),
    "has a pdrop that is not a number": _no_number("pdrop"),
    "has a pdrop outside [0, 1), the chance that an event was dropped": (
        "e.pdrop < 0 or e.pdrop >= 1 or isnan(e.pdrop)"
    ),
}
_COLUMNS = {
    # what must be the same in every event
    "form": (
        f"case when kind = 'event' and {_SLATES} then 'slates ' || array_to_string("
        "list_transform(e.c._multi, lambda x: cast(x._slot_id as BIGINT)), ',') "
        "else 'ccb ' || len(e.c._multi) end"
    ),
    "owners": (
        "case when kind = 'event' then "
        "list_transform(e.c._multi, lambda x: try_cast(x._slot_id as BIGINT)) end"
    ),
    "count": "case when kind = 'event' then len(e.c._multi) end",
    "shown": f"case when kind = 'event' then {_CHOSEN} end",
    "propensities": (
        "case when kind = 'event' then list_transform(e._outcomes, lambda o: o._p[1]) end"
    ),
    "costs": (
        "case when kind = 'event' then list_transform(e._outcomes, lambda o: o._label_cost) end"
    ),
    "cost": "e._label_cost",
    # whether what a slot includes lacks an action that is not shown above it
    "narrow": (
        "kind = 'event' and len(list_filter(range(len(e.c._slots)), lambda s: "
        "coalesce(len(e.c._slots[s + 1]._inc), 0) > 0 and len(list_distinct(list_concat("
        "e.c._slots[s + 1]._inc, list_transform(list_slice(e._outcomes, 1, s), lambda o: o._a[1])"
        "))) < len(e.c._multi))) > 0"
    ),
    "included": (
        f"case when kind = 'event' then case when {_SLATES} "
        f"then list_transform(range(len(e.c._slots)), lambda s: {_OWN}) "
        "else list_transform(e.c._slots, lambda x: try_cast(x._inc as BIGINT[])) end end"
    ),
    **ENTRIES,
}
"""What is taken of an event."""


def _layout(items_label: str | None) -> Layout:
    """Return what is read of an event.

    Args:
        items_label: path of the names of actions inside the entries of `c._multi`.
    """
    columns = dict(_COLUMNS)
    read = ["_slot_id"]
    if items_label is not None:
        read.append(items_label)
        columns |= name_columns(pointer_of(items_label))
    inside = (("_multi", tuple(read)), ("_slots", ("_inc",)))
    return Layout(_FIELDS, _SHAPE, _UNUSABLE, _RULES, columns, inside)


def dsjson_slates(
    files: Sequence[str],
    context: Sequence[str],
    labels: Sequence[Any] | None,
    lowest: float,
    skip_broken: bool,
    items_label: str | None = None,
) -> SlateEvents:
    """Return the ccb or slates events of dsjson files as columns.

    The columns are those of `SlateEvents`. The files are read once, in pieces; what is larger than
    256 MB goes to temporary files. The source's `skipped` counts the lines that are not labeled
    decisions, by reason.

    Args:
        files: their paths.
        context: paths inside `c`, parts separated by "/".
        labels: of the actions in the order of `c._multi`, or with `items_label` in any order; None:
            0, 1, ..., K - 1, or the names that are found.
        lowest: the least reward, which is counted as 0.
        skip_broken: count lines of broken JSON instead of raising.
        items_label: path inside the entries of `c._multi` of what names the action.

    Raises:
        DataError: for broken or contradictory events, with their line numbers, and for files
            without any.
        FileError: for files that cannot be read.
        UsageError: for another number of labels than actions.
    """
    check_context(context)
    lines = EventLines(tuple(files), tuple(context), _layout(items_label), skip_broken)
    names = None if items_label is None else Names(labels)
    labels = labels if names is None else None
    events = _Events(lines, lowest, items_label, names)
    raw = spooled(events, events.columns)
    whose = "the longest event" if events.changing else "every event"
    require_labels(labels, events.count, lines.name, whose)

    def of_others(record: pa.RecordBatch) -> list[pa.Array]:
        found = lines.contexts(record)
        if lines.thinned:
            found.insert(0, pa.array(1.0 / (1.0 - record["pdrop"].to_numpy())))
        return found

    # What a column holds is known when all events were read.
    others = [*(["weight"] if lines.thinned else []), *lines.context]
    columns = Finished(
        raw,
        events.by_slot,
        events.changing,
        events.of_slots,
        labels,
        events.names,
        others,
        of_others,
    )
    return SlateEvents(
        columns.spooled(lines.skipped),
        events.by_slot,
        events.count,
        events.changing,
        events.of_slots,
        None if events.names is None else events.names.labels,
        events.entries.differing,
    )


class _Events:
    """The events of files, read once, by `spooled`; also their only fragment."""

    def __init__(
        self, lines: EventLines, lowest: float, items_label: str | None, names: Names | None
    ) -> None:
        self.lines, self.lowest, self.items_label, self.start = lines, lowest, items_label, 0
        self.name = lines.name
        own = ("slate", "earned", "propensities", COUNT, "pdrop", "event")
        of_items = () if items_label is None else (NAMES,)
        self.columns = (*own, *(f"v{i}" for i in range(len(lines.context))), INCLUDED, *of_items)
        self.form: str | None = None
        self.sizes: set[int] = set()
        """The numbers of actions that events have."""
        self.names = names
        self.entries = Entries()
        self.slotted = False
        """Whether a slot cannot show an action that is not shown above it; or slates change."""
        self.others = False
        """Whether slates have other actions than the first one."""

    @property
    def by_slot(self) -> bool:
        """Whether each slot has a cost (ccb)."""
        return self.form is not None and self.form.startswith("ccb")

    @property
    def count(self) -> int:
        """The largest number of actions of an event."""
        return max(self.sizes)

    @property
    def changing(self) -> bool:
        """Whether each event lists its own actions."""
        if self.names is not None:
            return self.names.changing or self.others
        return len(self.sizes) > 1 or self.others

    @property
    def of_slots(self) -> bool:
        """Whether eligible actions are those of each slot."""
        return self.slotted or (self.changing and not self.by_slot)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the events, and raise at the end if one breaks a rule, or there is none."""
        for file, parsed in self.lines.tables():
            events = self._named(self._same_form(parsed, file), file)
            if events.num_rows:
                yield self._record(events)
        self.lines.refuse()
        self.lines.require_any("a labeled decision")

    def _same_form(self, events: pa.Table, file: str) -> pa.Table:
        """Return the events of the kind of the first one."""
        self.form = self.form or str(events["form"][0].as_py())
        same = pc.starts_with(events["form"], self.form.partition(" ")[0])
        others = events["number"].to_numpy()[~same.to_numpy()]
        rule = f"is not like the first event ({form_in_words(self.form)})"
        self.lines.faults.add(rule, file, others)
        return events.filter(same)

    def _named(self, events: pa.Table, file: str) -> pa.Table:
        """Return the events in which each action has a name of its own."""
        if self.names is None or not events.num_rows:
            return events
        slots = None
        if not self.by_slot:
            # an action of slates may be one of several slots
            slots = events["owners"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        assert self.items_label is not None
        return named_events(events, file, self.lines.faults, self.items_label, slots)

    def _record(self, events: pa.Table) -> pa.RecordBatch:
        """Return events as columns."""
        counts = events["count"].combine_chunks()
        self.sizes.update(pc.unique(counts).to_pylist())
        self.entries.compare(events)
        if self.by_slot:
            self.slotted = self.slotted or bool(pc.any(events["narrow"]).as_py())
        else:
            self.others = self.others or not pc.all(pc.equal(events["form"], self.form)).as_py()
        costs = events["costs" if self.by_slot else "cost"].combine_chunks()
        arrays = [
            events["shown"].combine_chunks(),
            earned_of(costs, self.lowest),
            events["propensities"].combine_chunks(),
            counts,
            *self.lines.taken(events),
            events["included"].combine_chunks(),
        ]
        if self.names is not None:
            listed = events["names"].combine_chunks()
            slots: list[int] = []
            if self.form is not None and not self.by_slot and not self.others:
                slots = [int(x) for x in self.form.partition(" ")[2].split(",")]
            self.names.add(listed, are_whole(events), slots)
            arrays.append(listed)
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))
