"""A slate policy that explores: with probability epsilon the whole slate is a uniform ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, is_number, shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.policies.state import State
from piwo.slates.acting import Decided, draw_ranking
from piwo.slates.policies import OneSlate, Uniform
from piwo.slates.policy import SlatePolicy, marginals_of
from piwo.slates.rows import SlateRows

__all__ = ["EpsilonSlate"]


@dataclass(frozen=True, eq=False)
class EpsilonSlate(SlatePolicy):
    """Shows the slate of a policy, or, with probability epsilon, a uniform ranking of all items.

    Formula: P(a_1, ..., a_l) = (1 - epsilon) 1{the policy's slate begins so} + epsilon / (m ... (m
    - l + 1)) for distinct items; the probability of a_l given those above it is the ratio of two of
    these, and that of a_l in slot l is (1 - epsilon) 1{it is the policy's} + epsilon / m. Log both:
    every estimator but the pseudo-inverse can then be used. If rows have eligible actions, both
    parts are restricted to them, and m is their number in the row.

    Args:
        policy: shows one slate in each context: `Deterministic`, or what `slates.learn` returns.
        epsilon: from 0 to 1.
        items: labels of the m items to explore; None: those of the policy.

    Raises:
        UsageError: for other policies, and if the policy shows items that are not among them.

    >>> from piwo.slates.policies import Deterministic
    >>> EpsilonSlate(Deterministic(["a"]), 0.5, ["a", "b"]).act(n=1, random_state=1).propensities
    [[0.75]]
    """

    kind: ClassVar[str] = "epsilon"

    policy: OneSlate
    epsilon: float
    items: Sequence[Label] | Actions | None = None
    explored: Uniform = field(init=False, repr=False)
    """The uniform rankings."""

    def __post_init__(self) -> None:
        check_kind("policy", self.policy, OneSlate, ", such as slates.Deterministic")
        if not is_number(self.epsilon) or not 0.0 <= self.epsilon <= 1.0:
            raise UsageError(
                f"{argument('epsilon')} is {shown(self.epsilon)}, expected a number from 0 to 1"
            )
        items = self.items
        if items is None:
            items = self.policy.listed
        if items is None:
            raise UsageError(
                "the policy does not name its items; pass those to explore "
                f"({argument('items', '[...]')})"
            )
        explored = items if isinstance(items, Actions) else Actions(items)
        lost = self.policy.unknown(explored)
        if self.policy.listed is not None and not lost:
            lost = tuple(x for x in self.policy.listed if x not in explored)
        if lost:
            raise UsageError(
                f"the policy shows {lost[0]!r}, which is not among the {len(explored)} items to "
                f"explore; add it ({argument('items', '[...]')})"
            )
        most = self.policy.most_slots
        if most is not None and most > len(explored):
            raise UsageError(
                f"the policy fills {most} slots and there are {len(explored)} items to explore, "
                "expected at least as many: a ranking repeats none"
            )
        object.__setattr__(self, "explored", Uniform(explored))

    @property
    def listed(self) -> Actions:
        """The items that are explored."""
        return self.explored.items

    @property
    def most_slots(self) -> int | None:
        """How many slots the policy fills."""
        return self.policy.most_slots

    @property
    def encoding(self) -> Features | None:
        """The context that the policy reads."""
        return self.policy.encoding

    @property
    def fills(self) -> int | None:
        """How many slots the policy is made for."""
        return self.policy.fills

    @property
    def orders(self) -> bool:
        """Whether the policy's labels are an order of preference."""
        return self.policy.orders

    @property
    def slate_columns(self) -> tuple[str, ...]:
        """The column of the policy's slates, if it is one."""
        return self.policy.slate_columns

    @property
    def learned(self) -> Mapping[str, Any] | None:
        """The record of the rows that the policy was learned from."""
        return self.policy.learned

    @property
    def learned_from(self) -> Any:
        """The rows themselves, if they are known."""
        return getattr(self.policy, "learned_from", None)

    def state(self) -> State:
        """Return the policy, epsilon and the items."""
        return State(
            actions=self.listed, parameters={"epsilon": self.epsilon}, parts=(self.policy,)
        )

    @classmethod
    def from_state(cls, state: State) -> EpsilonSlate:
        """Return the policy of a state."""
        (policy,) = state.parts
        return cls(policy, state.parameters["epsilon"], state.known())

    def unknown(self, actions: Actions) -> tuple[Label, ...]:
        """Return the items that an action list lacks."""
        return self.explored.unknown(actions)

    def aligned(self, actions: Actions) -> EpsilonSlate:
        """Return the policy over an action list."""
        made = replace(self)
        object.__setattr__(made, "policy", self.policy.aligned(actions))
        object.__setattr__(made, "explored", self.explored.aligned(actions))
        return made

    def above(self, rows: SlateRows) -> Floats:
        """Return P(a_1, ..., a_l) / P(a_1, ..., a_{l-1}), (n, L)."""
        return _given_above(self.policy.above(rows), self.explored.above(rows), self.epsilon)

    def marginal(self, rows: SlateRows) -> Floats:
        """Return (1 - epsilon) 1{a_l is the policy's in slot l} + epsilon / m, (n, L)."""
        own, other = self.policy.marginal(rows), self.explored.marginal(rows)
        found: Floats = (1.0 - self.epsilon) * own + self.epsilon * other
        return found

    def across(self, rows: SlateRows) -> Floats:
        """Return the probability of shown action l in slot j, (n, L, L)."""
        own, other = self.policy.across(rows), self.explored.across(rows)
        found: Floats = (1.0 - self.epsilon) * own + self.epsilon * other
        return found

    def decide(self, matrix: Floats, slots: int, rng: np.random.Generator) -> Decided:
        """Return the policy's slates, or uniform rankings in a fraction epsilon of the rows."""
        n, m = len(matrix), len(self.listed)
        listed = self.policy.listed
        assert listed is not None
        places = np.array([self.listed.index(x) for x in listed], np.int32)
        own = places[self.policy.shown(matrix, slots)]
        explores = rng.random(n) < self.epsilon
        codes = np.where(explores[:, None], draw_ranking(n, slots, m, rng), own)
        same = (codes == own).astype(np.float64)
        uniform = 1.0 / (m - np.arange(slots))
        repeated = np.tril(codes[:, :, None] == codes[:, None, :], -1).any(axis=2)
        above = _given_above(same, np.where(repeated, 0.0, uniform), self.epsilon)
        return Decided(codes, above, (1.0 - self.epsilon) * same + self.epsilon / m)

    def can_fill(self, eligible: Eligible) -> npt.NDArray[np.int64]:
        """Return how many slots of each row the policy can fill, (n,)."""
        return self.policy.can_fill(self._own(eligible))

    def decide_among(self, matrix: Floats, rows: SlateRows, rng: np.random.Generator) -> Decided:
        """Return the policy's slates, or uniform rankings, of the eligible items."""
        assert rows.eligible is not None
        listed = self.policy.listed
        assert listed is not None
        chosen = self.policy.aligned(listed)
        assert isinstance(chosen, OneSlate)
        own = chosen.among(matrix, replace(rows, eligible=self._own(rows.eligible)))
        # -1, beyond the end, stays
        places = np.array([*map(self.listed.index, listed), -1], np.int32)
        own = places[own]
        explores = rng.random(len(rows)) < self.epsilon
        explored = self.explored
        codes = np.where(explores[:, None], explored.draw_among(rows, rng), own)
        drawn = replace(rows, action=codes)
        same = np.where(rows.mask, codes == own, 1.0)
        above = _given_above(same, explored.above(drawn), self.epsilon)
        marginal = marginals_of(explored, drawn)
        if marginal is not None:
            marginal = (1.0 - self.epsilon) * same + self.epsilon * marginal
        return Decided(codes, above, marginal)

    def _own(self, eligible: Eligible) -> Eligible:
        """Return lists of the items as lists of the policy's own actions."""
        listed = self.policy.listed
        assert listed is not None
        table = np.array([listed.index(x) if x in listed else -1 for x in self.listed], np.int32)
        return eligible.recoded(table)[0]


def _given_above(own: Floats, other: Floats, epsilon: float) -> Floats:
    """Return the probability of each action given those above it, (n, L), of the mixture.

    Args:
        own: (n, L) of the policy.
        other: (n, L) of uniform rankings.
        epsilon: the share of these.
    """
    # P of the first l actions
    first = (1.0 - epsilon) * np.cumprod(own, axis=1) + epsilon * np.cumprod(other, axis=1)
    before = np.concatenate([np.ones((len(first), 1)), first[:, :-1]], axis=1)
    found: Floats = np.divide(first, before, out=np.zeros_like(first), where=before > 0.0)
    return found
