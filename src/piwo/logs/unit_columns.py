"""Columns that look like ids of persons or sessions: do rows repeat them, and do rewards agree?

Rows of one person depend on each other, and intervals that take them for independent rows are too
narrow. Units are declared to `piwo.read`; if they were not, `check` looks for such columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.engines.engine import fold
from piwo.engines.state import State
from piwo.engines.task import Task
from piwo.logs.batch import Floats
from piwo.logs.hashing import key_numbers
from piwo.logs.log import Log
from piwo.logs.person_columns import is_id, is_person, is_thing
from piwo.logs.reader import Reader
from piwo.logs.validation import rewards
from piwo.messages import Note, argument
from piwo.sources.source import Fragment, decoded, type_family

__all__ = [
    "FEWEST",
    "REPEATED",
    "SampleUnits",
    "UnitColumn",
    "UnitSamples",
    "UnitState",
    "candidates",
    "dependent_note",
    "dependent_rows",
    "repeated_persons",
    "unit_columns",
    "with_rows",
]

_MOST_COLUMNS = 3
"""Columns that are looked at."""
_SAMPLE = 1024
"""Units that are followed: those with the smallest numbers, a random sample."""
_CELLS = 8
"""Rows of a unit are counted by their action, or by one of 8 groups of actions."""
REPEATED = 1.05
"""Fewer rows a unit are rows of their own, but for accidents."""
FEWEST = 10
"""Fewer values are kinds, such as mobile and desktop, and not units."""
_FAR, _SPREAD = 4.0, 2.0
"""Standard errors above chance; the second number is of those that units themselves show."""


@dataclass(frozen=True)
class UnitColumn:
    """A column without a role that looks like an id, and whose values repeat."""

    column: str
    person: bool
    """Whether it is named as an id of a person or a session; else as some other id."""
    rows_each: float
    """Mean number of rows with one value."""
    z: float | None
    """How far rewards of rows with one value agree, in standard errors above those of independent
    rows; None if all rewards are equal."""
    dependent: bool
    """Whether the rewards agree by more than chance explains."""

    @property
    def repeats(self) -> str:
        """How often its values repeat, in words."""
        return (
            f"column {self.column!r} has about {self.rows_each:.3g} rows a value, which depend on "
            "each other"
        )


def candidates(log: Log) -> tuple[str, ...]:
    """Return the columns of a log that could be units, at most three; persons and sessions first.

    They hold text or whole numbers and are named like an id: see `is_person`, or any name that ends
    in id, uuid or guid and does not name what is chosen, shown or one row (item, campaign, event,
    request, ...). They have no role, but ids of persons may be context. None if units are declared.
    """
    columns = log.columns
    if columns.unit is not None:
        return ()
    taken = {*columns.scalars(), columns.propensities}
    persons: list[str] = []
    others: list[str] = []
    for column in log.source.schema:
        name = column.name
        if name in taken or type_family(column.type) not in ("text", "integer"):
            continue
        if is_person(name):
            persons.append(name)
        elif is_id(name) and not is_thing(name) and name not in columns.context:
            # Rows of one store are alike, and a store that is context may be why.
            others.append(name)
    return tuple([*persons, *others][:_MOST_COLUMNS])


def unit_columns(log: Log) -> tuple[UnitColumn, ...]:
    """Return the candidates whose values repeat; one pass, none if there is no candidate."""
    names = candidates(log)
    if not names:
        return ()
    columns = [log.columns.action, log.columns.reward, *names]
    if log.columns.action_cost is not None:
        columns.append(log.columns.action_cost)
    if log.selector is not None and log.columns.numbering is not None:
        columns.append(log.columns.numbering)
    reader = log.reader(context=False)
    states = fold(log.source, columns, SampleUnits(names, reader))
    found: list[UnitColumn] = []
    for name, state in zip(names, states, strict=True):
        each = state.rows_each
        if len(state.keys) >= FEWEST and each > REPEATED:
            z, dependent = state.dependence()
            found.append(UnitColumn(name, is_person(name), each, z, dependent))
    return tuple(found)


def repeated_persons(log: Log) -> UnitColumn | None:
    """Return a column that is named like the id of a user or a session and repeats; None: none.

    It takes a pass over such columns, and none if there is no such column or units are declared.

    >>> import piwo
    >>> rows = {"action": ["a", "b"] * 9, "reward": [1] * 18, "propensity": [0.5] * 18}
    >>> repeated_persons(piwo.Log.from_arrays(**rows)) is None
    True
    """
    return next((one for one in unit_columns(log) if one.person), None)


def dependent_rows(log: Log) -> Note | None:
    """Return why the rows of a log are not independent; None if nothing speaks against it.

    See `repeated_persons`.

    >>> import piwo
    >>> rows = {"action": ["a", "b"] * 9, "reward": [1] * 18, "propensity": [0.5] * 18}
    >>> dependent_rows(piwo.Log.from_arrays(**rows)) is None
    True
    """
    one = repeated_persons(log)
    if one is None:
        return None
    return dependent_note(one)


def dependent_note(one: UnitColumn) -> Note:
    """Return the note that rows with one value of a column depend on each other.

    >>> dependent_note(UnitColumn("user_id", True, 3.0, None, False)).kind
    'dependent-rows'
    """
    return Note(
        f"{one.repeats}: declare {argument('unit', one.column)}, or say "
        f"{argument('independent_rows', value=True)}",
        kind="dependent-rows",
    )


def _cells() -> Floats:
    return np.zeros((0, _CELLS))


@dataclass(frozen=True)
class UnitState(State):
    """The smallest unit numbers; rows, sums and sums of squares of the rewards of each, by action.

    >>> one = UnitState.of(np.array([7]), np.array([1]), np.array([0.5]))
    >>> one.merge(one).rows[:, :3].tolist()
    [[0.0, 2.0, 0.0]]
    """

    keys: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """(k,) ascending, at most 1024."""
    rows: Floats = field(default_factory=_cells)
    """(k, 8), by the action's code modulo 8; so are the others."""
    total: Floats = field(default_factory=_cells)
    squares: Floats = field(default_factory=_cells)

    @classmethod
    def of(
        cls, keys: npt.NDArray[np.int64], action: npt.NDArray[np.integer], reward: Floats
    ) -> UnitState:
        """Return the state of some rows.

        Args:
            keys: (n,) numbers of units.
            action: (n,) codes.
            reward: (n,) rewards.
        """
        kept = np.unique(keys)[:_SAMPLE]
        if not len(kept):
            return cls()
        near = np.flatnonzero(keys <= kept[-1])
        reward = reward[near]
        cell = np.searchsorted(kept, keys[near]) * _CELLS + action[near] % _CELLS
        sums: list[Floats] = []
        for values in (np.ones(len(near)), reward, reward * reward):
            found = np.bincount(cell, values, len(kept) * _CELLS)
            sums.append(found.astype(np.float64).reshape(-1, _CELLS))
        return cls(kept, *sums)

    def merge(self, other: UnitState) -> UnitState:
        """Return the units of both parts."""
        kept, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        sums: list[Floats] = []
        for mine, theirs in (
            (self.rows, other.rows),
            (self.total, other.total),
            (self.squares, other.squares),
        ):
            found = np.zeros((len(kept), _CELLS))
            np.add.at(found, place, np.concatenate([mine, theirs]))
            sums.append(found[:_SAMPLE])
        return UnitState(kept[:_SAMPLE], *sums)

    @property
    def rows_each(self) -> float:
        """Mean number of rows of a unit."""
        return float(self.rows.sum()) / max(1, len(self.keys))

    def dependence(self) -> tuple[float | None, bool]:
        """Return how far rewards of a unit agree, in standard errors, and whether that is evident.

        Two tests, of all pairs of rows of a unit, and of those with one action: users who like
        different actions may earn the same on average.

        Formula: let d = R - m, m and s2 the mean and the variance of the N rows, P the number of
        ordered pairs of rows of a unit, and T the sum of d d' over them. T compares the variance
        between units with that of independent rows, as

            T = sum_u t_u,  t_u = (sum_u d)^2 - sum_u d^2.

        For rows in random order E d d' = -s2 / N exactly, and two pairs are uncorrelated but for
        terms of order 1 / N, so z = (T + P s2 / N) / (s2 sqrt(2 P)) has mean 0 and variance 1. The
        second test takes m, s2, N, P and t_u of each action, and adds numerators and variances.
        Where rewards are rare or one unit has most of the pairs, T is skewed: z > 4 may then rest
        on one unit. So T must also exceed 2 standard errors of what units show, sqrt(sum t_u^2),
        which takes a dozen units. Independent rows of 42 simulated kinds had z > 4 in up to .024 of
        the samples, both in at most .0005; see tests/logs/test_unit_columns.py.
        """
        whole: list[Floats] = []
        for cells in (self.rows, self.total, self.squares):
            whole.append(cells.sum(axis=1, keepdims=True))
        found = [_agreement(*whole), _agreement(self.rows, self.total, self.squares)]
        known = [z for z, _ in found if z is not None]
        return max(known, default=None), any(evident for _, evident in found)


def _agreement(rows: Floats, total: Floats, squares: Floats) -> tuple[float | None, bool]:
    """Return z of the rows of a unit in one column, over all columns, and whether it is evident."""
    n, pairs = rows.sum(axis=0), (rows * (rows - 1.0)).sum(axis=0)
    mean = total.sum(axis=0) / np.maximum(n, 1.0)
    sums = squares.sum(axis=0) - n * mean * mean
    # Equal rewards, but for rounding.
    spread = (pairs > 0.0) & (sums > 1e-9 * squares.sum(axis=0)) & np.isfinite(sums)
    if not spread.any():
        return None, False
    # s2 = sum d^2 / (N - 1)
    variance = np.where(spread, sums, 0.0) / np.maximum(n - 1.0, 1.0)
    # t_u = (sum_u d)^2 - sum_u d^2
    parts = (total - rows * mean) ** 2 - (squares - 2.0 * mean * total + rows * mean * mean)
    parts = parts[:, spread].sum(axis=1)
    # T + P s2 / N
    excess = float(parts.sum() + (pairs * variance / np.maximum(n, 1.0)).sum())
    z = excess / math.sqrt(float((2.0 * pairs * variance * variance).sum()))
    shown = math.sqrt(float((parts * parts).sum()))
    return z, z > _FAR and excess > _SPREAD * shown


@dataclass(frozen=True)
class UnitSamples(Task[tuple[UnitState, ...]]):
    """Task: a random sample of the values of each of some columns; kinds say what of their rows."""

    names: tuple[str, ...]

    def empty(self) -> tuple[UnitState, ...]:
        """Return the samples of no rows."""
        return (UnitState(),) * len(self.names)

    def merge(
        self, one: tuple[UnitState, ...], other: tuple[UnitState, ...]
    ) -> tuple[UnitState, ...]:
        """Return the samples of both parts together."""
        return tuple([x.merge(y) for x, y in zip(one, other, strict=True)])


@dataclass(frozen=True)
class SampleUnits(UnitSamples):
    """Task: the rewards of a random sample of the values of each of some columns.

    Rows without a value are skipped.
    """

    reader: Reader

    def of_fragment(self, fragment: Fragment) -> tuple[UnitState, ...]:
        """Return the samples of a fragment."""
        found = list(self.empty())
        for record, rows in self.reader.records(fragment):
            schema = self.reader.schema
            assert schema.actions is not None
            action = schema.actions.codes(record[schema.columns.action], schema.columns.action)
            reward = rewards(record, schema, rows)
            for i, name in enumerate(self.names):
                found[i] = with_rows(found[i], record[name], name, action, reward)
        return tuple(found)


def with_rows(
    state: UnitState,
    values: pa.Array,
    name: str,
    action: npt.NDArray[np.int32],
    reward: Floats,
) -> UnitState:
    """Return a sample with some rows added.

    Args:
        state: the sample.
        values: (n,) of the column; rows without a value are skipped.
        name: of the column.
        action: (n,) codes.
        reward: (n,) rewards.
    """
    values = decoded(values)
    present = pc.is_valid(values)
    if type_family(values.type) == "text":
        # An empty text is no id either.
        present = pc.fill_null(pc.not_equal(values, pa.scalar("", values.type)), fill_value=False)
    kept = np.flatnonzero(present.to_numpy(zero_copy_only=False))
    keys = key_numbers(values.filter(present), name, "unit")
    # Most units of a large log have larger numbers than all that are kept.
    if len(state.keys) == _SAMPLE:
        near = np.flatnonzero(keys <= state.keys[-1])
        keys, kept = keys[near], kept[near]
    return state.merge(UnitState.of(keys, action[kept], reward[kept]))
