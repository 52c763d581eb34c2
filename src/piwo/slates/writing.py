"""Write slate logs for Vowpal Wabbit, as dsjson of ccb or slates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.checks import check_kind
from piwo.engines.settings import current_progress
from piwo.errors import DataError, UsageError
from piwo.formats.rows import Written, require_path, written_lines
from piwo.formats.vowpal_wabbit import dropped_of, nested, require_paths
from piwo.logs.features import is_list, texts
from piwo.messages import argument
from piwo.slates.log import SlateLog
from piwo.slates.policies import FromColumns
from piwo.slates.rows import SlateRows
from piwo.slates.validation import SlateReader
from piwo.sources.clusters import Cluster
from piwo.sources.source import decoded, type_family

__all__ = ["rows_of", "write_dsjson"]


def write_dsjson(log: SlateLog, path: str | Path) -> Written:
    """Write a slate log as dsjson for Vowpal Wabbit, completely or not at all.

    A log with rewards of slots becomes **ccb**: each slot has a cost, and the probability of its
    action given those above it. If the log has eligible actions, each decision lists its own, and
    `_inc` those of a slot that cannot show all of them. A log with one reward a slate, whose logger
    draws slots independently, becomes **slates**, in which every entry belongs to one slot
    (`_slot_id`). If each action was shown in one slot alone, and all slates are as long, it has one
    entry; else every slot lists all that it can show.

    Costs are minus the rewards. The actions are in `c._multi`, their labels in `_tag`; a context
    column "U/x" is the field x of U, and sampling weights s become `pdrop` = 1 - 1/s.

    Args:
        log: of `slates.read`.
        path: the file, replaced in one step; packed if it ends in .gz.

    Returns:
        A `Written`: how many rows, and what the format cannot hold. `slates.read_dsjson` reads the
        same rows back, with `context=` the same columns and `actions=` the same labels; if
        decisions or slots list their own actions, with `items_label="_tag"`, as text.

    Raises:
        UsageError: for a log that is neither of the two, with sampling weights below 1, in a
            cluster, or with context columns that dsjson cannot name.
        DataError: for rows that break a rule, or, in ccb, show an action twice.
        FileError: if the file cannot be written.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["b", "a"]], "could": [[["a", "b"], ["a"]]], "r": [1], "ps": [[0.5, 1.0]]},
    ...     reward="r",
    ...     propensities="ps",
    ...     eligible="could",
    ...     independent=True,
    ... )
    >>> write_dsjson(log, "slates.dsjson").rows
    1
    >>> again = piwo.slates.read_dsjson("slates.dsjson", items_label="_tag")
    >>> again.source.table.select(["slate", "eligible", "reward"]).to_pylist()
    [{'slate': ['b', 'a'], 'eligible': [['a', 'b'], ['a']], 'reward': 1.0}]
    """
    path = require_path(path)
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    _require_writable(log)
    names = log.columns.context
    require_paths(names)
    schema = log.source.schema
    for name in names:
        if is_list(schema.field(name).type):
            raise UsageError(
                f"context column {name!r} holds lists, and a field of a dsjson event is "
                "read as one number or text; leave it out"
            )
    reader = replace(log.reader(context=True), by_unit=False)
    owners = None
    if not log.by_slot and log.columns.eligible is None:
        owners = _owners(log, reader)
    offers = _Offers(log, owners)
    written = 0
    with written_lines(path) as out:
        for rows in rows_of(log, reader):
            out.write("".join(_events(log, rows, offers)).encode())
            written += len(rows)
    numbered = list(log.actions.labels) == list(range(len(log.actions)))
    named = not numbered or log.columns.eligible is not None or offers.unnumbered
    return Written(path, written, tuple(_left_out(log, offers)), "_tag" if named else None)


def _require_writable(log: SlateLog) -> None:
    """Raise for a log that is neither ccb nor slates."""
    if isinstance(log.source, Cluster):
        raise UsageError(
            f"writing dsjson takes the rows of {log.name} on one machine, and they are in a "
            "cluster; write them to Parquet and read that"
        )
    if not log.logger.states("above"):
        raise UsageError(
            f"{log.name} has no probability of each shown action given those above it, which "
            f"dsjson states; name its column ({argument('propensities')})"
        )
    if not log.by_slot and not log.logger.independent:
        raise UsageError(
            f"{log.name} has one reward a slate and slots that are not independent: dsjson has "
            f"rewards of slots (ccb), or slots drawn independently (slates); name the column of "
            f"{argument('rewards')}, or declare {argument('independent', value=True)}"
        )


def rows_of(log: SlateLog, reader: SlateReader) -> Iterator[SlateRows]:
    """Yield the validated rows, and report progress."""
    progress = current_progress()
    if progress is not None:
        progress(0, log.source.rows)
    for fragment in log.source.fragments(reader.names):
        for rows in reader.read(fragment):
            yield rows
            if progress is not None:
                progress(len(rows), log.source.rows)


def _owners(log: SlateLog, reader: SlateReader) -> npt.NDArray[np.int64] | None:
    """Return the slot of each action, (K,); the first for one that was never shown.

    None if slates differ in length, or an action was shown in two slots: each slot then lists all.
    """
    shown = np.zeros((len(log.actions), log.slots), np.bool_)
    lengths: set[int] = set()
    for rows in rows_of(log, reader):
        row, slot = np.nonzero(rows.mask)
        shown[rows.action[row, slot], slot] = True
        lengths.update(np.unique(rows.lengths).tolist())
    if len(lengths) > 1 or (shown.sum(axis=1) > 1).any():
        return None
    first: npt.NDArray[np.int64] = shown.argmax(axis=1)
    return first


class _Offers:
    """What each decision could show, as `c._multi`, and `c._slots` say it.

    Args:
        log: whose decisions.
        owners: (K,) the only slot of each action, of slates; None: other ones.
    """

    def __init__(self, log: SlateLog, owners: npt.NDArray[np.int64] | None) -> None:
        self._by_slot = log.by_slot
        self._all = list(range(len(log.actions)))
        self._tags = [json.dumps(str(x), ensure_ascii=False) for x in log.actions.labels]
        self._owned: list[list[int]] | None = None
        if owners is not None:
            slots = range(int(owners.max(initial=0)) + 1)
            self._owned = [np.flatnonzero(owners == slot).tolist() for slot in slots]
        self._owners = owners
        self.listed = False
        """Whether the list of a slot lacks an action of its decision (ccb)."""
        self.narrow = False
        """Whether one lacks an action that is not shown above the slot."""

    @property
    def unnumbered(self) -> bool:
        """Whether entries of slates have other numbers than the actions of the log."""
        return not self._by_slot and self._owners is None

    def of_row(self, rows: SlateRows, i: int) -> tuple[str, list[dict[str, Any]], list[int]]:
        """Return `c._multi` as JSON, the entries of `c._slots`, and the numbers of what is shown.

        Args:
            rows: validated.
            i: which of them.
        """
        shown = rows.action[i, : rows.lengths[i]].tolist()
        lists = self._lists(rows, i, len(shown))
        if not self._by_slot:
            numbers = [one.index(code) for one, code in zip(lists, shown, strict=True)]
            return self._of_slates(lists), [{} for _ in shown], numbers
        places: dict[int, int] = {}
        for one in lists:
            for code in one:
                places.setdefault(code, len(places))
        slots: list[dict[str, Any]] = []
        for slot, one in enumerate(lists):
            entry: dict[str, Any] = {}
            if len(one) < len(places):
                entry["_inc"] = sorted(places[code] for code in one)
                self.listed = True
                self.narrow |= len({*one, *shown[:slot]}) < len(places)
            slots.append(entry)
        return self._entries(places), slots, [places[code] for code in shown]

    def _lists(self, rows: SlateRows, i: int, size: int) -> list[list[int]]:
        """Return the codes that each slot of a row can show."""
        if self._owned is not None:
            return self._owned
        some = rows.eligible
        if some is None:
            return [self._all] * size
        if not rows.by_slot:
            return [some.codes[some.starts[i] : some.starts[i + 1]].tolist()] * size
        ends = some.starts[i * rows.slots :]
        return [some.codes[ends[slot] : ends[slot + 1]].tolist() for slot in range(size)]

    def _of_slates(self, lists: Sequence[Sequence[int]]) -> str:
        """Return the entries of slates, each of one slot."""
        if self._owners is not None:
            return self._entries(self._all, self._owners.tolist())
        codes: list[int] = []
        slots: list[int] = []
        for slot, one in enumerate(lists):
            codes += one
            slots += [slot] * len(one)
        return self._entries(codes, slots)

    def _entries(self, codes: Iterable[int], slots: Sequence[int] | None = None) -> str:
        """Return `c._multi`; of slates each entry has its slot."""
        found = []
        for place, code in enumerate(codes):
            tag = self._tags[code]
            slot = "" if slots is None else f', "_slot_id": {slots[place]}'
            found.append(f'{{"_tag": {tag}, "a": {{"action": {tag}}}{slot}}}')
        return f"[{', '.join(found)}]"


def _events(log: SlateLog, rows: SlateRows, offers: _Offers) -> Iterator[str]:
    """Yield the lines of some rows.

    Args:
        log: the log.
        rows: validated.
        offers: says what each could show.
    """
    aligned = log.logger.aligned(log.actions)
    chances = aligned.above(rows).tolist()
    scale = log.largest if log.bounded else 1.0
    costs = (0.0 - rows.reward * scale + 0.0).tolist()
    dropped = dropped_of(rows.weight, len(rows), log.name)
    contexts = _contexts(log, rows)
    for i, size in enumerate(rows.lengths.tolist()):
        if log.by_slot and len(np.unique(rows.action[i, :size])) < size:
            raise DataError(
                f"row {int(rows.rows[i])} shows an action twice, which ccb of Vowpal Wabbit "
                "cannot say; leave such rows out"
            )
        multi, slots, shown = offers.of_row(rows, i)
        outcomes: list[dict[str, Any]] = []
        for slot, number in enumerate(shown):
            outcome: dict[str, Any] = {"_a": [number], "_p": [chances[i][slot]]}
            if log.by_slot:
                outcome["_label_cost"] = costs[i][slot]
            outcomes.append(outcome)
        event: dict[str, Any] = {}
        if not log.by_slot:
            event["_label_cost"] = costs[i][0]
        event["_outcomes"] = outcomes
        if dropped[i]:
            event["pdrop"] = dropped[i]
        features = json.dumps(contexts[i], ensure_ascii=False, allow_nan=False).removesuffix("}")
        if contexts[i]:
            features += ", "
        # Vowpal Wabbit has to know the slots before their outcomes.
        inside = f'{features}"_multi": {multi}, "_slots": {json.dumps(slots)}}}'
        yield f'{{"Version": "1", "c": {inside}, {json.dumps(event).removeprefix("{")}\n'


def _contexts(log: SlateLog, rows: SlateRows) -> list[dict[str, Any]]:
    """Return the context of each row as nested objects."""
    columns = {}
    for name in log.columns.context:
        values = decoded((rows.context or {})[name])
        if type_family(values.type) == "text":
            values = texts(values)
        else:
            values = values.cast(pa.float64(), safe=False)
        columns[name] = values.to_pylist()
    return nested(columns, len(rows))


def _left_out(log: SlateLog, offers: _Offers) -> list[str]:
    """Return what the file does not hold, in words."""
    columns, found = log.columns, []
    named = {"unit": columns.unit, "user behavior": columns.user_behavior}
    if isinstance(log.logger, FromColumns):
        kept = log.logger.above_column
        for role in ("marginal_column", "slate_column"):
            name = getattr(log.logger, role)
            if name != kept:
                named[role.removesuffix("_column") + " propensity"] = name
    for role, name in named.items():
        if name is not None:
            found.append(f"the {role} {name!r}")
    if log.alpha is not None:
        found.append("the position weights")
    if offers.unnumbered:
        found.append("the order of the actions (each slot lists its own, with labels in _tag)")
    if offers.listed and not offers.narrow:
        # as Vowpal Wabbit has it of every slot, which is how such lists are read
        found.append("that slots cannot show what is shown above them, by their lists")
    return found
