"""The actions that could be taken in each row, if they change from row to row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.logs.actions import Actions
from piwo.logs.features import is_number
from piwo.logs.findings import Findings
from piwo.messages import argument
from piwo.visible import type_text

__all__ = [
    "LISTS",
    "Eligible",
    "eligible_of",
    "is_list",
    "listed_of",
    "lists_by_slot",
    "predictions_of",
    "propensities_of",
    "ragged",
]

LISTS = "lists of the actions that could be taken in each row"
"""What a column of eligible actions holds."""

_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_AS_LISTS = (
    "lists that are written as text, such as JSON in CSV, are read by a query: "
    "select * replace (from_json(COLUMN, '[\"VARCHAR\"]') as COLUMN) from 'FILE'"
)


@dataclass(frozen=True)
class Eligible:
    """The eligible actions of n rows, m pairs of a row and an action, row after row.

    Each row has at least one, none twice. In a batch the logged action is one of them.

    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> some.sizes.tolist(), some.rows.tolist(), some.take(slice(1, 2)).codes.tolist()
    ([2, 1], [0, 0, 1], [4])
    """

    starts: npt.NDArray[np.int64]
    """(n + 1,) where the pairs of each row begin, and m."""
    codes: npt.NDArray[np.int32]
    """(m,) action codes."""
    inline: pa.RecordBatch | None = None
    """(m rows) features of each pair, if the log has them inside; see `piwo.logs.inline`."""
    propensities: npt.NDArray[np.float64] | None = None
    """(m,) mu(a | X) of each pair, if the log has the probabilities of all eligible actions."""
    predictions: npt.NDArray[np.float64] | None = None
    """(m,) predicted rewards of each pair in their own unit, if the log has them."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(n,) how many actions each row has."""
        return np.diff(self.starts)

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """(m,) the row of each pair."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def take(self, keep: npt.NDArray[Any] | slice) -> Eligible:
        """Return the pairs of the rows of a slice, a mask or an index array."""
        if isinstance(keep, slice):
            first, last, step = keep.indices(len(self))
            if step == 1:
                starts = self.starts[first : max(first, last) + 1]
                inside = slice(starts[0], starts[-1])
                inline = self.inline
                if inline is not None:
                    inline = inline.slice(starts[0], starts[-1] - starts[0])
                mu, predicted = self.propensities, self.predictions
                if mu is not None:
                    mu = mu[inside]
                if predicted is not None:
                    predicted = predicted[inside]
                return Eligible(starts - starts[0], self.codes[inside], inline, mu, predicted)
        kept = np.arange(len(self))[keep]
        starts = np.append(0, np.cumsum(self.sizes[kept]))
        # The pairs of each kept row, one after the other.
        pairs = np.repeat(self.starts[kept] - starts[:-1], self.sizes[kept])
        pairs = pairs + np.arange(starts[-1])
        return Eligible(starts, self.codes[pairs], *self._at(pairs))

    def _at(
        self, pairs: npt.NDArray[Any]
    ) -> tuple[
        pa.RecordBatch | None, npt.NDArray[np.float64] | None, npt.NDArray[np.float64] | None
    ]:
        """Return the features, the propensities and the predicted rewards of some pairs."""
        inline, mu, predicted = self.inline, self.propensities, self.predictions
        if inline is not None:
            inline = inline.take(pa.array(pairs))
        if mu is not None:
            mu = mu[pairs]
        if predicted is not None:
            predicted = predicted[pairs]
        return inline, mu, predicted

    def with_inline(self, inline: pa.RecordBatch) -> Eligible:
        """Return the same pairs with features of each.

        >>> Eligible(np.array([0, 1]), np.array([4], np.int32)).with_inline(
        ...     pa.record_batch({"price": [2.0]})
        ... ).inline.num_rows
        1
        """
        return replace(self, inline=inline)

    def apart(self) -> Eligible:
        """Return the pairs with codes of their own, 0..m-1: each is an item of its row alone.

        >>> Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32)).apart().codes.tolist()
        [0, 1, 2]
        """
        return Eligible(self.starts, np.arange(len(self.codes), dtype=np.int32))

    def places(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the pair of each row whose action has the given code, (n,); -1: none.

        >>> Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32)).places(
        ...     np.array([1, 1], np.int32)
        ... ).tolist()
        [1, -1]
        """
        from piwo.logs.kernels import find_places

        found = np.empty(len(self), np.int64)
        find_places(self.starts, self.codes, np.asarray(codes, np.int32), found)
        return found

    def table(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the values of pairs as a table with a row for each row, filled up with 0.

        It is as wide as the longest list, so a place in a row is that in its list.

        >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
        >>> some.table(np.array([0.25, 0.75, 1.0])).tolist()
        [[0.25, 0.75], [1.0, 0.0]]
        """
        found = np.zeros((len(self), int(self.sizes.max(initial=1))))
        found[self.rows, np.arange(len(self.codes)) - self.starts[:-1][self.rows]] = values
        return found

    def doubled(self, actions: int) -> npt.NDArray[np.bool_]:
        """Return which rows list an action twice, (n,).

        Args:
            actions: K; codes are 0..K-1.

        >>> Eligible(np.array([0, 2, 3]), np.array([1, 1, 0], np.int32)).doubled(2).tolist()
        [True, False]
        """
        from piwo.logs.kernels import find_doubled

        found = np.zeros(len(self), np.bool_)
        find_doubled(self.starts, self.codes, np.full(actions, -1), found)
        return found

    def recoded(self, table: npt.NDArray[np.int32]) -> tuple[Eligible, npt.NDArray[np.int64]]:
        """Return the pairs in the codes of another list, and where they were, (m',).

        Args:
            table: the other list's code of each code; -1: not in it. Such pairs are left out.

        >>> some = Eligible(np.array([0, 2, 3]), np.array([2, 1, 2], np.int32))
        >>> other, kept = some.recoded(np.array([0, -1, 1], np.int32))
        >>> other.starts.tolist(), other.codes.tolist(), kept.tolist()
        ([0, 1, 2], [1, 1], [0, 2])
        """
        own = table[self.codes]
        kept = np.flatnonzero(own >= 0)
        sizes = np.bincount(self.rows[kept], minlength=len(self))
        starts = np.append(0, np.cumsum(sizes))
        return Eligible(starts, own[kept], *self._at(kept)), kept


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is that of lists.

    >>> is_list(pa.list_(pa.string())), is_list(pa.string())
    (True, False)
    """
    types = pa.types
    plain = types.is_list(kind) or types.is_large_list(kind)
    return bool(plain or types.is_fixed_size_list(kind))


def lists_by_slot(kind: pa.DataType) -> bool:
    """Whether a column of eligible actions has a list for each slot.

    >>> lists_by_slot(pa.list_(pa.list_(pa.string()))), lists_by_slot(pa.list_(pa.string()))
    (True, False)
    """
    return is_list(kind) and is_list(kind.value_type)


def ragged(values: pa.Array, column: str, wanted: str) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return where the entries of each row begin, (n + 1,), and all entries, row after row.

    Args:
        values: n lists; a missing list has no entries.
        column: the name to use in errors.
        wanted: what it should hold, in words.

    Raises:
        DataError: if the column does not hold lists.

    >>> starts, labels = ragged(pa.array([["b"], ["a", "b"]]), "ads", "lists of labels")
    >>> starts.tolist(), labels.to_pylist()
    ([0, 1, 3], ['b', 'a', 'b'])
    """
    if not is_list(values.type):
        how = ""
        if values.type in _TEXTS and wanted == LISTS:
            how = f"; {_AS_LISTS}"
        raise DataError(f"column {column!r} has {type_text(values.type)}, expected {wanted}{how}")
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    return np.append(np.int64(0), np.cumsum(sizes, dtype=np.int64)), values.flatten()


def eligible_of(
    values: pa.Array,
    column: str,
    actions: Actions,
    action: npt.NDArray[np.int32],
    findings: Findings,
) -> Eligible | None:
    """Return the eligible actions of some rows, or None with the broken rules in `findings`.

    Args:
        values: n lists of labels.
        column: the name to use in errors.
        actions: the list that codes are positions in.
        action: (n,) codes of the logged actions; -1: already refused.
        findings: collects the rows that break a rule.
    """
    found = listed_of(values, column, actions, findings)
    if found is None:
        return None
    outside = (found.places(action) < 0) & (action >= 0)
    if not outside.any():
        return found
    label = actions.labels[int(action[int(np.argmax(outside))])]
    advice = f"such as {label!r}; only eligible actions can be taken"
    findings.note(column, "does not list the action that was taken", advice, outside)
    return None


def listed_of(
    values: pa.Array, column: str, actions: Actions, findings: Findings
) -> Eligible | None:
    """Return lists of eligible actions, or None with the broken rules in `findings`.

    A list is not empty, has known labels, and none twice.

    Args:
        values: n lists of labels.
        column: the name to use in errors.
        actions: the list that codes are positions in.
        findings: collects the rows that break a rule.
    """
    starts, labels = ragged(values, column, LISTS)
    found = Eligible(starts, actions.codes(labels, column))
    empty = found.sizes == 0
    wrong = findings.note(column, "has no eligible action", "give each row at least one", empty)
    unknown = np.zeros(len(found), np.bool_)
    if found.codes.min(initial=0) < 0:
        unknown[found.rows[found.codes < 0]] = True
    rule = "has labels that are missing or not in the action list"
    advice = f"the actions are {actions.preview()}"
    if actions.items is not None and not actions.items.inline:
        rule = "has labels that are missing or without a row in items"
        advice = f"add a row for each ({argument('items')})"
    wrong |= findings.note(column, rule, advice, unknown)
    if wrong:
        return None
    doubled = found.doubled(len(actions))
    if doubled.any():
        listed = found.take(doubled)
        codes, counts = np.unique(listed.codes[: listed.starts[1]], return_counts=True)
        label = actions.labels[int(codes[np.argmax(counts)])]
        advice = f"list each action once, such as {label!r}"
        findings.note(column, "lists an action twice", advice, doubled)
        return None
    return found


def predictions_of(
    values: pa.Array, column: str, eligible: Eligible, findings: Findings
) -> Eligible:
    """Return the eligible actions with their predicted rewards; broken rules are in `findings`.

    Args:
        values: n lists of numbers, in the order of the eligible actions.
        column: the name to use in errors.
        eligible: of the n rows.
        findings: collects the rows that break a rule.

    Raises:
        DataError: for a column that does not hold lists of numbers.

    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> predictions_of(pa.array([[0.5, 1], [2]]), "q", some, Findings(np.arange(2))).predictions
    array([0.5, 1. , 2. ])
    """
    wanted = "lists of the predicted rewards of the eligible actions"
    starts, numbers = _numbers_of(values, column, wanted)
    rule = "has not as many predicted rewards as there are eligible actions"
    wrong = np.diff(starts) != eligible.sizes
    if findings.note(column, rule, "give one for each of them, in their order", wrong):
        return eligible
    bad = np.zeros(len(eligible), np.bool_)
    bad[eligible.rows[~np.isfinite(numbers)]] = True
    rule = "has missing or infinite predicted rewards"
    findings.note(column, rule, "predict a number for each eligible action", bad)
    return replace(eligible, predictions=numbers)


def _numbers_of(
    values: pa.Array, column: str, wanted: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return where the numbers of each row begin, (n + 1,), and all numbers; a missing one is NaN.

    Raises:
        DataError: if the column does not hold lists of numbers.
    """
    starts, entries = ragged(values, column, wanted)
    if not (is_number(entries.type) or pa.types.is_null(entries.type)):
        found = type_text(entries.type)
        raise DataError(f"column {column!r} has lists of {found}, expected {wanted}")
    if pa.types.is_boolean(entries.type):
        entries = entries.cast(pa.int8())
    return starts, entries.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def note_rescaled(
    findings: Findings, column: str, tolerance: float, off: npt.NDArray[np.bool_]
) -> None:
    """Note the rows whose propensities are divided by their sum, as the user asked.

    Args:
        findings: takes the note.
        column: where the propensities are from.
        tolerance: how far a sum may be from 1.
        off: (n,) which rows are further off.
    """
    asked = argument("normalize", value=True)
    advice = f"divided by its sum as asked ({asked}); results depend on these propensities"
    findings.note(column, f"does not sum to 1 within {tolerance:g}", advice, off, fatal=False)


def propensities_of(
    values: pa.Array,
    column: str,
    eligible: Eligible,
    findings: Findings,
    tolerance: float,
    normalize: bool = False,
) -> npt.NDArray[np.float64] | None:
    """Return the propensities of all eligible actions, (m,).

    None with the broken rules in `findings`.

    Args:
        values: n lists of numbers, in the order of the eligible actions.
        column: the name to use in errors.
        eligible: of the n rows.
        findings: collects the rows that break a rule.
        tolerance: how far the sum of a row may be from 1.
        normalize: divide each list by its sum, and note the rows further off.
    """
    wanted = "lists of the probabilities of the eligible actions"
    starts, numbers = _numbers_of(values, column, wanted)
    rule = "has not as many probabilities as there are eligible actions"
    wrong = np.diff(starts) != eligible.sizes
    if findings.note(column, rule, "give one for each of them, in their order", wrong):
        return None
    sums = np.add.reduceat(numbers, starts[:-1]) if len(eligible) else np.empty(0)
    unusable = ~np.isfinite(sums)
    negative = np.zeros(len(eligible), np.bool_)
    negative[eligible.rows[numbers < 0.0]] = True
    off = np.abs(sums - 1.0) > tolerance
    rules = (
        ("has missing or infinite probabilities", "correct the log", unusable),
        ("has negative probabilities", "probabilities lie in [0, 1]", negative),
    )
    broken = [findings.note(column, rule, advice, bad) for rule, advice, bad in rules]
    if normalize:
        advice = "a list needs at least one positive entry"
        broken.append(findings.note(column, "sums to 0", advice, sums <= 0.0))
    else:
        rule = f"does not sum to 1 within {tolerance:g}"
        advice = f"correct the log, or pass {argument('normalize', value=True)} to divide by it"
        broken.append(findings.note(column, rule, advice, off & ~unusable))
    if any(broken):
        return None
    if normalize:
        note_rescaled(findings, column, tolerance, off)
        numbers = numbers / sums[eligible.rows]
    propensities: npt.NDArray[np.float64] = numbers
    return propensities
