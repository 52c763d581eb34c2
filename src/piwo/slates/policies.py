"""Policies that show slates: what the probability of the shown slate is, under each of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_listed, is_number, shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.messages import argument
from piwo.policies.state import State
from piwo.slates.acting import (
    Decided,
    draw_eligible,
    draw_ranking,
    draw_slots,
    rank_by_slot,
    rank_eligible,
)
from piwo.slates.policy import (
    Probability,
    SlatePolicy,
    UnknownMarginalsError,
    marginals_of,
)
from piwo.slates.restricting import (
    eligible_items,
    eligible_mass,
    first_by_slot,
    first_eligible,
    left_by_slot,
    require_slots,
)
from piwo.slates.rows import Codes, SlateRows

__all__ = [
    "Deterministic",
    "Factored",
    "FromColumns",
    "OneSlate",
    "Uniform",
]


@dataclass(frozen=True)
class FromColumns(SlatePolicy):
    """A policy whose probabilities of the shown slate are columns of the log.

    Args:
        above: list column: the probability of each shown action given the actions above it.
        marginal: list column: the probability of each shown action in its slot, whatever is above.
        slate: the probability of the whole slate.
        independent: whether slots are drawn independently given the context; then `above` and
            `marginal` are the same, and one of them suffices.

    >>> FromColumns("pi", independent=True).states("marginal")
    True
    """

    kind: ClassVar[str] = "columns"

    above_column: str | None = None
    marginal_column: str | None = None
    slate_column: str | None = None
    independent: bool = False

    def __init__(
        self,
        above: str | None = None,
        marginal: str | None = None,
        slate: str | None = None,
        independent: bool = False,
    ) -> None:
        for name, value in {"above": above, "marginal": marginal, "slate": slate}.items():
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{argument(name)}={value!r} is not a column name, expected text")
        if above is None and marginal is None and slate is None:
            columns = ", ".join(map(argument, ("above", "marginal", "slate")))
            raise UsageError(f"got no column of probabilities, expected at least one of {columns}")
        if independent:
            above, marginal = above or marginal, marginal or above
        object.__setattr__(self, "above_column", above)
        object.__setattr__(self, "marginal_column", marginal)
        object.__setattr__(self, "slate_column", slate)
        object.__setattr__(self, "independent", independent)

    def states(self, what: Probability) -> bool:
        """Whether there is a column of such probabilities, or one that they follow from."""
        if what == "above":
            return self.above_column is not None
        if what == "marginal":
            return self.marginal_column is not None
        return self.slate_column is not None or self.above_column is not None

    def state(self) -> State:
        """Return the names of the columns."""
        named = {
            "above": self.above_column,
            "marginal": self.marginal_column,
            "slate": self.slate_column,
            "independent": self.independent,
        }
        return State(parameters=named)

    @classmethod
    def from_state(cls, state: State) -> FromColumns:
        """Return the policy of a state."""
        known = state.parameters
        return cls(known["above"], known["marginal"], known["slate"], known["independent"])

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns."""
        named = (self.above_column, self.marginal_column, self.slate_column)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def above(self, rows: SlateRows) -> Floats:
        """Return the column, (n, L)."""
        return _column(rows, self.above_column)

    def marginal(self, rows: SlateRows) -> Floats:
        """Return the column, (n, L)."""
        return _column(rows, self.marginal_column)

    def slate(self, rows: SlateRows) -> Floats:
        """Return the column, or the product of the probabilities by slot, (n,)."""
        if self.slate_column is not None:
            return _column(rows, self.slate_column)
        return super().slate(rows)


def _column(rows: SlateRows, name: str | None) -> Floats:
    assert name is not None
    assert rows.numbers is not None
    return rows.numbers[name]


@dataclass(frozen=True, eq=False)
class Factored(SlatePolicy):
    """Slots drawn independently, each from its own distribution; an item may be shown twice.

    If rows have eligible actions, each distribution is restricted to them and renormalized:
    p(a) / sum_b p(b), b eligible.

    Args:
        slots: for each position, label -> probability.

    Raises:
        UsageError: for probabilities that are negative or do not sum to 1.

    >>> Factored([{"a": 0.5, "b": 0.5}, {"b": 1.0}]).independent
    True
    """

    kind: ClassVar[str] = "factored"

    slots: Sequence[Mapping[Label, float]]
    independent: bool = True
    _table: Floats | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_listed("slots", self.slots)
        for position, one in enumerate(self.slots, 1):
            given: Any = one
            numeric = isinstance(given, Mapping) and all(map(is_number, given.values()))
            if not numeric or any(p < 0 for p in given.values()):
                raise UsageError(
                    f"position {position} is {shown(one)}, expected label -> probability, none "
                    "of them negative"
                )
            total = sum(one.values())
            if abs(total - 1.0) > 1e-6:
                raise UsageError(
                    f"the probabilities of position {position} sum to {total:.9g}, expected 1"
                )
        if not self.slots:
            raise UsageError(f"{argument('slots')} is empty; give a distribution for each position")

    @property
    def listed(self) -> Actions:
        """The labels of all slots."""
        named = [label for one in self.slots for label in one]
        return Actions(list(dict.fromkeys(named)))

    @property
    def most_slots(self) -> int:
        """The number of distributions."""
        return len(self.slots)

    @property
    def fills(self) -> int:
        """The number of distributions."""
        return self.most_slots

    def state(self) -> State:
        """Return the labels, and the table of positions and labels."""
        return State(actions=self.listed, arrays={"table": self._over(self.listed)})

    @classmethod
    def from_state(cls, state: State) -> Factored:
        """Return the policy of a state."""
        actions = state.known()
        table = state.array("table", -1, len(actions))
        return cls([dict(zip(actions.labels, one, strict=True)) for one in table.tolist()])

    def decide(self, matrix: Floats, slots: int, rng: np.random.Generator) -> Decided:
        """Return slates whose slots are drawn independently."""
        table = self._over(self.listed)
        codes = draw_slots(table[:slots], len(matrix), rng)
        found = table[np.arange(slots), codes]
        return Decided(codes, found, found)

    def can_fill(self, eligible: Eligible) -> npt.NDArray[np.int64]:
        """Return the number of distributions, (n,): an item may be shown twice."""
        return np.full(len(eligible), self.most_slots)

    def decide_among(self, matrix: Floats, rows: SlateRows, rng: np.random.Generator) -> Decided:  # noqa: ARG002
        """Return slates whose slots are drawn independently among the eligible actions."""
        codes = draw_eligible(self._checked(rows), rows, rng)
        found = self.marginal(replace(rows, action=codes))
        return Decided(codes, found, found)

    def unknown(self, actions: Actions) -> tuple[Label, ...]:
        """Return the labels with a probability above 0 that an action list lacks."""
        named = [label for one in self.slots for label, p in one.items() if p > 0]
        return tuple(x for x in dict.fromkeys(named) if x not in actions)

    def aligned(self, actions: Actions) -> Factored:
        """Return the policy with its table of positions and actions."""
        return Factored(self.slots, _table=self._over(actions))

    def _over(self, actions: Actions) -> Floats:
        """Return the probability of each position and action, (L, K)."""
        table = np.zeros((len(self.slots), len(actions)))
        for position, one in enumerate(self.slots):
            for label, p in one.items():
                if label in actions:
                    table[position, actions.index(label)] = p
        return table

    def above(self, rows: SlateRows) -> Floats:
        """Return the probabilities of the shown actions, (n, L)."""
        return self.marginal(rows)

    def marginal(self, rows: SlateRows) -> Floats:
        """Return the probabilities of the shown actions, (n, L)."""
        table = self._checked(rows)
        found = table[np.arange(rows.slots), rows.action]
        if rows.eligible is not None:
            found = found / eligible_mass(table, rows)  # not a propensity: restricts the policy
        return np.where(rows.mask, found, 1.0)

    def across(self, rows: SlateRows) -> Floats:
        """Return the probability of shown action l in slot j, (n, L, L)."""
        return _within(rows, self._checked(rows).T[rows.action])

    def _checked(self, rows: SlateRows) -> Floats:
        assert self._table is not None
        require_slots(len(self.slots), rows, "distributions")
        return self._table[np.minimum(np.arange(rows.slots), len(self.slots) - 1)]


@dataclass(frozen=True, eq=False)
class Uniform(SlatePolicy):
    """Uniform without repeats: every ordered choice of L of the m items is as likely.

    If rows have eligible actions, of the m items that are eligible in the row.

    Args:
        items: labels of the m items.

    >>> Uniform(["a", "b", "c"]).ranks
    3
    """

    kind: ClassVar[str] = "uniform"

    items: Actions
    _places: Codes | None = field(default=None, repr=False)

    def __init__(self, items: Sequence[Label] | Actions, _places: Codes | None = None) -> None:
        if not isinstance(items, Actions):
            items = Actions(items)
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "_places", _places)

    @property
    def ranks(self) -> int:
        """The number m of items."""
        return len(self.items)

    @property
    def listed(self) -> Actions:
        """The items."""
        return self.items

    @property
    def most_slots(self) -> int:
        """The number m of items."""
        return len(self.items)

    def state(self) -> State:
        """Return the items."""
        return State(actions=self.items)

    @classmethod
    def from_state(cls, state: State) -> Uniform:
        """Return the policy of a state."""
        return cls(state.known())

    def decide(self, matrix: Floats, slots: int, rng: np.random.Generator) -> Decided:
        """Return uniform rankings."""
        m = len(self.items)
        codes = draw_ranking(len(matrix), slots, m, rng)
        above = np.broadcast_to(1.0 / (m - np.arange(slots)), codes.shape)
        return Decided(codes, above, np.full(codes.shape, 1.0 / m))

    def decide_among(self, matrix: Floats, rows: SlateRows, rng: np.random.Generator) -> Decided:  # noqa: ARG002
        """Return uniform rankings of the eligible items."""
        drawn = replace(rows, action=self.draw_among(rows, rng))
        return Decided(drawn.action, self.above(drawn), marginals_of(self, drawn))

    def draw_among(self, rows: SlateRows, rng: np.random.Generator) -> Codes:
        """Return uniform rankings of the eligible items, (n, L); -1 beyond the end.

        Args:
            rows: with the number of slots and the eligible actions of each; what they show counts
                for nothing.
            rng: advances.

        Raises:
            RowError: for a row in which slots above may leave a slot without an item.
        """
        if not rows.by_slot:
            return rank_eligible(rows, rng)
        assert self._places is not None
        left_by_slot(self._places >= 0, rows)  # raises
        return rank_by_slot(rows, rng)

    def unknown(self, actions: Actions) -> tuple[Label, ...]:
        """Return the items that an action list lacks."""
        return tuple(x for x in self.items if x not in actions)

    def aligned(self, actions: Actions) -> Uniform:
        """Return the policy over an action list."""
        return Uniform(self.items, actions.positions_in(self.items))

    def above(self, rows: SlateRows) -> Floats:
        """Return 1/(m - l) for slot l = 0, 1, ..., and 0 for repeats and other items, (n, L).

        By slot, m - l is the number of the slot's items that are not shown above it.
        """
        if rows.by_slot:
            assert self._places is not None
            left = np.maximum(1.0, left_by_slot(self._places >= 0, rows).left)
        else:
            left = np.maximum(1.0, self._count(rows)[:, None] - np.arange(rows.slots))
        found = self._shows(rows) / left
        same = rows.action[:, :, None] == rows.action[:, None, :]
        # whether the same item is higher up
        repeated = np.tril(same, -1).any(axis=2)
        return np.where(rows.mask, np.where(repeated, 0.0, found), 1.0)

    def marginal(self, rows: SlateRows) -> Floats:
        """Return 1/m, and 0 for other items, (n, L); by slot, m is that of the slot.

        Slots with the same list are a ranking of its items, in which each is as likely in each of
        these slots; slots without a common item do not depend on each other.

        Raises:
            UnknownMarginalsError: for lists of slots that differ and have items in common.
        """
        if rows.by_slot:
            assert self._places is not None
            found = left_by_slot(self._places >= 0, rows)
            if not found.apart:
                raise UnknownMarginalsError(
                    "an item could be shown in several slots, whose lists differ, and then the "
                    "probability of an item in its slot, whatever is above, has no simple form; "
                    "use the estimator standard or cascade, or slates.Factored"
                )
            return np.where(rows.mask, self._shows(rows) / found.sizes, 1.0)
        return np.where(rows.mask, self._shows(rows) / self._count(rows)[:, None], 1.0)

    def across(self, rows: SlateRows) -> Floats:
        """Return 1/m for every shown item and slot, (n, L, L)."""
        one = (self._shows(rows) / self._count(rows)[:, None])[:, :, None]
        return _within(rows, np.repeat(one, rows.slots, axis=2))

    def _count(self, rows: SlateRows) -> npt.NDArray[np.int64]:
        """Return m of each row, (n,)."""
        assert self._places is not None
        m = eligible_items(self._places >= 0, rows)
        require_slots(m, rows, "items" if rows.eligible is None else "eligible items")
        return m

    def _shows(self, rows: SlateRows) -> Floats:
        """Return 1 for items among the m, and 0 for others, (n, L)."""
        assert self._places is not None
        return np.asarray(self._places[rows.action] >= 0, np.float64)


class OneSlate(SlatePolicy):
    """Base of the policies that show one slate in each context."""

    @abstractmethod
    def shown(self, matrix: Floats, slots: int) -> Codes:
        """Return the slates of n contexts, (n, L) codes of `listed`."""

    def decide(self, matrix: Floats, slots: int, rng: np.random.Generator) -> Decided:  # noqa: ARG002
        """Return the policy's slates; nothing is drawn."""
        codes = self.shown(matrix, slots)
        return Decided(codes, np.ones(codes.shape), np.ones(codes.shape))

    def decide_among(self, matrix: Floats, rows: SlateRows, rng: np.random.Generator) -> Decided:  # noqa: ARG002
        """Return the policy's slates of eligible actions; nothing is drawn."""
        codes = self.among(matrix, rows)
        return Decided(codes, np.ones(codes.shape), np.ones(codes.shape))

    @abstractmethod
    def among(self, matrix: Floats, rows: SlateRows) -> Codes:
        """Return the slate that it shows, (n, L) codes; -1 beyond the end and for others.

        Args:
            matrix: (n, d) the context, encoded.
            rows: n, with eligible actions or not.
        """

    @abstractmethod
    def codes(self, rows: SlateRows) -> Codes:
        """Return the slate that it shows, (n, L) codes; -1 beyond the end and for others."""

    def above(self, rows: SlateRows) -> Floats:
        """Return 1 where the shown action is the policy's, otherwise 0, (n, L)."""
        return self.marginal(rows)

    def marginal(self, rows: SlateRows) -> Floats:
        """Return 1 where the shown action is the policy's, otherwise 0, (n, L)."""
        same = rows.action == self.codes(rows)
        return np.where(rows.mask, same, 1.0)

    def across(self, rows: SlateRows) -> Floats:
        """Return whether shown action l is the policy's in slot j, (n, L, L)."""
        same = rows.action[:, :, None] == self.codes(rows)[:, None, :]
        return _within(rows, same.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Deterministic(OneSlate):
    """One slate: the same in every row, or that of a list column.

    If rows have eligible actions, the list is an order of preference: a row of L slots shows the
    first L labels that are eligible there.

    Args:
        slate: a list of labels, whose beginning is shown in rows with fewer slots; or the name of
            a list column with as many labels as the shown slate.

    >>> Deterministic(["b", "a"]).slate_columns, Deterministic("best").slate_columns
    ((), ('best',))
    """

    kind: ClassVar[str] = "fixed"

    fixed: Sequence[Label] | str
    _codes: Codes | None = field(default=None, repr=False)

    def __init__(self, slate: Sequence[Label] | str, _codes: Codes | None = None) -> None:
        if not isinstance(slate, str):
            check_listed("slate", slate)
            if not len(slate):
                raise UsageError(f"{argument('slate')} is empty; give at least one label")
        object.__setattr__(self, "fixed", slate)
        object.__setattr__(self, "_codes", _codes)

    @property
    def listed(self) -> Actions | None:
        """Its labels; None if they are in a column."""
        if isinstance(self.fixed, str):
            return None
        return Actions(list(dict.fromkeys(self.fixed)))

    @property
    def most_slots(self) -> int | None:
        """The number of labels."""
        if isinstance(self.fixed, str):
            return None
        return len(self.fixed)

    @property
    def orders(self) -> bool:
        """Whether it has labels."""
        return not isinstance(self.fixed, str)

    @property
    def fills(self) -> int | None:
        """The number of labels."""
        return self.most_slots

    def state(self) -> State:
        """Return the labels and their order, or the name of the column."""
        if isinstance(self.fixed, str):
            return State(parameters={"column": self.fixed})
        listed = self.listed
        assert listed is not None
        order = [listed.index(x) for x in self.fixed]
        return State(actions=listed, parameters={"order": order})

    @classmethod
    def from_state(cls, state: State) -> Deterministic:
        """Return the policy of a state."""
        if "column" in state.parameters:
            return cls(str(state.parameters["column"]))
        labels, order = state.known().labels, state.parameters["order"]
        if not all(type(x) is int and 0 <= x < len(labels) for x in order):
            raise ValueError(f"its order {order!r:.80} is not of {len(labels)} labels")
        return cls([labels[x] for x in order])

    def shown(self, matrix: Floats, slots: int) -> Codes:
        """Return the beginning of the slate for each context."""
        listed = self.listed
        assert listed is not None
        order = [listed.index(x) for x in self.fixed[:slots]]
        return np.tile(np.array(order, np.int32), (len(matrix), 1))

    @property
    def slate_columns(self) -> tuple[str, ...]:
        """The column, if it is one."""
        if isinstance(self.fixed, str):
            return (self.fixed,)
        return ()

    def unknown(self, actions: Actions) -> tuple[Label, ...]:
        """Return the labels that an action list lacks."""
        if isinstance(self.fixed, str):
            return ()
        return tuple(x for x in dict.fromkeys(self.fixed) if x not in actions)

    def aligned(self, actions: Actions) -> Deterministic:
        """Return the policy over an action list."""
        if isinstance(self.fixed, str):
            return self
        places = [actions.index(x) if x in actions else -1 for x in self.fixed]
        return Deterministic(self.fixed, np.array(places, np.int32))

    def among(self, matrix: Floats, rows: SlateRows) -> Codes:  # noqa: ARG002 (the same everywhere)
        """Return the slates, (n, L)."""
        return self.codes(rows)

    def codes(self, rows: SlateRows) -> Codes:
        """Return the slates, (n, L)."""
        if isinstance(self.fixed, str):
            assert rows.slates is not None
            return rows.slates[self.fixed]
        assert self._codes is not None
        if rows.by_slot:
            return first_by_slot(self._codes, rows)
        if rows.eligible is not None:
            return first_eligible(self._codes, rows)
        require_slots(len(self._codes), rows, "labels")
        padded = np.full(rows.slots, -1, np.int32)
        count = min(rows.slots, len(self._codes))
        padded[:count] = self._codes[:count]
        return np.where(rows.mask, padded, np.int32(-1))


def _within(rows: SlateRows, table: Floats) -> Floats:
    """Return an (n, L, L) table with 0 beyond the ends of slates."""
    both = rows.mask[:, :, None] & rows.mask[:, None, :]
    return np.where(both, table, 0.0)
