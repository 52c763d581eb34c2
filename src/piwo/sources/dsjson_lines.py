"""Lines of Vowpal Wabbit's dsjson: parsed by DuckDB, counted by what they are, checked by rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.messages import argument
from piwo.sources.addresses import name_of
from piwo.sources.dsjson_values import NUMBERS, ValueCounts
from piwo.sources.lines import Faults, lines_of
from piwo.sources.query import quoted

__all__ = ["EVENT_ID", "EventLines", "Layout", "pointer_of", "typed"]

EVENT_ID = "EventId"
"""The field of an event that no other event has, and the column of it."""
_NUMERIC = {*NUMBERS, "NULL"}
_LINES_AT_ONCE = 1024
"""Lines that one core parses at a time."""
_SKIPPED = ("blank", "not JSON", "skip-learn", "no decision", "no label", "broken JSON")
"""What lines are that are left out."""


@dataclass(frozen=True)
class Layout:
    """What is read of an event, and the rules for it, in DuckDB's SQL.

    `line` is the text, `e` the event as `shape` has it, and `types` the types of the fields in the
    text: a value that DuckDB cannot convert becomes null in `e`, so these are looked at, too.

    >>> Layout(("a", "b"), "{}", "null", {}, {}).type_of("b")
    "coalesce(types[2], 'NULL')"
    """

    fields: tuple[str, ...]
    """The fields of an event that are read."""
    shape: str
    """Their types, as `json_transform` takes them."""
    unusable: str
    """Expression: why a line that is JSON is left out, in one word of `_SKIPPED`; null: it is not.
    """
    rules: Mapping[str, str]
    """Each rule, as it reads when broken, and the condition that it is."""
    columns: Mapping[str, str]
    """Name -> expression of what is taken of an event."""
    inside: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Lists of objects inside `c`, such as "_multi", and the paths that are read of their entries.
    """
    kinds: tuple[tuple[str, str], ...] = ()
    """Columns that `columns` may use, and paths inside the entries of `c._multi`: lists of the
    types of what is there, null where an entry has nothing. `listed` has the entries."""

    def type_of(self, field: str) -> str:
        """Return the expression for the type of a field in the text; 'NULL' if it is absent."""
        return f"coalesce(types[{self.fields.index(field) + 1}], 'NULL')"


class EventLines:
    """The events of files, read once, in pieces; counts other lines and broken rules.

    Each piece is a table of the layout's columns, the line's number, `pdrop`, `event` (its id), and
    for each path of the context its value as text, v0, v1, ..., and the type of that, t0, t1, ...
    """

    def __init__(
        self, files: tuple[str, ...], context: tuple[str, ...], layout: Layout, skip_broken: bool
    ) -> None:
        import duckdb

        self.files, self.context = files, context
        self.name = name_of(files)
        self.counts: Counter[str] = Counter()
        self.faults = Faults("dsjson: an event")
        self.kinds: list[set[str]] = [set() for _ in context]
        """The types that each path of the context has."""
        self.values = [ValueCounts() for _ in context]
        """How many values of each path are numbers."""
        self.thinned = False
        """Whether an event has a `pdrop` above 0."""
        self.identified = True
        """Whether every event has an id."""
        self.layout, self._skip_broken = layout, skip_broken
        self._connection = duckdb.connect()

    @property
    def skipped(self) -> dict[str, int]:
        """How many lines are not events, by reason."""
        return {kind: self.counts[kind] for kind in _SKIPPED if self.counts[kind]}

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield each file's name and some of its sound events."""
        for file in self.files:
            for number, lines in lines_of(file):
                events = self._parsed(file, number, lines)
                if events.num_rows:
                    yield file, events

    def refuse(self) -> None:
        """Raise if an event breaks a rule.

        Raises:
            DataError: with the lines.
        """
        hint = ""
        if "is broken JSON" in self.faults.counts:
            hint = f"; pass {argument('on_error', 'skip')} to leave out and count broken lines"
        self.faults.refuse(hint)

    def require_any(self, what: str) -> None:
        """Raise if no line was an event, and for paths of the context without any value.

        Paths whose values are numbers and other ones get a warning.

        Args:
            what: no line is, in words: "an event".

        Raises:
            DataError: with the counts of other lines.
        """
        if not self.counts["sound"]:
            counted = ", ".join(f"{x} {self.counts[x]}" for x in self.counts if self.counts[x])
            raise DataError(f"no rows in {self.name!r}: no line is {what} (lines: {counted or 0})")
        for path, kinds in zip(self.context, self.kinds, strict=True):
            if kinds <= {"NULL"}:
                raise DataError(
                    f"no event has a value at c/{path} ({argument('context')}); "
                    "name paths inside c, such as U/x"
                )
        for path, counts in zip(self.context, self.values, strict=True):
            counts.warn(f"c/{path} ({argument('context')})", "events")

    def taken(self, events: pa.Table) -> list[pa.Array]:
        """Return `pdrop`, the ids and the context of events, and note what they hold."""
        self.counts["sound"] += events.num_rows
        dropped = events["pdrop"].to_numpy()
        self.thinned = self.thinned or bool(dropped.any())
        self.identified = self.identified and not events["event"].null_count
        arrays = [pa.array(dropped), events["event"].combine_chunks()]
        for i, kinds in enumerate(self.kinds):
            kinds.update(pc.drop_null(pc.unique(events[f"t{i}"])).to_pylist())
            self.values[i].add(events[f"v{i}"], events[f"t{i}"])
            arrays.append(events[f"v{i}"].combine_chunks())
        return arrays

    def contexts(self, record: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of the context; one whose values are all numbers holds numbers.

        Args:
            record: with columns v0, v1, ..., once every event was read.
        """
        arrays = []
        for i, kinds in enumerate(self.kinds):
            arrays.append(typed(record[f"v{i}"], kinds))
        return arrays

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
            self.faults.add(
                "is broken JSON", file, parsed["number"].to_numpy()[kinds == "broken JSON"]
            )
        events = parsed.filter(pa.array(kinds == "event"))
        self.counts["event"] += events.num_rows
        faults = events["fault"].to_numpy()
        for rule in pc.drop_null(pc.unique(events["fault"])).to_pylist():
            self.faults.add(rule, file, events["number"].to_numpy()[faults == rule])
        events = events.filter(pc.is_null(events["fault"])).drop_columns(["kind", "fault"])
        if events.num_rows:
            self._check_context(events, file)
        return events

    def _check_context(self, events: pa.Table, file: str) -> None:
        for i, path in enumerate(self.context):
            kinds = pc.is_in(events[f"t{i}"], value_set=pa.array(["OBJECT", "ARRAY"])).to_numpy()
            rule = (
                f"has no single value at c/{path} ({argument('context')}); name a path "
                "that ends in a number or a text"
            )
            self.faults.add(rule, file, events["number"].to_numpy()[kinds])
            numbers = pc.fill_null(pc.equal(events[f"t{i}"], "DOUBLE"), fill_value=False)
            infinite = events.filter(numbers)
            infinite = infinite.filter(pc.is_inf(infinite[f"v{i}"].cast(pa.float64())))
            rule = f"has an infinite number at c/{path} ({argument('context')})"
            self.faults.add(rule, file, infinite["number"].to_pylist())

    @cached_property
    def _query(self) -> str:
        """The query over the lines of a piece, `chunk`."""
        layout = self.layout
        places = _places(self.context, layout.fields)
        rules = _twice_rules(places)
        objects = _objects(layout)
        for i, (name, place, _) in enumerate(objects):
            where = quoted(f"c/{name}/*{place}/", "'")
            rules += f" when o{i} is not null then 'has ' || {where} || o{i} || ' twice'"
        for rule, broken in layout.rules.items():
            rules += f" when {broken} then {quoted(rule, chr(39))}"
        extra = "".join(f", {expression} as {x}" for x, expression in layout.columns.items())
        for i, path in enumerate(self.context):
            at = quoted("/c" + pointer_of(path), "'")
            extra += (
                f", case when e is not null then json_extract_string(line, {at}) end "
                f"as v{i}, case when e is not null then json_type(line, {at}) end as "
                f"t{i}"
            )
        parsed = _parsed(list(places), layout, objects)
        return f"""
            select number, kind, event, coalesce(e.pdrop, 0) as pdrop,
                   case when kind = 'event' then case {rules} end end as fault {extra}
            from (select *, {self._kind} as kind from ({parsed})) order by number
        """

    @property
    def _kind(self) -> str:
        skip = self.layout.type_of("_skipLearn")
        return f"""
            case when regexp_full_match(line, '\\s*') then 'blank'
                 when not regexp_matches(line, '^\\s*\\{{') then 'not JSON'
                 when e is null then 'broken JSON'
                 when {skip} = 'BOOLEAN' and e._skipLearn
                      and len(list_filter(keys[1], lambda k: k = '_skipLearn')) = 1
                      then 'skip-learn'
                 else coalesce({self.layout.unusable}, 'event') end
        """


def _places(context: Sequence[str], fields: Sequence[str]) -> dict[str, list[str]]:
    """Return the objects of an event that are read, and which of their fields."""
    read = {"": list(fields), "/c": ["_multi", "_slots"]}
    for place, parts in _read_at("/c", context).items():
        known = read.setdefault(place, [])
        known += [part for part in parts if part not in known]
    return read


def _read_at(start: str, paths: Sequence[str]) -> dict[str, list[str]]:
    """Return the objects on the way of paths, and which of their fields these read.

    Args:
        start: the place that the paths are inside of.
        paths: parts separated by "/".
    """
    read: dict[str, list[str]] = {}
    for path in paths:
        place = start
        for part in path.strip("/").split("/"):
            known = read.setdefault(place, [])
            if part not in known:
                known.append(part)
            place += "/" + _pointer(part)
    return read


def _pointer(part: str) -> str:
    """Return the name of a field as JSON pointers have it."""
    return part.replace("~", "~0")


def pointer_of(path: str) -> str:
    """Return a path as JSON pointers have it.

    >>> pointer_of("U/x")
    '/U/x'
    """
    return "/" + _pointer(path.strip("/"))


def typed(values: pa.Array, kinds: set[str]) -> pa.Array:
    """Return values of JSON that were read as text: numbers if all are.

    Args:
        values: text, or null.
        kinds: the types that they had.

    >>> typed(pa.array(["1", None]), {"DOUBLE"}).to_pylist()
    [1.0, None]
    """
    if kinds <= _NUMERIC:
        return values.cast(pa.float64())
    return values


def _objects(layout: Layout) -> list[tuple[str, str, list[str]]]:
    """Return the objects inside lists that are read: list, place in an entry, fields."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, paths in layout.inside:
        for place, fields in _read_at("", paths).items():
            found[name, place] = fields
    return [(name, place, fields) for (name, place), fields in found.items()]


def _parsed(
    places: Sequence[str], layout: Layout, objects: Sequence[tuple[str, str, list[str]]]
) -> str:
    """Return the query that parses lines; `keys` has the fields of the objects at these places.

    `o0`, `o1`, ... have the first field that an entry of a list holds twice. The entries are looked
    at one by one only where the text of the list, in which nothing is escaped, has the name of a
    field more often than entries have a value there.
    """
    types = _sql_list(["/" + x for x in layout.fields])
    lists = "".join(
        f", case when valid then cast(json_extract(line, '$.c.{name}') as VARCHAR) end as {name}"
        for name in ("_multi", "_slots")
    )
    inside = ""
    for i, (name, place, fields) in enumerate(objects):
        leaves = {path.strip("/") for at, paths in layout.inside if at == name for path in paths}
        known = {path.strip("/"): kind for kind, path in layout.kinds if name == "_multi"}
        often = " or ".join(
            _often(name, place, x, f"{place}/{x}"[1:] in leaves, known) for x in fields
        )
        inside += f", case when {often} then {_first_twice(name, place, fields)} end as o{i}"
    listed, kinds = "", ""
    if layout.kinds:
        listed = ", json_extract(_multi, '$[*]') as listed"
        for column, path in layout.kinds:
            at = quoted(pointer_of(path), "'")
            kinds += f", list_transform(listed, lambda x: json_type(x, {at})) as {column}"
    return f"""
        select *{inside} from (select *{kinds} from (
        select number, line, _multi, _slots{listed},
               case when valid then json_transform(line, '{layout.shape}') end as e,
               case when valid then json_type(line, {types}) end as types,
               case when valid then json_extract_string(line, '$.{EVENT_ID}') end as event,
               case when valid then json_keys(line, {_sql_list(places)}) end as keys
        from (select *{lists} from (select number, line, json_valid(line) as valid from chunk))))
    """


def _often(name: str, place: str, field: str, leaf: bool, known: Mapping[str, str]) -> str:
    """Return the condition that a field is more often in the text of a list than it has values.

    Args:
        name: of the list.
        place: of the object inside an entry.
        field: of the object.
        leaf: whether a value is read there, and no object.
        known: path -> column of the types of what entries have there, null without anything.
    """
    parts = [*(x.replace("~0", "~") for x in place.split("/")[1:]), field]
    if any(x in part for part in parts for x in '"\\*'):
        return "true"
    text = quoted(f'"{field}":', "'")
    times = f"(strlen({name}) - strlen(replace({name}, {text}, ''))) / {len(field.encode()) + 3}"
    path = quoted("$[*]" + "".join(f'."{part}"' for part in parts), "'")
    values = f"coalesce(len(json_type({name}, {path})), 0)"
    column = known.get("/".join(parts))
    if column is not None:
        # they are read anyway
        values = f"list_count({column})"
    if not leaf:
        # an object, of which each entry has one: a pass over the text less
        values = f"len(e.c.{name})"
    return f"(contains({name}, {text}) and {times} > {values})"


def _first_twice(name: str, place: str, fields: Sequence[str]) -> str:
    """Return the first of some fields that an entry of a list holds twice; null: none."""
    at = f", {quoted(place, chr(39))}" if place else ""
    keys = f"list_transform(json_extract({name}, '$[*]'), lambda x: json_keys(x{at}))"
    counts = "len(list_filter(k, lambda z: z = y)) > 1"
    each = f"list_filter({_sql_list(fields)}, lambda y: {counts})"
    return f"flatten(list_transform({keys}, lambda k: {each}))[1]"


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
