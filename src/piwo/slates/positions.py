"""Positions of a slate log: one of them as a log of its own, and the values of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from piwo.bounds.interval import Guarantee, Interval
from piwo.checks import check_count, check_delta, check_kind
from piwo.errors import UsageError
from piwo.evaluation.record import ends_text
from piwo.evaluation.result import improvement_in_units
from piwo.logs.columns import Columns
from piwo.logs.eligible import lists_by_slot
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.records import Record
from piwo.reductions.blocks import Partition
from piwo.slates.estimators import ESTIMATORS, first_slot, require_marginals
from piwo.slates.evaluate import (
    bounds_of,
    check_target,
    gains_of,
    mean_credit,
    never_logged,
    no_value_left,
    reason_against,
    settled_interval,
    shown_of,
    too_much,
    weight_p,
)
from piwo.slates.log import SlateLog
from piwo.slates.notes import notes_on, vacuous_notes
from piwo.slates.policies import Factored
from piwo.slates.policy import SlatePolicy
from piwo.slates.sums import SlateState, SlateSums, reduce_slates
from piwo.slates.validation import SlateReader
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment, Source
from piwo.visible import confidence, number, visible_lines

__all__ = ["PositionValue", "Positions", "by_position", "log_of_position", "position_log"]

_NAMES = ("action", "reward", "propensity")
_GUARANTEES: Mapping[str, Guarantee] = MappingProxyType(
    {"deadline": "finite-sample", "mixture": "finite-sample", "normal": "asymptotic"}
)
"""Interval -> what it promises, if the assumption holds."""


@dataclass(frozen=True)
class _PositionFragment:
    """Fragment: one position of the slates of a fragment."""

    fragment: Fragment
    reader: SlateReader
    place: int

    @property
    def start(self) -> int:
        """A row number that no other fragment has."""
        return self.fragment.start

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield action, reward, marginal propensity and context of the rows with the position.

        Raises:
            Refused: if rows break a rule, with their numbers in the slate log.
        """
        reader, place = self.reader, self.place
        scale = reader.largest if reader.largest < float("inf") else 1.0
        logger = reader.logger
        probability = logger.marginal if logger.states("marginal") else logger.above
        for found in reader.read(self.fragment):
            rows = found.take(found.lengths > place)
            labels = pa.array(reader.actions.take(rows.action[:, place]))
            # one column is the reward of the slate
            slot = min(place, rows.reward.shape[1] - 1)
            columns: dict[str, Any] = {
                "action": labels,
                "reward": rows.reward[:, slot] * scale,
                "propensity": probability(rows)[:, place],
                **(rows.context or {}),
            }
            name = reader.columns.eligible
            if name is not None and lists_by_slot(columns[name].type):
                columns[name] = pc.list_element(columns[name], place)
            yield pa.record_batch(columns)


@dataclass(frozen=True)
class PositionSource:
    """The rows of one position of a slate log; slates without it are left out."""

    log: SlateLog
    place: int

    @property
    def name(self) -> str:
        """The log and the position."""
        return f"position {self.place + 1} of {self.log.name}"

    @property
    def schema(self) -> pa.Schema:
        """Action, reward, propensity, and the context columns of the slate log."""
        schema = self.log.source.schema
        kind = schema.field(self.log.columns.slate).type.value_type
        # labels are those of the action list: text or whole numbers
        label = pa.int64() if pa.types.is_integer(kind) else pa.string()
        fields = [pa.field("action", label)]
        fields += [pa.field("reward", pa.float64()), pa.field("propensity", pa.float64())]
        columns = self.log.columns
        for name in (*columns.context, columns.unit, columns.weight, columns.eligible):
            if name is None:
                continue
            field = schema.field(name)
            if name == columns.eligible and lists_by_slot(field.type):
                field = pa.field(name, field.type.value_type)
            fields.append(field)
        return pa.schema(fields)

    @property
    def rows(self) -> int | None:
        """None: only a pass can count them."""
        return None

    @property
    def steady(self) -> bool:
        """Whether every pass gives the same rows in the same order."""
        return self.log.source.steady

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:
        """Return the position's part of each fragment."""
        del columns  # what is read is what the slates need
        columns_of = self.log.columns
        others = (columns_of.unit, columns_of.weight, columns_of.eligible)
        carried = tuple(x for x in others if x is not None)
        # the log of the position brings the rows of units together
        reader = replace(self.log.reader(context=True), by_unit=False, carried=carried)
        each = self.log.source.fragments(reader.names)
        return [_PositionFragment(one, reader, self.place) for one in each]

    def source_id(self) -> tuple[Any, ...]:
        """Return the slates' and the position."""
        return ("position", self.place, str(self.log.selector), *self.log.source.source_id())


def position_log(log: SlateLog, position: int) -> Log:
    """Return the log of one position; see `SlateLog.position`."""
    check_count("position", position, 1, "the position, 1 for the first slot")
    if position > log.slots:
        raise UsageError(
            f"{argument('position')} is {position}, and slates have up to {log.slots} slots"
        )
    if not log.by_slot:
        raise UsageError(
            f"a log of one position needs the reward of each slot ({argument('rewards')}), and "
            "this log has that of the slate"
        )
    return log_of_position(log, position)


def log_of_position(log: SlateLog, position: int) -> Log:
    """Return the log of one position, 1 for the first; rewards are the slate's if slots have none.

    Raises:
        UsageError: for logs without marginal propensities, but for the first slot, whose
            propensities given those above are marginal; and in a cluster.
    """
    # nothing is above the first slot, so that its probabilities are marginal
    if position > 1 or not log.logger.states("above"):
        require_marginals(log, f"the log of slot {position}")
    if isinstance(log.source, Cluster):
        raise UsageError(f"{log.name} is in a cluster; write it to Parquet files first")
    columns = log.columns
    more = (*columns.context, columns.unit, columns.weight, columns.eligible)
    taken = [name for name in more if name in _NAMES]
    if taken:
        raise UsageError(
            f"column {taken[0]!r} has the name of a role of the position's log; rename it"
        )
    source: Source = PositionSource(log, position - 1)
    return Log.of(
        source,
        Columns(
            context=columns.context,
            unit=columns.unit,
            weight=columns.weight,
            eligible=columns.eligible,
        ),
        log.actions,
        reward_range=(0.0, log.largest),
        logger=log.learning,
    )


@dataclass(frozen=True)
class PositionValue(Record):
    """The value of one position, in the reward's own unit.

    >>> PositionValue(1, 10, 0.5, 0.4, 0.3, 0.6, None, 1.0, 1.0).relative
    1.0
    """

    position: int
    """1 for the first slot."""
    rows: int
    """Slates that have the position."""
    logging_value: float
    """Mean logged reward there, of the items that the logger put there."""
    value: float | None
    """Importance-weighted mean reward of the target's items there."""
    lower: float | None
    """Lower end of the interval of that value; all positions hold together at 1 - delta."""
    upper: float | None
    improvement_lower: float | None
    """Lower bound on value minus the logger's in the same position."""
    mean_weight: float
    """1 on average if the logger shows there all that the target does."""
    relative: float | None
    """The value over that of the first position: if the target's items are the same in all
    positions, how much of a reward the position leaves."""


@dataclass(frozen=True)
class Positions(Record):
    """The values of all positions of a slate log.

    >>> Positions("uniform", (), 0.05, "deadline", "finite-sample").positions
    ()
    """

    name: str
    positions: tuple[PositionValue, ...]
    delta: float
    interval: str
    guarantee: str
    """finite-sample, given the assumption; asymptotic; or none."""
    propensity_p: float = 1.0
    """p-value of "propensities are not too small" by the weights of all positions."""
    no_interval: Note | None = None
    """Why no position has an interval; None if they have one."""
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.name} by position ({self.interval}, {confidence(self.delta, '%')})"]
        for one in self.positions:
            value = "not defined" if one.value is None else number(one.value)
            ends = "no interval"
            if one.lower is not None or one.upper is not None:
                ends = ends_text(one.lower, one.upper)
            share = "" if one.relative is None else f", {one.relative:.3g} of the first"
            lines.append(
                f"  {one.position}: {value} {ends}{share}; "
                f"logged {number(one.logging_value)} ({one.rows:,} rows)"
            )
        lines += [f"  note: {note}" for note in self.notes]
        return visible_lines(lines)


def by_position(
    log: SlateLog,
    policy: SlatePolicy | None = None,
    *,
    interval: str = "auto",
    delta: float = 0.05,
    name: str | None = None,
) -> Positions:
    """Return the value of every position: how much does a slot earn, for the same items?

    Logged means differ by position because the logger puts better items higher. With one mix of
    items in all positions, by importance weights, what is left is the position's own effect; and
    the target is compared with the logger position by position.

    Formula: V_l = mean of pi(a_l in slot l)/mu(a_l in slot l) r_l, over the rows that have slot l,
    of marginal probabilities. Assumes that the reward of a slot depends on its position and its
    own action alone.

    Args:
        log: of `slates.read`, with rewards of slots and marginal propensities.
        policy: the target; None: every action of the log, or every eligible one of the row, with
            the same probability, everywhere.
        interval: see `piwo.slates.evaluate`.
        delta: error probability of all intervals together; of L positions each has delta / L. The
            weights of each are tested at 1/L of the level, too: if they contradict the
            propensities, no position has an interval.
        name: what to call the policy in the result.

    Returns:
        A `Positions`. Nothing is weighted with `position_weights`. A policy that was learned from
        these rows gets no intervals.

    Raises:
        UsageError: if the log lacks rewards of slots or marginal propensities.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["a", "b"], ["b", "a"]], "rs": [[1, 0], [0, 1]]},
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ... )
    >>> [(one.position, one.value) for one in by_position(log).positions]
    [(1, 0.5), (2, 0.5)]
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    check_delta(delta)
    shown_as = name or "uniform over actions"
    if policy is None:
        each = 1.0 / len(log.actions)
        policy = Factored([dict.fromkeys(log.actions, each)] * log.slots)
    else:
        check_target(log, policy)
        shown_as = name or type(policy).__name__
    estimator = ESTIMATORS["independent"]
    estimator.check(log, policy, "slates.by_position", first_slot(log))
    settled = settled_interval(log, interval)
    partition = Partition("hash") if settled == "deadline" else None
    first = SlateSums(
        reader=log.reader(policy),
        estimator=estimator,
        alpha=log.position_weights,
        bounded=log.bounded,
        partition=partition,
        position=0,
    )
    tasks = [replace(first, position=place) for place in range(log.slots)]
    states = reduce_slates(log, tasks)
    # of L tests of weights, as of L intervals, each has its share of the error probability
    p_value = min(1.0, log.slots * min(weight_p(log, state) for state in states))
    never = never_logged(log, policy, states[0])
    why_not = reason_against(log, policy, estimator, p_value, settled, never)
    found: list[PositionValue] = []
    left_out: list[Note] = []
    vacuous: list[Note] = []
    for place, state in enumerate(states):
        # declared slots that no slate of this log has
        if state.policy.moments.rows:
            one = _position(log, place, state, found)
            if why_not is None:
                one, none = _with_bounds(one, log, state, settled, delta / log.slots)
                if none is not None:
                    left_out.append(_at(one.position, none))
                ends = Interval(one.lower, one.upper, _GUARANTEES[settled])
                vacuous += [_at(one.position, note) for note in vacuous_notes(ends, log.largest)]
            found.append(one)
    contradicted = [note for note in left_out if note.kind == "contradicted"]
    if contradicted or 0 < len(found) == len(left_out):
        # what the rows contradict concerns all positions
        why_not, left_out, vacuous = (contradicted or left_out)[0], [], []
        found = [replace(one, lower=None, upper=None, improvement_lower=None) for one in found]
    return Positions(
        name=shown_as,
        positions=tuple(found),
        delta=delta,
        interval=settled,
        guarantee=_GUARANTEES[settled] if why_not is None else "none",
        propensity_p=p_value,
        no_interval=why_not,
        notes=(
            *notes_on(log, policy, first, states[0], settled, why_not, never),
            *left_out,
            *vacuous,
        ),
    )


def _at(position: int, note: Note) -> Note:
    """Return a note on one position."""
    return Note(f"position {position}: {note.template}", note.kind)


def _position(
    log: SlateLog, place: int, state: SlateState, earlier: list[PositionValue]
) -> PositionValue:
    """Return the value of one position, without bounds."""
    unit = log.largest if log.bounded else 1.0
    value, _ = mean_credit(state)
    relative = None
    if value is not None:
        value *= unit
        first = earlier[0].value if earlier else value
        if first:
            relative = value / first
    return PositionValue(
        position=place + 1,
        rows=state.policy.moments.logged,
        logging_value=float(state.logged[0] / state.slots[0]) * unit,
        value=value,
        lower=None,
        upper=None,
        improvement_lower=None,
        mean_weight=float(state.w[0] / state.slots[0]),
        relative=relative,
    )


def _with_bounds(
    one: PositionValue, log: SlateLog, state: SlateState, interval: str, delta: float
) -> tuple[PositionValue, Note | None]:
    """Return the value of one position with its bounds; or without, and why."""
    unit = log.largest if log.bounded else 1.0
    value, error = mean_credit(state)
    raw = bounds_of(state.policy, interval, delta, 0.0, log.bounded, value, error)
    gains = gains_of(log, state.policy, interval, delta, 0.0)
    why_not = no_value_left(log, raw, interval, unit) or too_much(gains, unit)
    if why_not is not None:
        return one, why_not
    ends = shown_of(log, raw)
    made = replace(
        one,
        lower=None if ends.lower is None else ends.lower * unit,
        upper=None if ends.upper is None else ends.upper * unit,
        improvement_lower=improvement_in_units(gains.lower, unit),
    )
    return made, None
