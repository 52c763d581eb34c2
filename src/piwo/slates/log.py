"""The slate log: rows of shown slates, and the meaning of their columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import check_listed, is_number, shown
from piwo.engines.engine import fold
from piwo.engines.state import State
from piwo.engines.task import Task
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, label_array
from piwo.logs.batch import Floats
from piwo.logs.column_names import require_columns
from piwo.logs.columns import Columns
from piwo.logs.eligible import LISTS, is_list, lists_by_slot
from piwo.logs.log import Log
from piwo.logs.options import Logger
from piwo.logs.reader import Selector
from piwo.logs.split import HeldOut, Split, check_split
from piwo.logs.units import by_unit
from piwo.messages import argument
from piwo.slates.policies import FromColumns
from piwo.slates.policy import SlatePolicy
from piwo.slates.validation import (
    SlateColumns,
    SlateReader,
    check_list,
    numbered,
)
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment, Source, type_family
from piwo.sources.spool import spooled
from piwo.visible import type_text

__all__ = ["SlateLog", "alpha_of"]


@dataclass(frozen=True, repr=False)
class SlateLog:
    """Logged slates: what was shown, what it earned, and how likely it was. `slates.read` makes it.

    A description: each computation reads and validates the rows again, part by part, on all cores.

    >>> import piwo
    >>> piwo.slates.read({"slate": [["a"]], "r": [1], "p": [0.5]}, reward="r", slate_propensity="p")
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
    origin: Source | None = None
    """The source of which its own is a copy in a fixed order; None: it is none."""
    samples: dict[Any, Any] = field(default_factory=dict, compare=False)
    """What is known of its rows; see `piwo.slates.provenance`."""

    def __repr__(self) -> str:
        named = []
        for name in ("slate", "reward", "rewards", "user_behavior", "eligible"):
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
        """The action list: declared, or the sorted distinct labels and what the logger can show."""
        if self.declared_actions is not None:
            return self.declared_actions
        found = Actions(self._shape.labels, seen=True)
        more = [x for x in self.logger.listed or () if x not in found]
        if not more:
            return found
        labels: list[Any] = [*found.labels, *more]
        if len(set(map(type, labels))) > 1:
            # labels are equal if their texts are
            labels = [str(x) for x in labels]
        return Actions(sorted(labels), seen=True)

    @cached_property
    def position_weights(self) -> Floats:
        """(L,) alpha."""
        if self.alpha is None:
            return np.ones(self.slots)
        given = len(self.alpha)
        if given != self.slots:
            declare = f", or declare {argument('slots', given)}" if given > self.slots else ""
            raise UsageError(
                f"{argument('position_weights')} has {given} entries, and slates have up to "
                f"{self.slots} slots; give one for each slot{declare}"
            )
        return np.array(self.alpha)

    @cached_property
    def most(self) -> float:
        """The largest value of a slate over the largest reward: sum_l alpha_l, 1 for one reward."""
        if not self.by_slot:
            return 1.0
        return float(self.position_weights.sum())

    @property
    def scale(self) -> float:
        """The largest value of a slate; with unbounded rewards the sum of the position weights."""
        if not self.bounded:
            return self.most
        found = self.most * self.largest
        if not math.isfinite(found):
            raise UsageError(
                f"a slate can be worth {self.most:g} times {self.largest:g}, more than a number of "
                f"64 bits can say; give rewards in a larger unit, and their "
                f"{argument('reward_range')}"
            )
        return found

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
                marginal propensities; for the first slot those given the actions above suffice.

        >>> import piwo
        >>> log = piwo.slates.read(
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

    def in_fixed_order(self) -> SlateLog:
        """Return the log; of a query, which may give another order at the next pass, a copy.

        Raises:
            UsageError: for rows in a cluster.
        """
        if isinstance(self.source, Cluster):
            raise UsageError(
                f"{self.name} cannot be split: rows in a cluster come in no fixed order; write "
                "them to Parquet files and read those"
            )
        if self.source.steady:
            return self
        copy = spooled(self.source, self.source.schema.names)
        return replace(self, source=copy, origin=self.source)

    def split(self, holdout: float = 0.5, seed: int = 0) -> Split[SlateLog]:
        """Return two parts: rows to learn from, and held-out rows to evaluate on.

        The rows of a query are copied, to memory or a temporary file, in the order of one pass. The
        held-out rows are the last ones if the logger learned (`logger="learning"`): what is
        learned from later rows would not be fixed before the earlier ones.

        Args:
            holdout: fraction of the rows to hold out.
            seed: of the split, which depends on row numbers alone, or on units.

        Raises:
            UsageError: for a part of a log, or rows in a cluster, which have no fixed numbers.
        """
        check_split(holdout, seed, 0, tail=False)
        if self.selector is not None:
            raise UsageError(f"{self.name} cannot be split: expected a whole log, not a part")
        held_out = HeldOut(holdout, seed)
        if self.learning == "learning" and self.columns.unit is not None:
            raise UsageError(
                f"{self.name} cannot be split: its logger learned, so that the last rows would be "
                f"held out, and units ({argument('unit')}) have rows in both parts"
            )
        whole = self.in_fixed_order()
        if self.learning == "learning":
            rows = len(whole)
            held_out = replace(held_out, cut=rows - math.floor(holdout * rows))
        train = replace(whole, selector=replace(held_out, test=False))
        test = replace(whole, selector=held_out)
        counts = len(train), len(test)
        if min(counts) == 0:
            raise DataError(
                f"the split has {counts[0]:,} rows to learn from and {counts[1]:,} held out; give "
                f"more rows or another {argument('holdout')}"
            )
        return Split(train, test, *counts)

    def check_types(self) -> None:
        """Raise unless the columns exist and hold lists where lists are expected."""
        schema = self.source.schema
        roles = {"slate": self.columns.slate, "reward": self.columns.reward}
        roles |= {"rewards": self.columns.rewards, "user behavior": self.columns.user_behavior}
        roles |= {"unit": self.columns.unit, "sampling weight": self.columns.weight}
        roles |= {"eligible actions": self.columns.eligible}
        roles |= {f"probability {x}": x for x in self.logger.numbers}
        for role, name in roles.items():
            if name is not None:
                require_columns([name], schema.names, role)
        kind = schema.field(self.columns.slate).type
        check_list(kind, self.columns.slate, "labels")
        label_array(pa.nulls(0, kind.value_type), self.columns.slate)
        if self.columns.eligible is not None:
            self._check_eligible(self.columns.eligible, kind.value_type)
        if self.columns.rewards is not None:
            check_list(schema.field(self.columns.rewards).type, self.columns.rewards, "numbers")
        if isinstance(self.logger, FromColumns):
            for name in (self.logger.above_column, self.logger.marginal_column):
                if name is not None:
                    check_list(schema.field(name).type, name, "probabilities")

    def _check_eligible(self, name: str, shown: pa.DataType) -> None:
        """Raise unless a column has lists of labels of the type of those that are shown."""
        kind = self.source.schema.field(name).type
        if not is_list(kind):
            raise DataError(f"column {name!r} has {type_text(kind)}, expected {LISTS}")
        if lists_by_slot(kind):
            kind = kind.value_type
        label_array(pa.nulls(0, kind.value_type), name)
        if type_family(kind.value_type) != type_family(shown):
            raise DataError(
                f"column {name!r} has lists of {type_text(kind.value_type)}, and "
                f"{self.columns.slate!r} lists of {type_text(shown)}; give labels of one type"
            )

    @cached_property
    def _shape(self) -> _Shape:
        task = _FindShape(self.columns.slate, self.columns.eligible)
        found = fold(self.source, task.names, task)
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
    """Task: the labels, also of eligible actions, and the longest slate."""

    column: str
    eligible: str | None

    @property
    def names(self) -> list[str]:
        """The columns that it reads."""
        return [name for name in (self.column, self.eligible) if name is not None]

    def empty(self) -> _Shape:
        """Return no labels."""
        return _Shape()

    def of_fragment(self, fragment: Fragment) -> _Shape:
        """Return those of a fragment."""
        found = _Shape()
        for record in fragment.records():
            longest = pc.max(pc.list_value_length(record[self.column])).as_py() or 0
            for name in self.names:
                listed = record[name].flatten()
                if is_list(listed.type):
                    # of each slot
                    listed = listed.flatten()
                labels = label_array(pc.unique(listed), name)
                known = tuple(pc.drop_null(labels).to_pylist())
                found = found.merge(_Shape(known, int(longest)))
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


def alpha_of(weights: Any) -> tuple[float, ...] | None:
    """Return position weights as a tuple; None if there are none.

    Args:
        weights: one number a slot.

    Raises:
        UsageError: for anything else.

    >>> alpha_of([1, 0.5])
    (1.0, 0.5)
    """
    if weights is None:
        return None
    check_listed("position_weights", weights)
    usable = all(is_number(x) and 0.0 <= x < math.inf for x in weights)
    if not (usable and 0.0 < sum(map(float, weights)) < math.inf):
        raise UsageError(
            f"{argument('position_weights')} is {shown(weights)}, expected one number of at least "
            "0 for each slot, not all of them 0, with a finite sum"
        )
    return tuple(map(float, weights))
