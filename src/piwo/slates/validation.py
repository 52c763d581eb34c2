"""Validation: list columns become rows of slates, or an error that lists the broken rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible, listed_of, lists_by_slot
from piwo.logs.features import is_list, is_number
from piwo.logs.findings import Findings, Refused
from piwo.logs.numbers import numbers_of
from piwo.logs.reader import Selector
from piwo.logs.units import ROW_NUMBER, unit_numbers, whole_units
from piwo.logs.validation import TOLERANCE, sampling_weight
from piwo.messages import argument
from piwo.slates.policy import SlatePolicy
from piwo.slates.rows import Codes, SlateRows
from piwo.sources.source import BATCH_ROWS, Fragment, cut
from piwo.visible import exact, type_text

__all__ = [
    "USER_BEHAVIORS",
    "SlateColumns",
    "SlateReader",
    "check_list",
    "numbered",
]

USER_BEHAVIORS = ("standard", "cascade", "independent")
"""What the reward of a slot depends on: all shown actions, those above it and its own, its own."""


@dataclass(frozen=True)
class SlateColumns:
    """The columns of a slate log by role; None: the log has no such column."""

    slate: str
    reward: str | None = None
    rewards: str | None = None
    context: tuple[str, ...] = ()
    user_behavior: str | None = None
    unit: str | None = None
    weight: str | None = None
    eligible: str | None = None

    def used(self) -> tuple[str, ...]:
        """Return every column that has a role, but those of probabilities."""
        named = (self.slate, self.reward, self.rewards, *self.context)
        named += (self.user_behavior, self.unit, self.weight, self.eligible)
        return tuple(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True)
class SlateReader:
    """Reads fragments of a slate log, in any process.

    Args:
        columns: the roles.
        actions: the labels.
        slots: L, the most slots of a slate.
        largest: the largest reward, by which rewards are divided; infinity: they are not.
        logger: over the actions; the probabilities of shown slates must be above 0.
        target: over the actions; None: only the logger is needed.
        selector: which rows are read; None: all.
        context: whether rows carry the context.
        by_unit: whether rows carry units, and come as whole ones; they are neighbors then.
        carried: columns that rows carry as they are, with the context.
    """

    columns: SlateColumns
    actions: Actions
    slots: int
    largest: float
    logger: SlatePolicy
    target: SlatePolicy | None = None
    selector: Selector | None = None
    context: bool = False
    by_unit: bool = False
    carried: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        names = list(self.columns.used())
        if not self._reads_context:
            names = [name for name in names if name not in self.columns.context]
        for policy in self._policies:
            names += [*policy.numbers, *policy.slate_columns]
            if policy.encoding is not None:
                names += policy.encoding.columns
        return tuple(dict.fromkeys(names))

    def read(self, fragment: Fragment) -> Iterator[SlateRows]:
        """Yield the validated rows of one fragment.

        Raises:
            Refused: if rows break a rule.
        """
        unit = self.columns.unit
        records = _cut(fragment)
        if self.by_unit and unit is not None:
            records = whole_units(fragment.records(), unit, BATCH_ROWS)
        for record, rows, numbers in numbered(records, fragment.start, unit):
            chosen, kept = record, rows
            if self.selector is not None:
                keep = self.selector.keep(numbers)
                chosen, kept = record.filter(pa.array(keep)), rows[keep]
            if len(kept):
                yield self._rows(chosen, kept)

    @property
    def _policies(self) -> tuple[SlatePolicy, ...]:
        return tuple(x for x in (self.logger, self.target) if x is not None)

    @property
    def _reads_context(self) -> bool:
        return self.context or any(x.encoding is not None for x in self._policies)

    def _rows(self, record: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> SlateRows:
        """Return validated rows.

        Raises:
            Refused: with every broken rule.
        """
        findings, columns = Findings(rows), self.columns
        lengths = _lengths(record[columns.slate], columns.slate, self.slots, findings)
        _stop(findings)
        action = self._codes(record[columns.slate], columns.slate, lengths, findings)
        eligible = self._eligible(record, lengths, findings)
        by_slot = columns.eligible is not None and lists_by_slot(record[columns.eligible].type)
        lists = _by_slot(eligible, self.slots, by_slot)
        _require_listed(lists, {columns.slate: action}, columns, self.actions, findings)
        reward = self._reward(record, lengths, findings)
        numbers = {}
        for policy in self._policies:
            for name in policy.numbers:
                positive = policy is self.logger
                numbers[name] = _probabilities(
                    record, name, lengths, self.slots, positive, findings
                )
        slates = {}
        for name in self.target.slate_columns if self.target is not None else ():
            others = _lengths(record[name], name, self.slots, findings)
            rule = f"has other numbers of labels than {columns.slate!r}"
            findings.note(
                name, rule, "a slate of the target fills the same slots", others != lengths
            )
            _stop(findings)
            slates[name] = self._codes(record[name], name, lengths, findings)
        _require_listed(lists, slates, columns, self.actions, findings)
        behavior = self._behavior(record, findings)
        weight = None
        if columns.weight is not None:
            weight = sampling_weight(record[columns.weight], columns.weight, findings)
        _stop(findings)
        context = {}
        if self._reads_context:
            context = {name: record[name] for name in record.schema.names if name in self._contexts}
        units = None
        if self.by_unit and columns.unit is not None:
            units = unit_numbers(record, columns.unit)
        context |= {name: record[name] for name in self.carried}
        made = SlateRows(
            rows,
            lengths,
            action,
            reward,
            numbers,
            slates,
            behavior,
            context,
            units,
            weight,
            eligible,
            by_slot,
        )
        self._check_logger(made, findings)
        _stop(findings)
        return made

    @property
    def _contexts(self) -> set[str]:
        names = set(self.columns.context)
        for policy in self._policies:
            if policy.encoding is not None:
                names.update(policy.encoding.columns)
        return names

    def _codes(
        self,
        values: pa.Array,
        name: str,
        lengths: npt.NDArray[np.int64],
        findings: Findings,
    ) -> Codes:
        """Return the codes of lists of labels, (n, L).

        Args:
            values: the lists.
            name: of the column.
            lengths: (n,) of the lists.
            findings: what is wrong is noted there, and so are labels that the action list lacks.
        """
        flat = values.flatten()
        missing = np.zeros((len(lengths), self.slots), np.bool_)
        mask = np.arange(self.slots) < lengths[:, None]
        missing[mask] = pc.is_null(flat).to_numpy(zero_copy_only=False)
        advice = "drop such rows yourself first, or give the action a label"
        findings.note(name, "has missing labels", advice, missing.any(axis=1))
        codes = np.full((len(lengths), self.slots), -1, np.int32)
        codes[mask] = self.actions.codes(flat, name)
        other = (codes < 0) & mask & ~missing
        if other.any():
            place = int(np.flatnonzero((codes[mask] < 0) & ~missing[mask])[0])
            advice = (
                f"such as {flat[place].as_py()!r}; add them to {argument('actions', '[...]')} or "
                "correct the column"
            )
            listed = f"{len(self.actions)} actions ({self.actions.preview()})"
            rule = f"holds labels that are not among the {listed}"
            findings.note(name, rule, advice, other.any(axis=1))
        return codes

    def _eligible(
        self, record: pa.RecordBatch, lengths: npt.NDArray[np.int64], findings: Findings
    ) -> Eligible | None:
        """Return the actions that could be shown, n lists or n L; None: all, or a broken rule."""
        name = self.columns.eligible
        if name is None:
            return None
        values = record[name]
        if not lists_by_slot(values.type):
            return listed_of(values, name, self.actions, findings)
        sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        rule, advice = "does not hold one list for each slot", "give as many as the slate has slots"
        if findings.note(name, rule, advice, sizes != lengths):
            return None
        each = Findings(np.repeat(findings.rows, lengths))
        found = listed_of(values.flatten(), name, self.actions, each)
        for one in each.noted:
            findings.noted.append(replace(one, rows=tuple(dict.fromkeys(one.rows))))
        if found is None:
            return None
        # lists of slots that a slate lacks are empty
        full = np.zeros(len(lengths) * self.slots, np.int64)
        full[(np.arange(self.slots) < lengths[:, None]).ravel()] = found.sizes
        return Eligible(np.append(0, np.cumsum(full)), found.codes)

    def _reward(
        self, record: pa.RecordBatch, lengths: npt.NDArray[np.int64], findings: Findings
    ) -> Floats:
        """Return the rewards over the largest one, (n, L) of slots or (n, 1) of slates."""
        columns = self.columns
        if columns.rewards is not None:
            name = columns.rewards
            found = _padded(record[name], name, lengths, self.slots, 0.0, findings)
        else:
            assert columns.reward is not None
            name = columns.reward
            flat = numbers_of(record[name], name, findings)
            if flat is None:
                flat = np.zeros(record.num_rows)
            found = flat[:, None]
        outside = (found < 0.0) | (found > self.largest)
        if outside.any():
            example = exact(found[outside][0])
            advice = f"such as {example}; declare {argument('reward_range', '(0, hi)')}"
            rule = f"has a reward outside the declared range [0, {exact(self.largest)}]"
            findings.note(name, rule, advice, outside.any(axis=1), kind="range")
        if np.isfinite(self.largest):
            found = found / self.largest
        return found

    def _behavior(self, record: pa.RecordBatch, findings: Findings) -> Codes | None:
        name = self.columns.user_behavior
        if name is None:
            return None
        codes = Actions(USER_BEHAVIORS).codes(record[name], name)
        known = ", ".join(map(repr, USER_BEHAVIORS))
        findings.note(name, f"is not one of {known}", "correct the column", codes < 0)
        return codes

    def _check_logger(self, rows: SlateRows, findings: Findings) -> None:
        """Note the rows whose logged probabilities are 0 or contradict each other."""
        logger, above, first = self.logger, None, None
        slate = self.columns.slate
        if logger.states("above"):
            above = logger.above(rows)
            rule = "holds slates that the logger cannot show"
            impossible = (above <= 0).any(axis=1)
            findings.note(slate, rule, "correct the log or the declared logger", impossible)
            first = above[:, 0]
        if logger.states("marginal") and not logger.ranks:
            marginal = logger.marginal(rows)
            if first is not None:
                rule = "has another probability in the first slot than the marginal one"
                # the rounding of float32, but at most 1 % of a small probability
                allowed = np.minimum(TOLERANCE, 0.01 * np.maximum(first, marginal[:, 0]))
                wrong = np.abs(first - marginal[:, 0]) > allowed
                findings.note(slate, rule, "nothing is above the first slot", wrong)
        if above is not None and logger.states("slate"):
            whole, product = logger.slate(rows), above.prod(axis=1)
            # the rounding of float32 in each slot
            wrong = np.abs(whole - product) > TOLERANCE * rows.slots * product
            rule = "has a probability that is not the product of those of its slots"
            findings.note(slate, rule, "one of the two columns is wrong", wrong)


def _by_slot(eligible: Eligible | None, slots: int, by_slot: bool) -> list[Eligible]:
    """Return the eligible actions of each slot; none at all without any."""
    if eligible is None:
        return []
    if by_slot:
        return [eligible.take(slice(slot, None, slots)) for slot in range(slots)]
    return [eligible] * slots


def _require_listed(
    lists: Sequence[Eligible],
    shown: Mapping[str, Codes],
    columns: SlateColumns,
    actions: Actions,
    findings: Findings,
) -> None:
    """Note the rows of columns that show actions which are not eligible.

    Args:
        lists: of n rows, for each slot.
        shown: column -> (n, L) codes; -1: none.
        columns: the roles.
        actions: the labels.
        findings: collects the rows.
    """
    for name, codes in shown.items():
        outside = np.zeros(codes.shape, np.bool_)
        for slot, eligible in enumerate(lists):
            one = codes[:, slot]
            outside[:, slot] = (eligible.places(one) < 0) & (one >= 0)
        if outside.any():
            label = actions.labels[int(codes[outside][0])]
            rule = f"shows actions that {columns.eligible!r} does not list"
            advice = f"such as {label!r}; only eligible actions can be shown"
            findings.note(name, rule, advice, outside.any(axis=1))


def check_list(kind: pa.DataType, name: str, what: str) -> None:
    """Raise unless a column holds lists.

    Args:
        kind: the type of the column.
        name: of the column.
        what: the lists hold.

    >>> check_list(pa.list_(pa.string()), "slate", "labels")
    """
    if not is_list(kind):
        raise DataError(
            f"column {name!r} has {type_text(kind)}, expected lists of {what}, one for each slot"
        )


def _cut(fragment: Fragment) -> Iterator[pa.RecordBatch]:
    for whole in fragment.records():
        yield from cut(whole)


def numbered(
    records: Iterator[pa.RecordBatch], start: int, unit: str | None
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield raw rows, their numbers in the log, and the numbers that they are selected by.

    Args:
        records: the rows of a fragment.
        start: the number of the first one, if they do not carry their numbers.
        unit: the column of units, whose numbers select rows; None: row numbers do.

    >>> [(rows.tolist()) for _, rows, _ in numbered(iter([pa.record_batch({"x": [7]})]), 3, None)]
    [[3]]
    """
    for record in records:
        rows = np.arange(start, start + record.num_rows)
        start += record.num_rows
        if ROW_NUMBER in record.schema.names:
            rows = record[ROW_NUMBER].to_numpy(zero_copy_only=False)
        numbers = rows
        if unit is not None:
            numbers = unit_numbers(record, unit)
        yield record, rows, numbers


def _stop(findings: Findings) -> None:
    if findings.fatal:
        raise Refused(findings.fatal)


def _lengths(values: pa.Array, name: str, slots: int, findings: Findings) -> npt.NDArray[np.int64]:
    """Return the lengths of lists, (n,), after noting those that are missing, empty or too long."""
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    findings.note(name, "is missing", "drop such rows yourself first", missing)
    found = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    lengths = np.asarray(found, np.int64)
    findings.note(name, "holds an empty slate", "leave out such rows", (lengths == 0) & ~missing)
    advice = f"declare {argument('slots')}, the most slots of a slate"
    findings.note(name, f"has more than {slots} slots", advice, lengths > slots)
    return lengths


def _padded(
    values: pa.Array,
    name: str,
    lengths: npt.NDArray[np.int64],
    slots: int,
    fill: float,
    findings: Findings,
) -> Floats:
    """Return lists of numbers as an (n, L) table, filled beyond the end of a slate."""
    check_list(values.type, name, "numbers")
    entry = values.type.value_type
    if not (is_number(entry) or pa.types.is_null(entry)):
        raise DataError(f"column {name!r} has {type_text(values.type)}, expected lists of numbers")
    table = np.full((len(lengths), slots), fill)
    absent = pc.is_null(values).to_numpy(zero_copy_only=False)
    bad = findings.note(name, "is missing", "drop such rows yourself first", absent)
    found = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    rule, advice = "does not hold one number for each slot", "correct the log"
    bad |= findings.note(name, rule, advice, (found != lengths) & ~absent)
    if bad:
        return table
    flat = values.flatten().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    table[np.arange(slots) < lengths[:, None]] = flat
    wrong = ~np.isfinite(table)
    if wrong.any():
        rule = "has missing or infinite numbers"
        findings.note(name, rule, "find out why; nothing is filled in", wrong.any(axis=1))
        table[wrong] = fill
    return table


def _probabilities(
    record: pa.RecordBatch,
    name: str,
    lengths: npt.NDArray[np.int64],
    slots: int,
    positive: bool,
    findings: Findings,
) -> Floats:
    """Return a column of probabilities, (n, L) by slot or (n,) of slates."""
    values = record[name]
    if is_list(values.type):
        found = _padded(values, name, lengths, slots, 1.0, findings)
        table = found
    else:
        flat = numbers_of(values, name, findings)
        if flat is None:
            flat = np.ones(len(lengths))
        found, table = flat, flat[:, None]
    findings.note(name, "is negative", "probabilities lie in [0, 1]", (table < 0).any(axis=1))
    if positive:
        rule = "is 0, which cannot happen for an action that was shown,"
        findings.note(name, rule, "correct the log", (table == 0).any(axis=1))
    rule = f"is above 1 by more than {TOLERANCE:g}"
    above = (table > 1 + TOLERANCE).any(axis=1)
    findings.note(name, rule, "probabilities lie in [0, 1]", above)
    capped: Floats = np.minimum(found, 1.0)
    return capped
