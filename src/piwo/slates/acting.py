"""Acting with slate policies: what is shown, and with which probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.foreign import RowError
from piwo.messages import argument
from piwo.policies.restricted import draw_pairs, eligible_lists
from piwo.policies.sampling import draw_rows
from piwo.slates.restricting import eligible_mass
from piwo.slates.rows import Codes, SlateRows

__all__ = [
    "Decided",
    "SlateDecisions",
    "draw_eligible",
    "draw_ranking",
    "draw_slots",
    "rank_by_slot",
    "rank_eligible",
    "rows_to_fill",
    "slots_to_fill",
]


@dataclass(frozen=True)
class SlateDecisions:
    """The slates that a policy shows, and their probabilities. Log all, to learn from later.

    >>> SlateDecisions([["a", "b"]], [[0.5, 1.0]], [[0.5, 0.5]]).slates
    [['a', 'b']]
    """

    slates: list[list[Any]]
    """The labels of each slate, the first slot first."""
    propensities: list[list[float]]
    """The probability of each shown action given the context and the actions above it."""
    marginals: list[list[float]] | None
    """The probability of each shown action in its slot given the context, whatever is above; None
    if it has no simple form: uniform rankings of lists of slots that differ and share labels."""

    def __len__(self) -> int:
        return len(self.slates)


@dataclass(frozen=True)
class Decided:
    """What a policy shows in n contexts, as codes of its own actions."""

    codes: Codes
    """(n, L)."""
    above: Floats
    """(n, L)."""
    marginal: Floats | None
    """(n, L); None: not known."""

    def labeled(self, actions: Actions, lengths: npt.NDArray[np.int64]) -> SlateDecisions:
        """Return the decisions with labels.

        Args:
            actions: whose codes they are.
            lengths: (n,) how many slots each slate has.

        >>> one = np.ones((1, 2))
        >>> Decided(np.array([[1, 0]], np.int32), one, one).labeled(
        ...     Actions(["a", "b"]), np.array([1])
        ... )
        SlateDecisions(slates=[['b']], propensities=[[1.0]], marginals=[[1.0]])
        """
        sizes = lengths.tolist()
        slates = [actions.take(x[:k]).tolist() for x, k in zip(self.codes, sizes, strict=True)]
        above = [x[:k] for x, k in zip(self.above.tolist(), sizes, strict=True)]
        marginal = None
        if self.marginal is not None:
            marginal = [x[:k] for x, k in zip(self.marginal.tolist(), sizes, strict=True)]
        return SlateDecisions(slates, above, marginal)


def rows_to_fill(eligible: Eligible, most: npt.NDArray[np.int64], slots: int | None) -> SlateRows:
    """Return rows whose slots are to be filled, which show nothing yet.

    Args:
        eligible: the actions that may be shown in each of n rows.
        most: (n,) how many slots the policy can fill.
        slots: how many to fill; None: as many as it can.

    Raises:
        RowError: for rows with fewer.

    >>> some = Eligible(np.array([0, 2]), np.array([2, 0], np.int32))
    >>> rows_to_fill(some, np.array([2]), None).lengths.tolist()
    [2]
    """
    wanted = slots or 1
    lost = np.flatnonzero(most < wanted)
    if len(lost):
        advice = "give it one of its own"
        if slots is not None:
            advice = f"leave out {argument('slots')} to fill as many as can be"
        raise RowError(
            f"the policy has {int(most[lost[0]])} eligible actions for {wanted} slots; {advice}",
            lost.tolist(),
        )
    lengths = most if slots is None else np.full(len(most), slots)
    nothing = np.full((len(most), int(lengths.max(initial=1))), np.int32(-1))
    reward = np.zeros(nothing.shape)
    return SlateRows(np.arange(len(most)), lengths, nothing, reward, eligible=eligible)


def slots_to_fill(
    lists: pa.Array, actions: Actions, n: int, most: int, slots: int | None
) -> SlateRows:
    """Return rows with a list of eligible actions for each slot, which show nothing yet.

    Args:
        lists: for each of n rows a list for each slot.
        actions: of the policy; labels that it does not have are left out.
        n: the number of rows.
        most: how many slots the policy can fill.
        slots: how many to fill; None: as many as there are lists, and the policy can.

    Raises:
        UsageError: for another number of rows.
        RowError: for rows without enough lists, and for lists without an action of the policy.

    >>> rows = slots_to_fill(pa.array([[["a", "c"], ["b"]]]), Actions(["a", "b"]), 1, 3, None)
    >>> rows.lengths.tolist(), rows.could(1).codes.tolist()
    ([2], [1])
    """
    if len(lists) != n:
        raise UsageError(
            f"{argument('eligible')} has the lists of {len(lists):,} rows, expected {n:,}"
        )
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    lost = np.flatnonzero(counts < (slots or 1))
    if len(lost):
        raise RowError(
            f"{argument('eligible')} has {int(counts[lost[0]])} lists for {slots or 1} slots; give "
            "one for each slot",
            lost.tolist(),
        )
    lengths = np.minimum(counts, most if slots is None else slots).astype(np.int64)
    width = int(lengths.max(initial=1))
    row = np.repeat(np.arange(n), counts)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = slot < lengths[row]
    row, slot = row[kept], slot[kept]
    try:
        found = eligible_lists(lists.flatten().filter(pa.array(kept)), actions, len(row))
    except RowError as wrong:
        first = wrong.rows[0]
        problem = f"{wrong.problem} (slot {int(slot[first]) + 1})"
        raise RowError(problem, int(row[first])) from None
    # lists of slots that a slate lacks are empty
    sizes = np.zeros(n * width, np.int64)
    sizes[row * width + slot] = found.sizes
    eligible = Eligible(np.append(0, np.cumsum(sizes)), found.codes)
    nothing = np.full((n, width), np.int32(-1))
    reward = np.zeros(nothing.shape)
    return SlateRows(np.arange(n), lengths, nothing, reward, eligible=eligible, by_slot=True)


def rank_by_slot(rows: SlateRows, rng: np.random.Generator) -> Codes:
    """Return slates whose slots show, from the first on, one of their items not shown above.

    Each of these is as likely. (n, L); -1 beyond the end.

    Args:
        rows: with eligible actions by slot, of which those above leave at least one.
        rng: advances.
    """
    found = np.full((len(rows), rows.slots), np.int32(-1))
    for slot in range(rows.slots):
        could = rows.could(slot)
        free = ~(found[could.rows, :slot] == could.codes[:, None]).any(axis=1)
        row, code = could.rows[free], could.codes[free]
        # the free pairs of each row in random order, of which the first is shown
        order = np.lexsort((rng.random(len(row)), row))
        some, first = np.unique(row[order], return_index=True)
        found[some, slot] = code[order[first]]
    return found


def rank_eligible(rows: SlateRows, rng: np.random.Generator) -> Codes:
    """Return uniform ordered choices of the eligible actions, (n, L); -1 beyond the end.

    Args:
        rows: with eligible actions, at least as many as slots.
        rng: advances.
    """
    some = rows.eligible
    assert some is not None
    # the pairs of each row in random order, and their ranks in it
    order = np.lexsort((rng.random(len(some.codes)), some.rows))
    rank = np.arange(len(order)) - some.starts[some.rows]
    kept = rank < rows.lengths[some.rows]
    found = np.full((len(rows), rows.slots), np.int32(-1))
    found[some.rows[kept], rank[kept]] = some.codes[order[kept]]
    return found


def draw_eligible(table: Floats, rows: SlateRows, rng: np.random.Generator) -> Codes:
    """Return slates of slots drawn independently among the eligible actions, (n, L).

    Args:
        table: (L, K) the distribution of each slot.
        rows: with eligible actions.
        rng: advances.

    Raises:
        RowError: for a row in which a slot has nothing left.
    """
    mass = eligible_mass(table, rows)
    found = np.full((len(rows), rows.slots), np.int32(-1))
    for slot in range(rows.slots):
        # by slot, lists are empty beyond the end of a slate
        kept = rows.mask[:, slot] if rows.by_slot else np.ones(len(rows), np.bool_)
        some = rows.could(slot).take(kept)
        left = mass[kept, slot]
        chances = table[slot][some.codes] / left[some.rows]  # not a propensity: restricts
        found[kept, slot] = some.codes[draw_pairs(chances, some, rng)]
    return found


def draw_ranking(n: int, slots: int, items: int, rng: np.random.Generator) -> Codes:
    """Return n uniform ordered choices of L of m items, (n, L).

    >>> sorted(draw_ranking(1, 3, 3, np.random.default_rng(0))[0].tolist())
    [0, 1, 2]
    """
    order = rng.random((n, items)).argsort(axis=1)
    return np.asarray(order[:, :slots], np.int32)


def draw_slots(table: Floats, n: int, rng: np.random.Generator) -> Codes:
    """Return n slates whose slots are drawn independently, (n, L).

    Args:
        table: (L, K) the distribution of each slot.
        n: how many.
        rng: advances.
    """
    drawn = np.empty((n, len(table)), np.int32)
    for slot, one in enumerate(table):
        drawn[:, slot] = draw_rows(np.broadcast_to(one, (n, len(one))), rng)
    return drawn
