"""Another policy most of the time, and a uniform action otherwise."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from piwo.checks import check_kind, is_number, shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.messages import argument
from piwo.policies.blocks import Codes, take
from piwo.policies.policy import Policy, aligned
from piwo.policies.restricted import shares
from piwo.policies.state import State

__all__ = ["EpsilonGreedy"]


@final
class EpsilonGreedy(Policy):
    """(1 - epsilon) pi(a | x) + epsilon / K: plays `policy` and still explores every action.

    The usual way to deploy a greedy policy: every propensity is at least epsilon / K, so its log
    supports the next evaluation.

    Args:
        policy: any policy with an action list.
        epsilon: fraction of rows that explore, 0 to 1.

    Raises:
        UsageError: for an epsilon outside 0..1, or a policy without an action list.

    >>> from piwo.policies.context_free import Constant
    >>> EpsilonGreedy(Constant("a", ["a", "b"]), 0.2).probabilities(n=1).round(12).tolist()
    [[0.9, 0.1]]
    """

    kind: ClassVar[str] = "epsilon-greedy"

    def __init__(self, policy: Policy, epsilon: float) -> None:
        check_kind("policy", policy, Policy, " of piwo.policies")
        if not (is_number(epsilon) and 0.0 <= epsilon <= 1.0):
            raise UsageError(f"{argument('epsilon')} is {shown(epsilon)}, expected 0 to 1")
        self.policy = policy
        self.listed = policy.actions
        self.epsilon = float(epsilon)
        self.features = policy.features
        self.item_features, self.item_label = policy.item_features, policy.item_label
        self.width = policy.width
        self.rows = policy.rows

    def __repr__(self) -> str:
        return f"EpsilonGreedy({self.policy!r}, {self.epsilon:g})"

    @property
    def parts(self) -> tuple[Policy, ...]:
        """The inner policy."""
        return (self.policy,)

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether its action list was inferred from a log: it plays all of it."""
        return self.actions.seen

    @property
    def gives_full_distribution(self) -> bool:
        """Whether the inner policy does."""
        return self.policy.gives_full_distribution

    def _mix(self, inner: Floats) -> Floats:
        return self.epsilon / len(self.actions) + (1.0 - self.epsilon) * inner

    def context(self, X: object) -> Floats | None:
        """Return the context matrix of the inner policy."""
        return self.policy.context(X)

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return (1 - epsilon) pi + epsilon / K, (n, K)."""
        return self._mix(self.policy.distribution(context, n))

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return (1 - epsilon) pi + epsilon / K of one action per row, (n,)."""
        return self._mix(self.policy.chances(context, codes))

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return uniform codes for the rows that explore and the policy's for the others, (n,)."""
        explore = rng.random(n) < self.epsilon
        codes = rng.integers(len(self.actions), size=n, dtype=np.int32)
        follow = np.flatnonzero(~explore)
        codes[follow] = self.policy.draw(take(context, follow), len(follow), rng)
        return codes

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return (1 - epsilon) pi + epsilon over the number of eligible actions, (m,)."""
        return self._explored(self.policy.within(context, eligible), eligible)

    def _explored(self, inner: Floats, eligible: Eligible) -> Floats:
        explores = self.epsilon * np.repeat(shares(eligible), eligible.sizes)
        return np.asarray(explores + (1.0 - self.epsilon) * inner)

    def logged(self, batch: Batch) -> Floats:
        """Return the mixed probability of the logged actions, (n,)."""
        inner = self.policy.logged(batch)
        if batch.eligible is None:
            return self._mix(inner)
        could = batch.eligible.places(batch.action) >= 0
        return self.epsilon * could * shares(batch.eligible) + (1.0 - self.epsilon) * inner

    def full(self, batch: Batch) -> Floats:
        """Return the mixed probabilities on a batch's rows, (n, K)."""
        if batch.eligible is not None:
            return super().full(batch)
        return self._mix(self.policy.full(batch))

    def pairs(self, batch: Batch) -> Floats:
        """Return the mixed probabilities of eligible actions, (m,)."""
        assert batch.eligible is not None
        return self._explored(self.policy.pairs(batch), batch.eligible)

    def onto(self, actions: Actions) -> Policy:
        """Return this policy over a log's list; it explores only among its own K actions."""
        if self.listed == actions and actions.items is self.actions.items:
            return self
        # It explores the items that there are now.
        by_items = self.item_features is not None and actions.items is not None
        if by_items or (
            self.listed != actions and set(map(str, self.actions)) == set(map(str, actions))
        ):
            return EpsilonGreedy(aligned(self.policy, actions), self.epsilon)
        return super().onto(actions)

    def state(self) -> State:
        """Return epsilon and the inner policy."""
        return State(parameters={"epsilon": self.epsilon}, parts=(self.policy,))

    @classmethod
    def from_state(cls, state: State) -> EpsilonGreedy:
        """Return the policy of a state."""
        (policy,) = state.parts
        return cls(policy, float(state.parameters["epsilon"]))
