"""Write logs for Vowpal Wabbit: its text format, and dsjson."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from piwo.errors import DataError, UsageError
from piwo.formats.candidates import Candidates
from piwo.formats.rows import (
    Written,
    require_fixed_actions,
    require_path,
    require_writable,
    rewards_of,
    rows_of,
    written_lines,
)
from piwo.logs.batch import Batch, Floats
from piwo.logs.features import is_list, is_number, missing_rows, texts
from piwo.logs.items import has_items
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.sources.source import decoded
from piwo.sources.vw import VwKind

__all__ = ["dropped_of", "nested", "require_paths", "write_dsjson", "write_vw"]

_SPECIAL = re.compile(r"[%\s:|]")
"""Characters that names and texts cannot hold in Vowpal Wabbit's text format."""


def write_vw(log: Log, path: str | Path, *, kind: VwKind = "cb") -> Written:
    """Write a log as text for Vowpal Wabbit, completely or not at all.

    A decision is `action:cost:probability | features` (kind "cb"), with actions counted from 1 in
    the order of the action list, or a line `shared`, a line an action and a blank one ("cb_adf").
    An action line is `|a action=label` and the features of the action, if the log has `items`. If
    the log has eligible actions, each decision has the lines of its own; only "cb_adf" can say so.
    The cost is minus the reward, net of action costs if the log has some.

    A context column `space/name` is the feature `name` of the namespace `space`, any other one a
    feature of the namespace without a name: numbers as `name:3.5`, text as `name=text`, lists as
    `name[0]:1 name[1]:2`. Blanks, `:`, `|` and `%` are written as %20 and such, which
    `piwo.logs.read_vw` understands.

    Args:
        log: the log.
        path: the file, replaced in one step; packed if it ends in .gz.
        kind: "cb": one line a decision; "cb_adf": one line an action.

    Returns:
        A `Written`: how many rows, and what the format cannot hold. `piwo.logs.read_vw` reads the
        same rows back: of "cb_adf" with `items_label="a/action"`, or with `actions=` the same
        labels if there are no eligible ones, and `items=` the names of features.

    Raises:
        UsageError: for a log with sampling weights (`write_dsjson` has a field for them), with
            eligible actions and kind "cb", in a cluster, or with estimated propensities.
        DataError: for rows that break a rule, and for propensities of 0 (underflow).
        FileError: if the file cannot be written.

    >>> log = Log.from_arrays(
    ...     action=["tea", "cake"], reward=[1, 0], propensity=[0.5, 0.25], context=[[3.0], [4.5]]
    ... )
    >>> print(write_vw(log, "log.vw"))
    wrote 2 rows to log.vw; left out: the labels of actions
    >>> print(Path("log.vw").read_text().rstrip())
    2:-1:0.5 | x0:3
    1:0:0.25 | x0:4.5
    """
    if kind not in get_args(VwKind):
        raise UsageError(f"{argument('kind')} is {kind!r}, expected 'cb' or 'cb_adf'")
    path = require_path(path)
    require_writable(log, "a file for Vowpal Wabbit")
    if kind == "cb":
        require_fixed_actions(log, "a file for --cb", argument("kind", "cb_adf"))
    if log.columns.weight is not None:
        raise UsageError(
            f"{log.name} has sampling weights ({argument('weight')}), and Vowpal Wabbit's text "
            "format has no field for them; write dsjson"
        )
    offers = None
    if kind == "cb_adf":
        offers = Candidates(log, _action_lines, ["a/action"])
    wanted = [*log.columns.context, *(offers.columns if offers is not None else ())]
    rows = 0
    with written_lines(path) as out:
        for record, batch in rows_of(log, wanted, context=True):
            _require_positive(batch, path)
            labels = _labels(log, record, batch)
            features = _feature_texts(log, record)
            if offers is None:
                pairs = zip(batch.action.tolist(), labels, features, strict=True)
                lines = [f"{code + 1}:{label} {words}\n" for code, label, words in pairs]
            else:
                lines = _blocks(offers.of(record, batch), labels, features)
            out.write("".join(lines).encode())
            rows += len(batch)
    left_out = _left_out(log, [*_vectors_of(log), ("key", log.columns.key)])
    if kind == "cb_adf":
        return Written(path, rows, tuple(left_out), _label_in(log, "a/action"))
    if _label_in(log, "") is not None:
        left_out.insert(0, "the labels of actions")
    if has_items(log):
        left_out.append("the features of actions")
    return Written(path, rows, tuple(left_out))


def _label_in(log: Log, items_label: str) -> str | None:
    """Return what names an action in a file; None if that has its number."""
    numbered = list(log.actions.labels) == list(range(1, len(log.actions) + 1))
    return None if numbered and log.columns.eligible is None else items_label


def _action_lines(labels: Sequence[str], features: Mapping[str, pa.Array]) -> list[str]:
    """Return action lines without costs."""
    columns: dict[str, Sequence[str]] = {}
    columns["a/action"] = [f"action={_escaped(x, '=')}" for x in labels]
    for column, values in features.items():
        columns[column] = _words(_kind_of(values), column.partition("/")[2] or column, values)
    return _sections(columns)


def _kind_of(values: pa.Array) -> str:
    """Return the kind of a feature of actions; texts are levels."""
    if is_list(values.type):
        return "vector"
    return "number" if is_number(values.type) else "levels"


def _blocks(
    offers: Iterable[tuple[Sequence[str], int]], labels: Sequence[str], features: Sequence[str]
) -> list[str]:
    """Return each decision as lines: shared, one an action, and a blank one."""
    blocks = []
    for (actions, place), label, words in zip(offers, labels, features, strict=True):
        lines = list(actions)
        lines[place] = f"0:{label} {actions[place]}"
        blocks.append(f"shared {words}\n{chr(10).join(lines)}\n\n")
    return blocks


def _labels(log: Log, record: pa.RecordBatch, batch: Batch) -> list[str]:
    """Return cost and probability of each row as text."""
    # 0 - x, as -0.0 would be written as such
    costs = 0.0 - rewards_of(log, record, batch)
    pairs = zip(costs.tolist(), batch.propensity.tolist(), strict=True)
    return [f"{_shown(cost)}:{_shown(probability)}" for cost, probability in pairs]


def _require_positive(batch: Batch, path: str) -> None:
    """Raise for a propensity that underflows: both formats have probabilities, no logarithms."""
    if len(batch) and batch.propensity.min() <= 0.0:
        row = int(batch.row_numbers[np.argmin(batch.propensity)])
        raise DataError(
            f"row {row} has a propensity that is 0 in float64, and {path!r} would hold "
            "no logarithms; leave such rows out"
        )


def _shown(number: float) -> str:
    return repr(number).removesuffix(".0")


def _escaped(text: str, more: str = "") -> str:
    """Return text without the characters that have a meaning, as %20 and such."""

    def percent(found: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in found[0].encode())

    text = _SPECIAL.sub(percent, text)
    for character in more:
        text = text.replace(character, percent_of(character))
    return text


def percent_of(character: str) -> str:
    """Return an ASCII character as % and its number.

    >>> percent_of("=")
    '%3D'
    """
    return f"%{ord(character):02X}"


def _feature_texts(log: Log, record: pa.RecordBatch) -> list[str]:
    """Return the context of each row, from the first `|` on."""
    if log.features is None:
        return ["|"] * record.num_rows
    columns = {}
    for item in log.features.items:
        name = item.column.partition("/")[2] or item.column
        columns[item.column] = _words(item.kind, name, record[item.column])
    return _sections(columns)


def _sections(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the features of each row, from the first `|` on.

    Args:
        columns: "space/name" -> a word a row.
    """
    spaces: dict[str, list[Sequence[str]]] = {}
    for column, words in columns.items():
        space, slash, _ = column.partition("/")
        spaces.setdefault(space if slash else "", []).append(words)
    parts: list[list[str]] = []
    for space, listed in spaces.items():
        rows = []
        for row in zip(*listed, strict=True):
            rows.append(" ".join([f"|{_escaped(space)}", *filter(None, row)]))
        parts.append(rows)
    return [" ".join(texts) for texts in zip(*parts, strict=True)]


def _words(kind: str, name: str, values: pa.Array) -> list[str]:
    """Return the feature of each row; none for a missing text.

    Args:
        kind: of the feature, as in `piwo.logs.Feature`.
        name: without its namespace.
        values: of the column.
    """
    plain = _escaped(name, "=")
    if kind in ("levels", "hashed"):
        found = []
        for text in texts(values).to_pylist():
            found.append("" if text is None else f"{plain}={_escaped(text)}")
        return found
    if kind == "vector":
        return [_entries(plain, row) for row in decoded(values).to_pylist()]
    nulls, nans = missing_rows(values)
    numbers = decoded(values).cast(pa.float64(), safe=False).to_pylist()
    found = []
    for number, missing in zip(numbers, (nulls | nans).tolist(), strict=True):
        # A feature that is not there is 0; piwo's own column says that it is missing.
        found.append(f"{plain}%20is%20missing" if missing else f"{plain}:{_shown(number)}")
    return found


def _entries(name: str, row: Sequence[float | None] | None) -> str:
    numbers: list[float] = []
    for number in row or ():
        if number is not None and number == number:
            numbers.append(float(number))
    if row is None or len(numbers) < len(row):
        return f"{name}%20is%20missing"
    return " ".join(f"{name}[{i}]:{_shown(x)}" for i, x in enumerate(numbers))


def _vectors_of(log: Log) -> list[tuple[str, str | None]]:
    return [("probabilities of all actions", log.columns.propensities)]


def _left_out(log: Log, more: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return what of the roles of a log its file does not hold, in words."""
    columns = log.columns
    found = [*more, ("predicted rewards", columns.predictions), ("unit", columns.unit)]
    found += [("time", columns.time), ("position", columns.position)]
    found += [("outcome", x) for x in columns.outcomes]
    found += [("target policy", x) for x in columns.policies]
    return [f"the {role} {name!r}" for role, name in found if name is not None]


def write_dsjson(log: Log, path: str | Path) -> Written:
    """Write a log with the probability of every action as dsjson, completely or not at all.

    A line is an event: the ranking `a` (the action taken first), the probabilities `p` in its
    order, the cost (minus the reward, net of action costs), the actions in `c._multi`, and `c` with
    the context; a column "U/x" is the field x of U. The entry of an action is its label (`_tag`)
    and the features of the action, if the log has `items`; of eligible actions each event has its
    own. Sampling weights s become `pdrop` = 1 - 1/s,
    the column of keys `EventId`.

    Args:
        log: the log.
        path: the file, replaced in one step; packed if it ends in .gz.

    Returns:
        A `Written`: how many rows, and what the format cannot hold. `piwo.logs.read_dsjson` reads
        the same rows back, with `context=` the same columns, `items_label="_tag"`, or `actions=`
        the same labels if there are no eligible ones, and `items=` the names of features.

    Raises:
        UsageError: for a log without the probabilities of all actions (`propensities=` or
            `behavior=`), with sampling weights below 1, or with context columns that dsjson cannot
            name.
        DataError: for rows that break a rule.
        FileError: if the file cannot be written.

    >>> log = Log.from_arrays(
    ...     action=["a"], reward=[1], propensities=[[0.75, 0.25]], actions=["a", "b"]
    ... )
    >>> print(write_dsjson(log, "log.dsjson"))
    wrote 1 rows to log.dsjson; items_label='_tag' reads the labels of actions
    >>> import piwo
    >>> again = piwo.read("log.dsjson", items_label="_tag")
    >>> again.actions.labels, next(again.each_batch(propensities=True)).propensities.tolist()
    (('a', 'b'), [[0.75, 0.25]])
    """
    path = require_path(path)
    require_writable(log, "dsjson")
    if not log.gives_every_propensity:
        raise UsageError(
            f"{log.name} has the propensity of the action taken alone, and dsjson states that of "
            f"every action; name their column ({argument('propensities')}), or write .vw"
        )
    names = log.features.columns if log.features is not None else ()
    require_paths(names)
    offers = Candidates(log, _entry_texts, ["_tag", "a/action"])
    for item in log.features.items if log.features is not None else ():
        if item.kind == "vector":
            raise UsageError(
                f"context column {item.column!r} holds lists, and a field of a dsjson event is "
                "read as one number or text; leave it out, or write .parquet or .jsonl"
            )
    key = log.columns.key
    keys = []
    if key is not None:
        keys.append(key)
    rows = 0
    with written_lines(path) as out:
        for record, batch in rows_of(log, [*names, *keys, *offers.columns], context=True):
            _require_positive(batch, path)
            out.write("".join(_events(log, record, batch, offers)).encode())
            rows += len(batch)
    return Written(path, rows, tuple(_left_out(log, [])), _label_in(log, "_tag"))


def _entry_texts(labels: Sequence[str], features: Mapping[str, pa.Array]) -> list[str]:
    """Return entries of `c._multi` as JSON."""
    columns: dict[str, Sequence[Any]] = {"_tag": labels, "a/action": labels}
    for name, values in features.items():
        if is_list(values.type):
            raise UsageError(
                f"{argument('items')}: column {name!r} holds lists, and a field of a dsjson entry "
                "is read as one number or text; leave it out, or write .parquet or .jsonl"
            )
        columns[name] = (
            values.cast(pa.float64(), safe=False) if is_number(values.type) else texts(values)
        ).to_pylist()
    require_paths(list(columns), f"column of {argument('items')}", ("_slot_id",))
    return list(map(_json, nested(columns, len(labels))))


def require_paths(
    names: Sequence[str],
    what: str = "context column",
    taken: Sequence[str] = ("_multi", "_slots"),
) -> None:
    """Raise for columns that are no paths in an event.

    Args:
        names: of the columns.
        what: these are, in words.
        taken: fields that mean something else.

    >>> require_paths(["U/x", "y"])
    """
    paths = [tuple(x.split("/")) for x in names]
    for name, path in zip(names, paths, strict=True):
        inside = any(other != path and other[: len(path)] == path for other in paths)
        if inside or "" in path or path[0] in taken:
            raise UsageError(
                f"{what} {name!r} cannot be a field of a dsjson event; leave it out, or "
                "give it another name"
            )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _events(log: Log, record: pa.RecordBatch, batch: Batch, offers: Candidates) -> Iterator[str]:
    """Yield the lines of some rows.

    Args:
        log: the log.
        record: the raw rows.
        batch: the same rows, validated.
        offers: the entries of `c._multi`.
    """
    contexts = _contexts(log, record)
    dropped = dropped_of(batch.weight, len(batch), log.name)
    keys = None
    if log.columns.key is not None:
        keys = texts(record[log.columns.key]).to_pylist()
    costs = (0.0 - rewards_of(log, record, batch)).tolist()
    actions = None
    if offers.fixed is not None:
        # The same in every line.
        actions = f"[{', '.join(offers.fixed)}]"
    rows = zip(offers.of(record, batch), _vectors(batch), strict=True)
    for i, ((entries, place), vector) in enumerate(rows):
        ranking = [place, *(x for x in range(len(entries)) if x != place)]
        event: dict[str, Any] = {
            "_label_cost": costs[i],
            "_label_probability": vector[place],
            "_label_Action": place + 1,
            "_labelIndex": place,
            "Version": "1",
        }
        if keys is not None:
            event["EventId"] = keys[i]
        event["a"] = [x + 1 for x in ranking]
        event["p"] = [vector[x] for x in ranking]
        if dropped[i]:
            event["pdrop"] = dropped[i]
        features = _json(contexts[i]).removesuffix("}")
        if contexts[i]:
            features += ", "
        multi = actions or f"[{', '.join(entries)}]"
        yield f'{_json(event).removesuffix("}")}, "c": {features}"_multi": {multi}}}}}\n'


def _vectors(batch: Batch) -> Iterator[list[float]]:
    """Yield the probabilities of the actions that could be taken in each row."""
    if batch.eligible is None:
        assert batch.propensities is not None
        yield from batch.propensities.tolist()
        return
    assert batch.eligible.propensities is not None
    numbers, starts = batch.eligible.propensities.tolist(), batch.eligible.starts.tolist()
    for start, end in pairwise(starts):
        yield numbers[start:end]


def _contexts(log: Log, record: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the context of each row as nested objects."""
    columns: dict[str, Sequence[Any]] = {}
    for item in log.features.items if log.features is not None else ():
        values = decoded(record[item.column])
        if item.kind in ("levels", "hashed"):
            values = texts(values)
        elif item.kind == "number":
            # A boolean would be read as text, and JSON has no decimals.
            values = values.cast(pa.float64(), safe=False)
        columns[item.column] = values.to_pylist()
    return nested(columns, record.num_rows)


def nested(columns: Mapping[str, Sequence[Any]], rows: int) -> list[dict[str, Any]]:
    """Return the context of each row as nested objects; a missing value is not there.

    Args:
        columns: "space/name" -> one value a row.
        rows: how many there are.

    >>> nested({"U/x": [1.0, None], "y": ["a", "b"]}, 2)
    [{'U': {'x': 1.0}, 'y': 'a'}, {'y': 'b'}]
    """
    contexts: list[dict[str, Any]] = [{} for _ in range(rows)]
    for column, values in columns.items():
        *places, name = column.split("/")
        for row, value in zip(contexts, values, strict=True):
            if value is None or value != value:
                continue
            at = row
            for place in places:
                at = at.setdefault(place, {})
            at[name] = value
    return contexts


def dropped_of(weight: Floats | None, rows: int, name: str) -> list[float]:
    """Return `pdrop` = 1 - 1/s of rows with sampling weights s.

    Args:
        weight: (n,) s; None: 1 each.
        rows: n.
        name: of the log.

    Raises:
        UsageError: for weights below 1.

    >>> dropped_of(np.array([4.0]), 1, "log")
    [0.75]
    """
    if weight is None:
        return [0.0] * rows
    if len(weight) and weight.min() < 1.0:
        raise UsageError(
            f"{name} has sampling weights below 1, expected one over the rate at which "
            "rows were kept, which dsjson states as pdrop"
        )
    dropped: list[float] = (1.0 - 1.0 / weight).tolist()
    return dropped
