"""The slate log: rows of shown slates, the meaning of their columns, and how they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import check_count, check_kind, check_listed, is_number, shown
from piwo.engines.engine import fold
from piwo.engines.state import State
from piwo.engines.task import Task
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, label_array
from piwo.logs.batch import Floats
from piwo.logs.column_names import match_names, require_columns
from piwo.logs.columns import Columns
from piwo.logs.log import Log
from piwo.logs.options import Logger, check_logger, check_reward_range
from piwo.logs.reader import Selector
from piwo.logs.source_of import paths_of, source_of
from piwo.logs.split import HeldOut, Split, check_split
from piwo.logs.units import by_unit
from piwo.messages import argument
from piwo.slates.policies import Factored, FromColumns, Uniform
from piwo.slates.policy import SlatePolicy
from piwo.slates.validation import SlateColumns, SlateReader, check_list, numbered
from piwo.sources.filters import condition, mentioned
from piwo.sources.lazy import column_names, is_lazy
from piwo.sources.paths import kind_of
from piwo.sources.source import Fragment, Source

__all__ = ["SlateLog", "read"]


def read(
    source: Any,
    *,
    slate: str = "slate",
    reward: str | None = None,
    rewards: str | None = None,
    propensities: str | None = None,
    marginals: str | None = None,
    slate_propensity: str | None = None,
    independent: bool = False,
    behavior: SlatePolicy | None = None,
    position_weights: Sequence[float] | None = None,
    user_behavior: str | None = None,
    context: Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    slots: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    where: str | None = None,
    logger: Logger | None = None,
    unit: str | None = None,
    weight: str | None = None,
) -> SlateLog:
    """Return a log of slates: one row is one decision, with the list of the actions it showed.

    Slates may differ in length. Rows are validated whenever they are read; nothing is filled,
    clipped or dropped. What was logged of the logger decides which estimators can be used:
    `propensities` all but "independent", `marginals` that one, `slate_propensity` "standard".

    Args:
        source: Parquet files (a path, a glob, a list), a data frame, a DuckDB query (such as
            "select * from read_json('log.jsonl')"), or a `Source`.
        slate: list column: the labels of the shown actions, the first slot first.
        reward: the reward of the whole slate; or
        rewards: list column: the reward of each slot.
        propensities: list column: the logger's probability of each shown action given the context
            and the actions above it. Their product is the probability of the slate.
        marginals: list column: the logger's probability of each shown action in its slot given the
            context, whatever is above it.
        slate_propensity: the logger's probability of the whole slate.
        independent: whether the logger drew the slots independently given the context, so that
            `propensities` and `marginals` are the same.
        behavior: the logger as an object, instead of columns: `slates.Uniform(items)` for uniform
            rankings, or `slates.Factored`.
        position_weights: alpha_l >= 0 of the slots: the value of a slate is sum_l alpha_l r_l.
            None: 1 each.
        user_behavior: column of "standard", "cascade" or "independent": what the reward of a slot
            depends on in this row, for the estimator "adaptive".
        context: names or globs of context columns, for `slates.learn`.
        actions: the action list; None: the sorted distinct labels.
        slots: L, the most slots of a slate; None: a pass finds it.
        reward_range: (0, hi), the declared range of a reward, of the slate or of a slot.
        where: an SQL condition on any columns that are known before the decision.
        logger: "learning" if the logger learned from earlier rows; "fixed" if not.
        unit: column of units (users, sessions) whose rows depend on each other: statistics and
            splits are then by unit, and each unit counts the same.
        weight: column of sampling weights, for a thinned log: 1 / (rate at which rows were kept).
            Values are weighted means; nothing is proved, as the dropped rows are not counted.

    Returns:
        A `SlateLog`.

    Raises:
        DataError: for columns that do not exist or do not hold lists.
        UsageError: for arguments that exclude each other.

    >>> log = read(
    ...     {"slate": [["a", "b"], ["b"]], "rs": [[1, 0], [1]], "ps": [[0.5, 1.0], [0.5]]},
    ...     rewards="rs",
    ...     propensities="ps",
    ... )
    >>> log.slots, log.actions.labels, len(log)
    (2, ('a', 'b'), 2)
    """
    if isinstance(context, str):
        context = (context,)
    check_listed("context", context)
    optional = {"reward": reward, "rewards": rewards, "user_behavior": user_behavior}
    optional |= {"unit": unit, "weight": weight}
    named = {f"context[{i}]": name for i, name in enumerate(context)}
    named |= {role: name for role, name in optional.items() if name is not None}
    for role, value in {"slate": slate, **named}.items():
        if not isinstance(value, str):
            raise UsageError(f"{argument(role)}={value!r} is not a column name, expected text")
    if (reward is None) == (rewards is None):
        raise UsageError(
            f"expected one of {argument('reward')} (of the slate) and {argument('rewards')} (a "
            f"list, of each slot), got {'neither' if reward is None else 'both'}"
        )
    largest = _largest(reward_range)
    check_logger(logger)
    given = (propensities, marginals, slate_propensity)
    has_columns = any(name is not None for name in given)
    if (behavior is None) != has_columns:
        listed = ", ".join(map(argument, ("propensities", "marginals", "slate_propensity")))
        raise UsageError(
            f"expected the logger's probabilities as columns (one or more of {listed}) or as "
            f"{argument('behavior')}, got {'neither' if behavior is None else 'both'}"
        )
    if behavior is None:
        behavior = FromColumns(*given, independent=independent)
    else:
        check_kind("behavior", behavior, (Uniform, Factored), ", of piwo.slates")
    if unit is not None and weight is not None:
        raise UsageError(
            f"{argument('unit')} and {argument('weight')} exclude each other: of a thinned log it "
            "is unknown which rows of a unit were dropped; name one of them"
        )
    plain = SlateColumns(slate, reward, rewards, tuple(context), user_behavior, unit, weight)
    made = _source(source, plain, behavior, where)
    # globs leave out what was decided or earned
    decided = {*replace(plain, context=()).used(), *behavior.numbers}
    for name in decided.intersection(context):
        raise UsageError(f"column {name!r} has another role, and cannot be context; name others")
    free = [name for name in made.schema.names if name not in decided]
    columns = replace(plain, context=match_names(context, free, "context"))
    log = SlateLog(
        source=made,
        columns=columns,
        logger=behavior,
        largest=largest,
        alpha=_alpha(position_weights),
        declared_actions=None if actions is None else Actions(_labels(actions)),
        declared_slots=slots,
        learning=logger,
    )
    if slots is not None:
        check_count("slots", slots, 1, "the most slots of a slate")
    log.check_types()
    return log


@dataclass(frozen=True, repr=False)
class SlateLog:
    """Logged slates: what was shown, what it earned, and how likely it was. `slates.read` makes it.

    A description: each computation reads and validates the rows again, part by part, on all cores.

    >>> log = read({"slate": [["a"]], "r": [1], "p": [0.5]}, reward="r", slate_propensity="p")
    >>> log
    SlateLog('the data frame', slate='slate', reward='r')
    """

    source: Source
    columns: SlateColumns
    logger: SlatePolicy
    largest: float = 1.0
    """The largest reward of a slate or slot; the least is 0."""
    alpha: tuple[float, ...] | None = None
    """Position weights; None: 1 each."""
    declared_actions: Actions | None = None
    declared_slots: int | None = None
    learning: Logger | None = None
    selector: Selector | None = None
    """Which rows it has; None: all of the source."""
    grouped: dict[int, Source] = field(default_factory=dict, compare=False)
    """id of a source -> its rows by unit."""

    def __repr__(self) -> str:
        named = []
        for name in ("slate", "reward", "rewards", "user_behavior"):
            value = getattr(self.columns, name)
            if value is not None:
                named.append(f"{name}={value!r}")
        return f"SlateLog({self.name!r}, {', '.join(named)})"

    @property
    def name(self) -> str:
        """The name of the log in messages."""
        if self.selector is None:
            return self.source.name
        return f"this part of {self.source.name}"

    @cached_property
    def roles(self) -> Columns:
        """The columns by the roles that those of any log have."""
        columns = self.columns
        earned = columns.reward or columns.rewards
        assert earned is not None
        return Columns(
            action=columns.slate,
            reward=earned,
            propensity=None,
            context=columns.context,
            unit=columns.unit,
            weight=columns.weight,
        )

    @property
    def by_slot(self) -> bool:
        """Whether there is a reward of each slot."""
        return self.columns.rewards is not None

    @property
    def bounded(self) -> bool:
        """Whether rewards have an upper end."""
        return math.isfinite(self.largest)

    @cached_property
    def slots(self) -> int:
        """L, the most slots of a slate: declared, or found in a pass."""
        if self.declared_slots is not None:
            return self.declared_slots
        return self._shape.slots

    @cached_property
    def actions(self) -> Actions:
        """The action list: declared, or the sorted distinct labels."""
        if self.declared_actions is not None:
            return self.declared_actions
        return Actions(self._shape.labels, seen=True)

    @cached_property
    def position_weights(self) -> Floats:
        """(L,) alpha."""
        if self.alpha is None:
            return np.ones(self.slots)
        if len(self.alpha) < self.slots:
            raise UsageError(
                f"{argument('position_weights')} has {len(self.alpha)} entries, and slates have up "
                f"to {self.slots} slots; give one for each slot"
            )
        found = np.array(self.alpha[: self.slots])
        if not found.sum() > 0:
            raise UsageError(
                f"{argument('position_weights')} is {shown(self.alpha)}, and slates have up to "
                f"{self.slots} slots, whose weights are all 0; give one of them a weight above 0"
            )
        return found

    @cached_property
    def most(self) -> float:
        """The largest value of a slate over the largest reward: sum_l alpha_l, 1 for one reward."""
        if not self.by_slot:
            return 1.0
        return float(self.position_weights.sum())

    @property
    def scale(self) -> float:
        """The largest value of a slate; with unbounded rewards the sum of the position weights."""
        if self.bounded:
            return self.most * self.largest
        return self.most

    def __len__(self) -> int:
        unit = self.columns.unit
        names = [name for name in (self.columns.slate, unit) if name is not None]
        return fold(self.source, names, _CountRows(self.selector, unit))

    @property
    def source_by_unit(self) -> Source:
        """The source for passes that sum rows: units are whole, if the log declares them."""
        unit = self.columns.unit
        if unit is None:
            return self.source
        if id(self.source) not in self.grouped:
            self.grouped[id(self.source)] = by_unit(self.source, unit, kept=True)
        return self.grouped[id(self.source)]

    def reader(self, target: SlatePolicy | None = None, context: bool = False) -> SlateReader:
        """Return what reads the rows.

        Args:
            target: a policy whose columns are read, too.
            context: whether rows carry the context.
        """
        return SlateReader(
            columns=self.columns,
            actions=self.actions,
            slots=self.slots,
            largest=self.largest,
            logger=self.logger.aligned(self.actions),
            target=None if target is None else target.aligned(self.actions),
            selector=self.selector,
            context=context,
            by_unit=self.columns.unit is not None,
        )

    def position(self, position: int) -> Log:
        """Return the log of one position: its action, its reward, its marginal propensity.

        An ordinary `piwo.Log`, for `piwo.check`, `piwo.evaluate` and every learner. What it says
        about slates holds if the reward of a slot depends on its own action alone.

        Args:
            position: 1 for the first slot.

        Raises:
            UsageError: for a position that no slate has, and for a log without rewards of slots or
                marginal propensities.

        >>> log = read(
        ...     {"slate": [["a", "b"], ["b"]], "rs": [[1, 0], [1]], "ps": [[0.5, 0.5], [0.5]]},
        ...     rewards="rs",
        ...     propensities="ps",
        ...     independent=True,
        ... )
        >>> len(log.position(1)), len(log.position(2))
        (2, 1)
        """
        from piwo.slates.positions import position_log

        return position_log(self, position)

    def split(self, holdout: float = 0.5, seed: int = 0) -> Split[SlateLog]:
        """Return two parts: rows to learn from, and held-out rows to evaluate on.

        The held-out rows are the last ones if the logger learned (`logger="learning"`): what is
        learned from later rows would not be fixed before the earlier ones.

        Args:
            holdout: fraction of the rows to hold out.
            seed: of the split, which depends on row numbers alone, or on units.

        Raises:
            UsageError: for a part of a log, or rows in a cluster, which have no fixed numbers.
        """
        check_split(holdout, seed, 0, tail=False)
        if self.selector is not None or not self.source.steady:
            raise UsageError(
                f"{self.name} cannot be split: expected a whole log whose rows come in the same "
                "order at every pass"
            )
        held_out = HeldOut(holdout, seed)
        if self.learning == "learning" and self.columns.unit is not None:
            raise UsageError(
                f"{self.name} cannot be split: its logger learned, so that the last rows would be "
                f"held out, and units ({argument('unit')}) have rows in both parts"
            )
        if self.learning == "learning":
            rows = len(self)
            held_out = replace(held_out, cut=rows - math.floor(holdout * rows))
        train = replace(self, selector=replace(held_out, test=False))
        test = replace(self, selector=held_out)
        counts = len(train), len(test)
        if min(counts) == 0:
            raise DataError(
                f"the split has {counts[0]} rows to learn from and {counts[1]} held out; give more "
                f"rows or another {argument('holdout')}"
            )
        return Split(train, test, *counts)

    def check_types(self) -> None:
        """Raise unless the columns exist and hold lists where lists are expected."""
        schema = self.source.schema
        roles = {"slate": self.columns.slate, "reward": self.columns.reward}
        roles |= {"rewards": self.columns.rewards, "user behavior": self.columns.user_behavior}
        roles |= {"unit": self.columns.unit, "sampling weight": self.columns.weight}
        roles |= {f"probability {x}": x for x in self.logger.numbers}
        for role, name in roles.items():
            if name is not None:
                require_columns([name], schema.names, role)
        kind = schema.field(self.columns.slate).type
        check_list(kind, self.columns.slate, "labels")
        label_array(pa.nulls(0, kind.value_type), self.columns.slate)
        if self.columns.rewards is not None:
            check_list(schema.field(self.columns.rewards).type, self.columns.rewards, "numbers")
        if isinstance(self.logger, FromColumns):
            for name in (self.logger.above_column, self.logger.marginal_column):
                if name is not None:
                    check_list(schema.field(name).type, name, "probabilities")

    @cached_property
    def _shape(self) -> _Shape:
        found = fold(self.source, [self.columns.slate], _FindShape(self.columns.slate))
        if not found.labels:
            raise DataError(f"no shown actions in {self.source.name}, expected at least one slate")
        return found


@dataclass(frozen=True)
class _Shape(State):
    """The labels of a log, and the most slots of a slate."""

    labels: tuple[Any, ...] = ()
    slots: int = 0

    def merge(self, other: _Shape) -> _Shape:
        """Return those of both parts."""
        labels = tuple(sorted({*self.labels, *other.labels}))
        return _Shape(labels, max(self.slots, other.slots))


@dataclass(frozen=True)
class _FindShape(Task[_Shape]):
    """Task: the labels and the longest slate."""

    column: str

    def empty(self) -> _Shape:
        """Return no labels."""
        return _Shape()

    def of_fragment(self, fragment: Fragment) -> _Shape:
        """Return those of a fragment."""
        found = _Shape()
        for record in fragment.records():
            values = record[self.column]
            labels = label_array(pc.unique(values.flatten()), self.column)
            longest = pc.max(pc.list_value_length(values)).as_py() or 0
            listed = tuple(pc.drop_null(labels).to_pylist())
            found = found.merge(_Shape(listed, int(longest)))
        return found


@dataclass(frozen=True)
class _CountRows(Task[int]):
    """Task: the number of selected rows."""

    selector: Selector | None
    unit: str | None

    def empty(self) -> int:
        """Return 0."""
        return 0

    def of_fragment(self, fragment: Fragment) -> int:
        """Return the number of selected rows of a fragment."""
        count = 0
        for record, _, numbers in numbered(fragment.records(), fragment.start, self.unit):
            if self.selector is None:
                count += record.num_rows
            else:
                count += int(self.selector.keep(numbers).sum())
        return count

    def merge(self, one: int, other: int) -> int:
        """Return the sum."""
        return one + other


def _source(source: Any, columns: SlateColumns, logger: SlatePolicy, where: str | None) -> Source:
    """Return the rows; text files, which have no lists, are refused."""
    paths = paths_of(source)
    if paths is not None and kind_of(paths) != "parquet":
        raise UsageError(
            f"{paths[0]!r} is not Parquet, and lists are read from Parquet files, data frames and "
            "DuckDB queries; give a query, such as \"select * from read_json('log.jsonl')\""
        )
    # The roles that any log has serve to find the columns that a condition or a lazy frame needs.
    earned = columns.reward or columns.rewards
    assert earned is not None
    if where is not None:
        decided = [*columns.used(), *logger.numbers]
        for name in mentioned(condition(where), [x for x in decided if x not in columns.context]):
            raise UsageError(
                f"{argument('where')} mentions {name!r}, which depends on what was decided: no "
                "interval holds for rows that are chosen by it; name columns that are known before"
            )
    available: Sequence[str] = ()
    if is_lazy(source):
        # it is run once, so that a target's columns must be there
        available = column_names(source)
    others = [
        x
        for x in (*columns.used(), *logger.numbers, *available)
        if x not in {columns.slate, earned}
    ]
    roles = Columns(
        action=columns.slate, reward=earned, propensity=None, context=tuple(dict.fromkeys(others))
    )
    return source_of(source, roles, where, paths)


def _largest(reward_range: Any) -> float:
    check_reward_range(reward_range)
    low, high = map(float, reward_range)
    if low != 0.0:
        raise UsageError(
            f"{argument('reward_range')} is {reward_range!r}, expected (0, hi): the value of a "
            "slate is a sum over its slots, in which rewards below 0 have no bound; shift them "
            "yourself"
        )
    return high


def _labels(actions: Any) -> Any:
    if isinstance(actions, Actions):
        return actions.labels
    return actions


def _alpha(weights: Any) -> tuple[float, ...] | None:
    if weights is None:
        return None
    check_listed("position_weights", weights)
    if not all(is_number(x) and 0.0 <= x < math.inf for x in weights) or not sum(weights) > 0:
        raise UsageError(
            f"{argument('position_weights')} is {shown(weights)}, expected one number of at least "
            "0 for each slot, not all of them 0"
        )
    return tuple(map(float, weights))
