"""Write slate logs for Vowpal Wabbit, as dsjson of ccb or slates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
from piwo.slates.validation import SlateReader, lists_by_slot
from piwo.sources.clusters import Cluster
from piwo.sources.source import decoded, type_family

__all__ = ["write_dsjson"]


def write_dsjson(log: SlateLog, path: str | Path) -> Written:
    """Write a slate log as dsjson for Vowpal Wabbit, completely or not at all.

    A log with rewards of slots becomes ccb: each slot has a cost, and the probability of its action
    given those above it; if the log has eligible actions, each decision lists its own. A log with
    one reward a slate, whose logger draws slots independently, becomes slates, in which every
    action belongs to one slot. Costs are minus the rewards. The actions are in `c._multi`, a
    context column "U/x" is the field x of U, and sampling weights s become `pdrop` = 1 - 1/s.

    Args:
        log: of `slates.read`.
        path: the file, replaced in one step; packed if it ends in .gz.

    Returns:
        A `Written`: how many rows, and what the format cannot hold. `slates.read_dsjson` reads the
        same rows back, with `context=` the same columns and `actions=` the same labels; of a log
        with eligible actions, with `items_label="_tag"`, as text.

    Raises:
        UsageError: for a log that is neither of the two, with sampling weights below 1, in a
            cluster, with eligible actions and one reward a slate, or with context columns that
            dsjson cannot name.
        DataError: for rows that break a rule, or show an action twice.
        FileError: if the file cannot be written.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["b", "a"]], "rs": [[1, 0]], "ps": [[0.5, 0.25]]},
    ...     rewards="rs",
    ...     propensities="ps",
    ... )
    >>> print(write_dsjson(log, "ccb.dsjson"))
    wrote 1 rows to ccb.dsjson
    >>> piwo.slates.read_dsjson("ccb.dsjson", actions=["a", "b"]).source.table.to_pylist()
    [{'slate': ['b', 'a'], 'rewards': [1.0, 0.0], 'propensities': [0.5, 0.25]}]
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
    owners = None if log.by_slot else _owners(log, reader)
    numbers = np.arange(len(log.actions))
    if owners is not None:
        numbers = _within_slots(owners)
    entries = [json.dumps(one, ensure_ascii=False) for one in _listed(log, owners)]
    written = 0
    with written_lines(path) as out:
        for rows in _rows(log, reader):
            out.write("".join(_events(log, rows, numbers, entries)).encode())
            written += len(rows)
    return Written(path, written, tuple(_left_out(log)))


def _require_writable(log: SlateLog) -> None:
    """Raise for a log that is neither ccb nor slates."""
    if isinstance(log.source, Cluster):
        raise UsageError(
            f"writing dsjson takes the rows of {log.name} on one machine, and they are in a "
            "cluster; write them to Parquet and read that"
        )
    if log.columns.eligible is not None and not log.by_slot:
        raise UsageError(
            f"{log.name} has eligible actions that change from row to row "
            f"({argument('eligible')}) and one reward a slate, and dsjson of slates is written "
            "with one list; write the columns to Parquet"
        )
    name = log.columns.eligible
    if name is not None and lists_by_slot(log.source.schema.field(name).type):
        raise UsageError(
            f"{log.name} has eligible actions of each slot ({argument('eligible')}), and dsjson is "
            "written with those of the decision; write the columns to Parquet"
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


def _rows(log: SlateLog, reader: SlateReader) -> Iterator[SlateRows]:
    """Yield the validated rows, and report progress."""
    progress = current_progress()
    if progress is not None:
        progress(0, log.source.rows)
    for fragment in log.source.fragments(reader.names):
        for rows in reader.read(fragment):
            yield rows
            if progress is not None:
                progress(len(rows), log.source.rows)


def _owners(log: SlateLog, reader: SlateReader) -> npt.NDArray[np.int64]:
    """Return the slot of each action, (K,); the first for one that was never shown.

    Raises:
        UsageError: for an action that was shown in two slots.
    """
    shown = np.zeros((len(log.actions), log.slots), np.bool_)
    for rows in _rows(log, reader):
        row, slot = np.nonzero(rows.mask)
        shown[rows.action[row, slot], slot] = True
    twice = np.flatnonzero(shown.sum(axis=1) > 1)
    if len(twice):
        label = log.actions.labels[int(twice[0])]
        raise UsageError(
            f"{log.name} shows {label!r} in several slots, and in dsjson of slates every action "
            "belongs to one slot; give items other labels in each slot"
        )
    first: npt.NDArray[np.int64] = shown.argmax(axis=1)
    return first


def _within_slots(owners: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of each action among those of its slot, (K,)."""
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], owners[order])
    numbers = np.empty(len(owners), np.int64)
    numbers[order] = np.arange(len(owners)) - starts
    return numbers


def _listed(log: SlateLog, owners: npt.NDArray[np.int64] | None) -> list[dict[str, Any]]:
    """Return `c._multi`."""
    found: list[dict[str, Any]] = []
    for code, label in enumerate(log.actions.labels):
        one: dict[str, Any] = {"_tag": str(label), "a": {"action": str(label)}}
        if owners is not None:
            one["_slot_id"] = int(owners[code])
        found.append(one)
    return found


def _events(
    log: SlateLog, rows: SlateRows, numbers: npt.NDArray[np.int64], entries: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of some rows.

    Args:
        log: the log.
        rows: validated.
        numbers: (K,) of the actions, as `_a` counts them if they do not change.
        entries: (K,) of `c._multi`, as JSON.
    """
    multi, shown = f"[{', '.join(entries)}]", numbers[rows.action]
    if rows.eligible is not None:
        places = [rows.eligible.places(rows.action[:, slot]) for slot in range(rows.slots)]
        shown = np.stack(places, axis=1) - rows.eligible.starts[:-1, None]
    aligned = log.logger.aligned(log.actions)
    chances = aligned.above(rows).tolist()
    scale = log.largest if log.bounded else 1.0
    costs = (0.0 - rows.reward * scale + 0.0).tolist()
    dropped = dropped_of(rows.weight, len(rows), log.name)
    contexts = _contexts(log, rows)
    for i, size in enumerate(rows.lengths.tolist()):
        codes = rows.action[i, :size]
        if len(np.unique(codes)) < size:
            raise DataError(
                f"row {int(rows.rows[i])} shows an action twice, which dsjson of Vowpal Wabbit "
                "cannot say; leave such rows out"
            )
        outcomes: list[dict[str, Any]] = []
        for slot, number in enumerate(shown[i, :size].tolist()):
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
        slots = json.dumps([{} for _ in outcomes])
        features = json.dumps(contexts[i], ensure_ascii=False, allow_nan=False).removesuffix("}")
        if contexts[i]:
            features += ", "
        if rows.eligible is not None:
            could = rows.eligible.take(slice(i, i + 1)).codes
            multi = f"[{', '.join([entries[code] for code in could])}]"
        # Vowpal Wabbit has to know the slots before their outcomes.
        inside = f'{features}"_multi": {multi}, "_slots": {slots}}}'
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


def _left_out(log: SlateLog) -> list[str]:
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
    return found
