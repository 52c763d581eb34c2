"""A policy over the action list of a log, where that list has another order or more actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import Codes
from piwo.policies.policy import Policy
from piwo.policies.state import State

__all__ = ["Aligned", "aligned"]


def aligned(policy: Policy, actions: Actions) -> Policy:
    """Return the policy over a log's action list; columns move, no probability changes.

    Args:
        policy: any policy.
        actions: the log's list: the policy's actions in any order, and others, which get
            probability 0.

    Raises:
        UsageError: where the policy takes actions that the list lacks. Actions never logged still
            belong to the list: left out, their share of the policy would go unseen.

    >>> from piwo.policies.constant import Constant
    >>> aligned(Constant("a", ["a", "b"]), Actions(["c", "b", "a"])).probabilities(n=1).tolist()
    [[0.0, 0.0, 1.0]]
    """
    check_kind("policy", policy, Policy, " of piwo.policies")
    check_kind("actions", actions, Actions)
    return policy.onto(actions)


@final
class Aligned(Policy):
    """A policy seen through a longer or reordered action list. Made by `aligned`.

    Attributes:
        policy: the policy itself, with its own codes.
        own: (K,) the policy's code of each action of the list, -1 where the policy does not know
            it.
        place: the list's code of each of the policy's actions.
    """

    kind: ClassVar[str] = "aligned"

    def __init__(self, policy: Policy, actions: Actions) -> None:
        self.policy = policy
        self.listed = actions
        self.own = actions.positions_in(policy.actions)
        self.place = policy.actions.positions_in(actions)
        if (self.place < 0).any():
            unknown = [
                label for label, code in zip(policy.actions, self.place, strict=True) if code < 0
            ]
            shown = ", ".join(repr(x) for x in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            raise UsageError(
                f"the policy has {len(unknown)} actions that the log's list of {len(actions)} "
                f"lacks: {shown}; pass actions=[...] with every action that could have been taken, "
                "logged or not"
            )
        self.features = policy.features
        self.width = policy.width
        self.rows = policy.rows

    def __repr__(self) -> str:
        return f"aligned({self.policy!r}, {len(self.actions)} actions)"

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether the policy inside does."""
        return self.policy.depends_on_observed_actions

    @property
    def gives_full_distribution(self) -> bool:
        """Whether the policy inside does."""
        return self.policy.gives_full_distribution

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix of the policy inside."""
        return self.policy.context(X)

    def _spread(self, inner: Floats) -> Floats:
        if inner.shape[1] != len(self.place):
            raise UsageError(
                f"the policy has {len(self.place)} actions, the log's propensity vectors "
                f"{inner.shape[1]}; make the policy inside with actions=log.actions"
            )
        table = np.zeros((len(inner), len(self.actions)))
        table[:, self.place] = inner
        return table

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return the policy's columns in the list's places, 0 elsewhere, (n, K)."""
        return self._spread(self.policy.distribution(context, n))

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the policy's probability of one action a row, 0 where it does not know the action, (n,)."""
        own = self.own[codes]
        found = self.policy.chances(context, np.maximum(own, 0))
        return np.where(own >= 0, found, 0.0)

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return the policy's actions in the list's codes, (n,)."""
        return self.place[self.policy.draw(context, n, rng)]

    def _batch(self, batch: Batch) -> tuple[Batch, Any]:
        own = self.own[batch.action]
        return replace(batch, action=np.maximum(own, 0)), own >= 0

    def logged(self, batch: Batch) -> Floats:
        """Return the policy's probability of the logged actions, 0 for those it does not know, (n,)."""
        seen, known = self._batch(batch)
        return np.where(known, self.policy.logged(seen), 0.0)

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi of the logged actions, -inf for those that the policy does not know, (n,)."""
        seen, known = self._batch(batch)
        return np.where(known, self.policy.log_logged(seen), -np.inf)

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return the policy's log-probabilities in the list's places, -inf elsewhere, (n, K)."""
        inner = self.policy.log_probabilities(X, n=n)
        table = np.full((len(inner), len(self.actions)), -np.inf)
        table[:, self.place] = inner
        return table

    def full(self, batch: Batch) -> Floats:
        """Return the policy's full vectors on a batch's rows in the list's places, 0 elsewhere, (n, K)."""
        seen, _ = self._batch(batch)
        return self._spread(self.policy.full(seen))

    def onto(self, actions: Actions) -> Policy:
        """Return the policy inside over another list; this one is only a view."""
        return self if self.listed == actions else self.policy.onto(actions)

    def state(self) -> State:
        """Return the list and the policy inside."""
        return State(actions=self.actions, parts=(self.policy,))

    @classmethod
    def from_state(cls, state: State) -> Aligned:
        """Return the policy of a state."""
        (policy,) = state.parts
        return cls(policy, state.known())
