"""Vowpal Wabbit's text format of decisions with several slots: `--ccb_explore_adf`, `--slates`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from piwo.errors import DataError
from piwo.sources.action_names import NAMES, Names
from piwo.sources.addresses import name_of
from piwo.sources.lines import BrokenLineError, Faults, number_of
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
from piwo.sources.source import Fragment, rows_within
from piwo.sources.spool import spooled
from piwo.sources.vw import numbered_lines, words_of
from piwo.sources.vw_features import FeatureColumns, Places
from piwo.sources.vw_names import NameOfLine

__all__ = ["vw_slates"]

_DIGITS = 10
"""Numbers of actions and slots have fewer digits."""
_SLOTS = 8
"""Slots that a row is taken to have, to cut batches."""
_TOLERANCE = 1e-4
"""How far the probabilities of a slot may be from the sum 1: they are printed with six digits."""


@dataclass(frozen=True)
class _Slate:
    """A labeled decision."""

    shown: list[int]
    """Numbers of the actions, from 0, by slot."""
    costs: list[float]
    """Of the slots (ccb), or of the slate alone."""
    propensities: list[float]
    actions: int
    """How many the decision had."""
    included: Sequence[Sequence[int]] = ()
    """Of each slot; none: all."""
    narrow: bool = False
    """Whether a slot cannot show an action that is not shown above it."""
    names: Sequence[str] = ()
    """Of these, if a feature names them."""


@dataclass(frozen=True)
class _Chosen:
    """What the label of a slot says."""

    action: int
    cost: float
    propensity: float
    included: tuple[int, ...] = ()
    """The actions of this slot; none: all."""


@dataclass
class _Block:
    """The lines of a decision."""

    kind: str
    shared: Sequence[str] = ()
    """The features of the shared line."""
    cost: float | None = None
    """Of the slate."""
    lines: list[str] = field(default_factory=list)
    """The features of each action, as they are written."""
    actions: list[str] = field(default_factory=list)
    """The same, with single blanks."""
    owners: list[int] = field(default_factory=list)
    """The slot of each action (slates)."""
    slots: list[_Chosen | None] = field(default_factory=list)

    @property
    def form(self) -> str:
        """What must be the same in every decision."""
        if self.kind == "ccb":
            return f"ccb {len(self.actions)}"
        return f"slates {','.join(map(str, self.owners))}"


def vw_slates(
    files: Sequence[str],
    context: Sequence[str],
    labels: Sequence[Any] | None,
    lowest: float,
    places: Places,
    hash_size: int,
    items_label: str | None = None,
) -> SlateEvents:
    """Return the labeled decisions of text files as columns, those of `SlateEvents`.

    The rows are read once, in pieces; what is larger than 256 MB goes to a temporary file. The
    source's `skipped` counts what was left out, by reason.

    Args:
        files: their paths.
        context: features of the shared line, as in `vw_source`.
        labels: of the action lines; their features may change then. With `items_label` in any
            order. None: 0, 1, ..., K - 1, or the names that are found.
        lowest: the least reward, which is counted as 0.
        places: hashes the features of "namespace/*" into `hash_size` columns.
        hash_size: their number.
        items_label: the feature of an action line that names the action.

    Raises:
        DataError: for lines that break a rule, with their numbers, and for files without decisions.
        FileError: for files that cannot be read.
    """
    check_context(context)
    features = FeatureColumns(tuple(context), places, hash_size)
    name_of_line = None if items_label is None else NameOfLine(items_label, places, hash_size)
    names = None if name_of_line is None else Names(labels)
    labels = labels if names is None else None
    rows = _Rows(tuple(files), labels, lowest, features, name_of_line, names)
    raw = spooled(rows, rows.columns, skipped=rows.counts)
    whose = "the longest event" if rows.changing else "every event"
    require_labels(labels, rows.most, rows.name, whose)

    def of_others(record: pa.RecordBatch) -> list[pa.Array]:
        return [record[name] for name in features.columns]

    by_slot = rows.kind == "ccb"
    columns = Finished(
        raw, by_slot, rows.changing, rows.of_slots, labels, names, features.columns, of_others
    )
    found = None if names is None else names.labels
    source = columns.spooled(rows.counts)
    return SlateEvents(source, by_slot, rows.most, rows.changing, rows.of_slots, found)


@dataclass
class _Rows:
    """The decisions of files, read once, by `spooled`; also their only fragment."""

    files: tuple[str, ...]
    labels: Sequence[Any] | None
    lowest: float
    context: FeatureColumns
    name_of_line: NameOfLine | None
    names: Names | None
    counts: Counter[str] = field(default_factory=Counter)
    faults: Faults = field(default_factory=lambda: Faults("vw: an event"))
    start = 0
    first: _Block | None = None
    """The first labeled decision."""
    most: int = 0
    """Actions of the decision with most."""
    others: bool = False
    """Whether the number of actions changes, or what their lines say."""

    narrow: bool = False
    """Whether a slot of ccb cannot show an action that is not shown above it."""

    @property
    def changing(self) -> bool:
        """Whether each event lists its own actions."""
        if self.names is not None:
            return self.names.changing or (self.others and self.kind == "slates")
        return self.others

    @property
    def of_slots(self) -> bool:
        """Whether eligible actions are those of each slot."""
        return self.narrow or (self.changing and self.kind == "slates")

    @property
    def name(self) -> str:
        """The name in messages."""
        return name_of(self.files)

    @property
    def kind(self) -> str:
        """Of the first decision: "ccb" or "slates"."""
        return "ccb" if self.first is None else self.first.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        of_items = () if self.names is None else (NAMES,)
        own = ("slate", "earned", "propensities", COUNT, INCLUDED)
        return (*own, *of_items, *self.context.columns)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the decisions, and raise at the end if lines broke rules."""
        most = rows_within(self.context.width + 3 * _SLOTS)
        found: list[_Slate] = []
        for slate in self._decisions():
            found.append(slate)
            if len(found) >= most and self.context.typed:
                yield self._record(found)
                found = []
        self.faults.refuse()
        if found:
            self.context.require_found()
            yield self._record(found)

    def _decisions(self) -> Iterator[_Slate]:
        """Yield each labeled decision, whose context was taken in."""
        for file in self.files:
            for number, lines in _blocks(file):
                try:
                    block = _parsed(lines)
                    slate = _labeled(block)
                    if slate is None:
                        self.counts["no label"] += 1
                        continue
                    if self.name_of_line is not None:
                        slate = replace(
                            slate, names=self.name_of_line.of(block.lines, block.owners)
                        )
                    self._check_same(block)
                    self.context.add(block.shared)
                except BrokenLineError as broken:
                    self.faults.add(str(broken), file, [number])
                    continue
                self.narrow = self.narrow or (slate.narrow and self.kind == "ccb")
                yield slate
        if self.first is None and not self.faults.counts:
            counted = ", ".join(f"{name} {count}" for name, count in self.counts.items())
            raise DataError(
                f"no rows in {self.name!r}: no decision has a label (left out: {counted or 0})"
            )

    def _check_same(self, block: _Block) -> None:
        """Note whether the actions are those of the first decision; raise for another kind."""
        if self.first is None:
            self.first = block
        count = len(block.actions)
        if self.labels is not None and count > len(self.labels):
            require_labels(self.labels, count, self.name, "an event")
        self.most = max(self.most, count)
        named = self.labels is not None or self.names is not None
        if block.kind != self.first.kind:
            raise BrokenLineError(f"is not like the first event ({form_in_words(self.first.form)})")
        same = block.form == self.first.form
        if not named:
            same = same and block.actions == self.first.actions
        self.others |= not same

    def _record(self, found: list[_Slate]) -> pa.RecordBatch:
        """Return decisions as columns."""
        lists = pa.list_(pa.float64())
        shown = pa.array([slate.shown for slate in found], pa.list_(pa.int64()))
        costs = pa.array([slate.costs for slate in found], lists)
        if self.kind == "slates":
            costs = costs.flatten()
        arrays = [
            shown,
            earned_of(costs, self.lowest),
            pa.array([slate.propensities for slate in found], lists),
            pa.array([slate.actions for slate in found], pa.int64()),
            pa.array([slate.included for slate in found], pa.list_(pa.list_(pa.int64()))),
        ]
        if self.names is not None:
            assert self.name_of_line is not None
            listed = pa.array([slate.names for slate in found], pa.list_(pa.string()))
            slots: Sequence[int] = ()
            if self.first is not None and self.kind == "slates" and not self.others:
                slots = self.first.owners
            self.names.add(listed, self.name_of_line.whole, slots)
            arrays.append(listed)
        arrays += self.context.taken()
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _blocks(file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line, and the lines, of each decision."""
    lines: list[str] = []
    start = 1
    for number, line in numbered_lines(file, last=""):
        if line.strip():
            if not lines:
                start = number
            lines.append(line)
        elif lines:
            yield start, lines
            lines = []


def _parsed(lines: Sequence[str]) -> _Block:
    """Return what the lines of a decision say.

    Raises:
        BrokenLineError: for what is not a shared line, action lines, and slot lines.
    """
    block = _Block("")
    for line in lines:
        head, _, rest = line.partition("|")
        words = words_of(head)
        if not words or words[0] not in {"ccb", "slates"}:
            raise BrokenLineError("is neither ccb nor slates (piwo.read reads single decisions)")
        kind, part = words[0], words[1] if len(words) > 1 else ""
        if block.kind not in {"", kind}:
            raise BrokenLineError("has ccb lines and slates lines")
        first, block.kind = not block.kind, kind
        if part == "shared" and first:
            block.shared = (rest,)
            block.cost = _shared_cost(kind, words[2:])
        elif part == "action" and not first and not block.slots:
            block.lines.append(rest)
            block.actions.append(" ".join(rest.split()))
            block.owners += _owner(kind, words[2:])
        elif part == "slot" and block.actions:
            block.slots.append(_chosen(kind, words[2:]))
        else:
            raise BrokenLineError(
                "is not one shared line, then its action lines, then its slot lines"
            )
    return block


def _shared_cost(kind: str, words: Sequence[str]) -> float | None:
    if not words:
        return None
    if kind == "ccb" or len(words) > 1:
        raise BrokenLineError(f"has the shared label {' '.join(words)[:40]!r}, which is none")
    return _number(words[0])


def _owner(kind: str, words: Sequence[str]) -> list[int]:
    """Return the slot that an action is of (slates)."""
    if kind == "ccb" and not words:
        return []
    if kind == "ccb" or len(words) != 1:
        wanted = "none" if kind == "ccb" else "the number of a slot"
        raise BrokenLineError(f"has the action label {' '.join(words)[:40]!r}, expected {wanted},")
    return [_whole(words[0])]


def _chosen(kind: str, words: Sequence[str]) -> _Chosen | None:
    """Return what the label of a slot says; None without one.

    ccb: action:cost:probability,action:probability,... and a list of the actions of this slot,
    either of which may be left out; slates: action:probability,action:probability,...
    """
    labels = [word for word in words if ":" in word]
    listed = [word for word in words if ":" not in word]
    if len(labels) > 1 or len(listed) > (kind == "ccb"):
        raise BrokenLineError(f"has the slot label {' '.join(words)[:40]!r}, which is none")
    included = tuple(map(_whole, listed[0].split(","))) if listed else ()
    if not labels:
        return None
    first, *others = labels[0].split(",")
    parts = first.split(":")
    if len(parts) != (3 if kind == "ccb" else 2):
        wanted = "action:cost:probability" if kind == "ccb" else "action:probability"
        raise BrokenLineError(f"has {first[:40]!r} as label, expected {wanted},")
    chosen = _Chosen(_whole(parts[0]), _number(parts[1]), _number(parts[-1]), included)
    total = chosen.propensity
    for other in others:
        action, colon, probability = other.partition(":")
        _whole(action)
        if not colon:
            raise BrokenLineError(f"has {other[:40]!r} in a label, expected action:probability,")
        total += _number(probability)
    if others and not abs(total - 1.0) <= _TOLERANCE:
        raise BrokenLineError("has probabilities of a slot that do not sum to 1")
    return chosen


def _labeled(block: _Block) -> _Slate | None:
    """Return the slate that was shown; None for a decision without a label.

    Raises:
        BrokenLineError: for one that is labeled in part, or contradicts itself.
    """
    if not block.slots:
        raise BrokenLineError("has no slot lines")
    chosen = [slot for slot in block.slots if slot is not None]
    if block.kind == "slates" and block.cost is None:
        return None
    if block.kind == "ccb" and not chosen:
        return None
    if len(chosen) < len(block.slots):
        unknown = "reward" if block.kind == "ccb" else "action"
        raise BrokenLineError(
            f"has slots with a label and slots without, whose {unknown} is not known,"
        )
    shown, included, narrow = _shown(block, chosen)
    if len(set(shown)) < len(shown):
        raise BrokenLineError("shows an action in two slots")
    costs = [slot.cost for slot in chosen]
    if block.cost is not None:
        costs = [block.cost]
    propensities = [slot.propensity for slot in chosen]
    return _Slate(shown, costs, propensities, len(block.actions), included, narrow)


def _shown(block: _Block, chosen: Sequence[_Chosen]) -> tuple[list[int], list[Sequence[int]], bool]:
    """Return the shown actions, those that each slot can show, and if some are left out there.

    Raises:
        BrokenLineError: for numbers of no action.
    """
    shown: list[int] = []
    included: list[Sequence[int]] = []
    narrow = False
    everything = range(len(block.actions))
    for place, slot in enumerate(chosen):
        own: Sequence[int] = everything
        if block.kind == "slates":
            own = [i for i, owner in enumerate(block.owners) if owner == place]
        if slot.action >= len(own) or not set(slot.included) <= set(everything):
            number = max(slot.action, *slot.included, 0)
            raise BrokenLineError(f"has the number of no action ({number}) in a slot")
        shown.append(own[slot.action])
        if slot.included:
            own = slot.included
            # an action that is shown above a slot is not left out by its list
            narrow = narrow or len({*own, *shown[:place]}) < len(block.actions)
        included.append(own)
    return shown, included, narrow


def _number(text: str) -> float:
    try:
        return number_of(text)
    except ValueError:
        raise BrokenLineError(f"has {text[:40]!r} in a label, expected a number,") from None


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS):
        raise BrokenLineError(f"has {text[:40]!r} in a label, expected a number from 0 on,")
    return int(text)
