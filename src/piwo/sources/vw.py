"""Vowpal Wabbit's text format: one line a decision (`--cb`), or one line an action (`--cb_adf`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from piwo.errors import DataError, UsageError
from piwo.messages import argument
from piwo.sources.action_names import NamedColumns, Names
from piwo.sources.addresses import name_of
from piwo.sources.lines import BrokenLineError, Faults, RowLines, lines_of, number_of
from piwo.sources.source import Fragment, Source, rows_within
from piwo.sources.spool import spooled
from piwo.sources.table import TableSource
from piwo.sources.vw_features import FeatureColumns, Places
from piwo.sources.vw_names import NameOfLine

__all__ = ["VwEvents", "VwKind", "numbered_lines", "vw_source", "words_of"]

VwKind: TypeAlias = Literal["cb", "cb_adf"]
"""The two layouts, by the names of Vowpal Wabbit's options."""

_HEAD = 1000
"""Lines from which the layout is guessed."""
_ACTIONS = 8
"""Actions that a decision is taken to have, to cut batches."""
_MOST_KNOWN = 2**16
"""Labels that are parsed once and kept."""
_MOST_ACTIONS = 1_000_000
"""The largest number of an action without labels. A larger one is a hash or an id of the action:
all numbers up to it would be on the action list."""
_LABEL = re.compile(r"[0-9]+(:[^:\s]*){0,2}")
_OTHER_KINDS = {
    "ccb": "is of a decision with several slots (ccb), which piwo.slates.read_vw reads,",
    "slates": "is of a slate, which piwo.slates.read_vw reads,",
    "ca": "has a continuous action (ca), and actions of a list are read",
}


@dataclass(frozen=True)
class _Label:
    """What a line says of an action."""

    action: int
    cost: float
    probability: float
    listed: tuple[int, ...] = ()
    """The actions that could be taken, if the line lists them."""
    names: Sequence[str] = ()
    """Of these, if a feature of the action lines names them."""


@dataclass(frozen=True)
class VwEvents:
    """Labeled decisions as rows.

    >>> import pyarrow
    >>> from piwo.sources.table import TableSource
    >>> VwEvents(TableSource(pyarrow.table({"action": [1]})), 1, changing=False).count
    1
    """

    source: Source
    """Columns action, cost, propensity, and one for each entry of the context; with sets of actions
    that change also eligible, and items if features of actions were named."""
    count: int
    """The number of actions."""
    changing: bool
    """Whether the sets of actions, or what their lines say, change from decision to decision."""
    by_line: bool = False
    """Whether actions are lines (`--cb_adf`), not numbers."""
    labels: tuple[Any, ...] | None = None
    """The names of all actions, sorted, if a feature names them."""


def vw_source(
    files: Sequence[str],
    context: Sequence[str],
    labels: Sequence[Any] | None,
    kind: VwKind | None,
    places: Places,
    hash_size: int,
    items: Sequence[str] = (),
    items_label: str | None = None,
) -> VwEvents:
    """Return the labeled decisions of text files as columns.

    The rows are read once, in pieces; what is larger than 256 MB goes to a temporary file. The
    source's `skipped` counts what was left out, by reason.

    Args:
        files: their paths.
        context: "feature" of the namespace without a name, "namespace/feature", or "namespace/*".
        labels: of actions 1, 2, ..., K, or with `items_label` in any order; None: the numbers
            themselves, or the names that are found.
        kind: the layout; None: guessed from the first lines.
        places: hashes the features of "namespace/*" into `hash_size` columns.
        hash_size: their number.
        items: features of the action lines, named as those of `context`.
        items_label: the feature of an action line that names the action.

    Raises:
        DataError: for lines that break a rule, with their numbers, and for files without decisions.
        FileError: for files that cannot be read.
    """
    if kind is None:
        kind = _guessed(files[0])
    for name, given in (("items", items), ("items_label", items_label)):
        if given and kind == "cb":
            raise UsageError(
                f"{argument(name)} names features of action lines, and each line of {files[0]!r} "
                "is a decision (--cb); leave it out"
            )
    names = name_of_line = None
    if items_label is not None:
        name_of_line, names = NameOfLine(items_label, places, hash_size), Names(labels)
        labels = None
    features = FeatureColumns(tuple(context), places, hash_size)
    of_items = FeatureColumns(tuple(items), places, hash_size)
    rows = _Rows(tuple(files), kind, labels, features, of_items, name_of_line, names)
    lines = RowLines(rows.files, partial(_numbers, kind, labels))
    source = spooled(rows, rows.columns, skipped=rows.counts, lines=lines)
    if names is not None:
        # Whether names are numbers is known when all were read.
        typed = NamedColumns(source, names)
        source = spooled(typed, rows.columns, skipped=rows.counts, lines=lines)
    changing = rows.changing or bool(items)
    if rows.changing and rows.unlisted:
        raise DataError(
            f"vw: {rows.unlisted:,} lines of {source.name} list no actions that could be taken, "
            "and others list sets that change; list them in every line"
        )
    if not changing and isinstance(source, TableSource):
        source = replace(source, table=source.table.drop_columns(["eligible"]))
    found = None if names is None else names.labels
    return VwEvents(source, rows.count, changing, kind == "cb_adf", found)


def _guessed(path: str) -> VwKind:
    """Return the layout of a file, by its first lines.

    In files of one line an action, a first line is `shared`, the action of a label is 0, or of the
    lines between two blank ones some have no label.
    """
    labeled = unlabeled = 0
    _, lines = next(lines_of(path), (1, []))
    for line in islice(lines, _HEAD):
        if not line.strip():
            if labeled == 1 and unlabeled:
                return "cb_adf"
            labeled = unlabeled = 0
            continue
        words = line.partition("|")[0].split()
        if words and (words[0] == "shared" or words[0].startswith("0:")):
            return "cb_adf"
        if words:
            labeled += 1
        else:
            unlabeled += 1
    return "cb"


@dataclass
class _Rows:
    """The decisions of files, read once, by `spooled`; also their only fragment."""

    files: tuple[str, ...]
    kind: VwKind
    labels: Sequence[Any] | None
    context: FeatureColumns
    items: FeatureColumns
    name_of_line: NameOfLine | None
    names: Names | None
    counts: Counter[str] = field(default_factory=Counter)
    count: int = 0
    """The number of actions, known at the end."""
    faults: Faults = field(default_factory=lambda: Faults("vw: an event"))
    start = 0
    known: dict[str, _Label | None] = field(default_factory=dict)
    listed: tuple[int, ...] = ()
    first: tuple[str, ...] | None = None
    """The action lines of the first decision."""
    others: bool = False
    """Whether the sets of actions, or what their lines say, change."""
    unlisted: int = 0
    """Decisions that do not list the actions that could be taken (`--cb`)."""

    def __post_init__(self) -> None:
        if self.labels is not None:
            self.count = len(self.labels)

    @property
    def changing(self) -> bool:
        """Whether each decision lists its own actions."""
        return self.others if self.names is None else self.names.changing

    @property
    def name(self) -> str:
        """The name in messages."""
        return name_of(self.files)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        own = ["action", "cost", "propensity", "eligible"]
        if self.items.columns:
            own.append("items")
        return (*own, *self.context.columns)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the decisions, and raise at the end if lines broke rules."""
        most = rows_within(self.context.width + _ACTIONS * (1 + self.items.width))
        found: list[_Label] = []
        for label in self._decisions():
            found.append(label)
            if len(found) >= most and self.context.typed and self.items.typed:
                yield self._record(found)
                found = []
        self.faults.refuse()
        if found:
            self.context.require_found()
            self.items.require_found()
            yield self._record(found)

    def _decisions(self) -> Iterator[_Label]:
        """Yield the label of each decision, whose context was taken in."""
        any_found = False
        for file in self.files:
            for number, label, texts, lines in self.decisions(file):
                try:
                    self.context.add(texts)
                    for line in lines:
                        self.items.add((line,))
                except BrokenLineError as broken:
                    self.faults.add(str(broken), file, [number])
                    continue
                any_found = True
                yield label
        if not any_found and not self.faults.counts:
            counted = ", ".join(f"{name} {count}" for name, count in self.counts.items())
            raise DataError(
                f"no rows in {self.name!r}: no line has a label action:cost:probability "
                f"(left out: {counted or 0})"
            )

    def decisions(self, file: str) -> Iterator[tuple[int, _Label, Sequence[str], Sequence[str]]]:
        """Yield the line number, label, features and action lines of each labeled decision."""
        return self._of_lines(file) if self.kind == "cb" else self._of_blocks(file)

    def _of_lines(self, file: str) -> Iterator[tuple[int, _Label, Sequence[str], Sequence[str]]]:
        """Yield the line number, label and features of each labeled line (`--cb`)."""
        for number, line in numbered_lines(file):
            if not line.strip():
                self.counts["blank"] += 1
                continue
            head, _, rest = line.partition("|")
            try:
                label = self._label(head)
                if label is None:
                    self.counts["no label"] += 1
                    continue
                self._check_action(label)
            except BrokenLineError as broken:
                self.faults.add(str(broken), file, [number])
                continue
            yield number, label, (rest,), ()

    def _check_action(self, label: _Label) -> None:
        """Raise for an action that is not of the list."""
        if label.action == 0:
            raise BrokenLineError(
                "has action 0, and actions are counted from 1 where each line is a decision "
                f"(a file with one line an action: {argument('kind', 'cb_adf')})"
            )
        largest = max((label.action, *label.listed))
        if self.labels is None:
            if largest > _MOST_ACTIONS:
                raise BrokenLineError(
                    f"has action {str(largest)[:20]}, expected at most {_MOST_ACTIONS} (ids or "
                    "hashes are not positions in a list; number the actions from 1),"
                )
            self.count = max(self.count, largest)
        elif largest > self.count:
            raise BrokenLineError(f"has an action above {self.count}, the number of labels")
        if label.listed:
            self.listed = self.listed or label.listed
            self.others = self.others or label.listed != self.listed
        else:
            self.unlisted += 1

    def _of_blocks(self, file: str) -> Iterator[tuple[int, _Label, Sequence[str], Sequence[str]]]:
        """Yield the line number, label and shared features of each decision (`--cb_adf`)."""
        block: list[str] = []
        start = 1
        for number, line in numbered_lines(file, last=""):
            if line.strip():
                if not block:
                    start = number
                block.append(line)
                continue
            if not block:
                continue
            try:
                found = self._of_block(block)
            except BrokenLineError as broken:
                self.faults.add(str(broken), file, [start])
            else:
                if found is None:
                    self.counts["no label"] += 1
                else:
                    yield start, *found
            block = []

    def _of_block(self, block: list[str]) -> tuple[_Label, Sequence[str], Sequence[str]] | None:
        """Return label, shared features and action lines of a decision; None without a label."""
        shared: Sequence[str] = ()
        taken: list[_Label] = []
        actions: list[str] = []
        lines: list[str] = []
        for line in block:
            head, _, rest = line.partition("|")
            words = head.split()
            if words and words[0] == "shared":
                if actions or shared:
                    raise BrokenLineError("has a shared line that is not its first")
                shared = (rest,)
                continue
            actions.append(" ".join(rest.split()))
            lines.append(rest)
            label = self._label(head)
            if label is not None:
                # The number before the cost is not used: the place of the line is the action.
                taken.append(_Label(len(actions), label.cost, label.probability))
        if len(taken) > 1:
            raise BrokenLineError(
                "has several action lines with a cost, expected one, the action taken"
            )
        if not taken:
            return None
        names: Sequence[str] = ()
        if self.name_of_line is not None:
            names = self.name_of_line.of(lines)
        self._compare(tuple(actions))
        listed = tuple(range(1, len(actions) + 1))
        label = replace(taken[0], listed=listed, names=names)
        return label, shared, lines if self.items.columns else ()

    def _compare(self, actions: tuple[str, ...]) -> None:
        """Note whether the action lines are those of the first decision.

        Raises:
            BrokenLineError: for another number of lines where actions have names.
        """
        if self.first is None:
            if self.labels is not None and len(actions) != self.count:
                raise UsageError(
                    f"got {self.count} {argument('actions')}, but the first event of "
                    f"{self.name!r} has {len(actions)} action lines"
                )
            self.first = actions
        self.count = max(self.count, len(actions))
        if self.labels is None:
            self.others = self.others or actions != self.first
        elif len(actions) != len(self.first):
            raise BrokenLineError(
                f"has another number of actions than there are names ({len(self.labels)}), leave "
                f"out {argument('actions')} if line k is not always action k,"
            )

    def _label(self, head: str) -> _Label | None:
        """Return the label before the features of a line; None if there is none."""
        if head not in self.known:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[head] = _parsed_label(head)
        return self.known[head]

    def _record(self, found: list[_Label]) -> pa.RecordBatch:
        """Return decisions as columns."""
        action: list[Any] = [label.action for label in found]
        if self.labels is not None:
            action = [self.labels[number - 1] for number in action]
        listed = pa.array([label.listed or None for label in found], pa.list_(pa.int32()))
        if self.names is not None and self.name_of_line is not None:
            action = [label.names[label.action - 1] for label in found]
            listed = pa.array([label.names for label in found], pa.list_(pa.string()))
            self.names.add(listed, self.name_of_line.whole)
        arrays = [
            pa.array(action),
            pa.array([label.cost for label in found], pa.float64()),
            pa.array([label.probability for label in found], pa.float64()),
            listed,
        ]
        if self.items.columns:
            objects = pa.StructArray.from_arrays(self.items.taken(), list(self.items.columns))
            sizes = [len(label.listed) for label in found]
            ends = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
            arrays.append(pa.ListArray.from_arrays(ends, objects))
        arrays += self.context.taken()
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _numbers(
    kind: VwKind, labels: Sequence[Any] | None, files: tuple[str, ...]
) -> Iterator[tuple[str, int]]:
    """Yield the file and the first line of each labeled decision."""
    nothing = FeatureColumns((), lambda _column, _features: ((), ()), 0)
    rows = _Rows(files, kind, labels, nothing, nothing, None, None)
    for file in files:
        for number, *_ in rows.decisions(file):
            yield file, number


def numbered_lines(path: str, last: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, and one more, if `last` is given.

    Args:
        path: of the file.
        last: the text of one more line at the end.

    >>> with open("one.vw", "w") as file:
    ...     print("1:0:0.5 | a", file=file)
    >>> list(numbered_lines("one.vw", last=""))
    [(1, '1:0:0.5 | a'), (2, '')]
    """
    number = 0
    for start, lines in lines_of(path):
        for number, line in enumerate(lines, start):
            yield number, line.rstrip("\r")
    if last is not None:
        yield number + 1, last


def words_of(head: str) -> list[str]:
    """Return the words of a label, from what comes before the first `|`, without a tag.

    Raises:
        BrokenLineError: for a label that would be taken for a tag.

    >>> words_of("1:0:0.5 'id"), words_of("shared ")
    (['1:0:0.5'], ['shared'])
    """
    words = head.split()
    # The last word is a tag, and no label, if it starts with ' or no blank follows it.
    if words and (words[-1].startswith("'") or not head[-1].isspace()):
        tag = words.pop()
        if ":" in tag and _LABEL.fullmatch(tag):
            raise BrokenLineError(
                f"has {tag!r} right before the |, which Vowpal Wabbit takes for a tag, put a blank "
                "between them,"
            )
    return words


def _parsed_label(head: str) -> _Label | None:
    """Return the label in what comes before the first `|`; None if there is none.

    Raises:
        BrokenLineError: for what is not action:cost:probability.
    """
    words = words_of(head)
    if words and words[0] in _OTHER_KINDS:
        raise BrokenLineError(_OTHER_KINDS[words[0]])
    taken: list[_Label] = []
    listed: list[int] = []
    for word in words:
        action, cost, probability = _parsed_word(word)
        listed.append(action)
        if probability is not None:
            taken.append(_Label(action, cost, probability))
    if len(taken) > 1:
        raise BrokenLineError("has several actions with a probability, expected one, that taken")
    if not taken:
        if any(":" in word for word in words):
            raise BrokenLineError("has a cost without the probability of its action")
        return None
    if len(listed) > 1:
        only = taken[0]
        return _Label(only.action, only.cost, only.probability, tuple(sorted(set(listed))))
    return taken[0]


def _parsed_word(word: str) -> tuple[int, float, float | None]:
    """Return action, cost and probability of one word of a label; None if it has none."""
    parts = word.split(":")
    if not _LABEL.fullmatch(word):
        raise BrokenLineError(f"has {word[:40]!r} as label, expected action:cost:probability,")
    try:
        cost, probability = 0.0, None
        if len(parts) > 1:
            cost = number_of(parts[1])
        if len(parts) > 2:
            probability = number_of(parts[2])
        return int(parts[0]), cost, probability
    except ValueError:
        raise BrokenLineError(
            f"has {word[:40]!r} as label, expected numbers as action:cost:probability,"
        ) from None
