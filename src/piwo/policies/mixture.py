"""Several policies, each played with its own probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

from piwo.checks import check_kind, check_listed, numbers
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.messages import argument
from piwo.policies.blocks import Codes, take
from piwo.policies.distributions import TOLERANCE
from piwo.policies.policy import Policy, aligned
from piwo.policies.state import State

__all__ = ["Mixture"]


@final
class Mixture(Policy):
    """sum_i w_i pi_i(a | x): a staged roll-out (10 % new, 90 % old), or a posterior over policies.

    Args:
        policies: at least one. Those with action lists must have the same actions; their order may
            differ. Those that use the context must have the same features.
        weights: one per policy, >= 0; they sum to 1.

    Raises:
        UsageError: if the policies do not fit together, or the weights are not probabilities.

    >>> from piwo.policies.context_free import Constant
    >>> both = Mixture([Constant("a", ["a", "b"]), Constant("b", ["b", "a"])], [0.9, 0.1])
    >>> both.probabilities(n=1).tolist()
    [[0.9, 0.1]]
    """

    kind: ClassVar[str] = "mixture"

    def __init__(self, policies: Sequence[Policy], weights: Any) -> None:
        check_listed("policies", policies)
        for policy in policies:
            check_kind("a policy", policy, Policy, " of piwo.policies")
        if not policies:
            raise UsageError(
                f"{argument('policies')} is empty; a mixture needs at least one policy"
            )
        listed = next((x.listed for x in policies if x.listed is not None), None)
        if listed is not None:
            policies = [_same_actions(x, listed) for x in policies]
        self.listed = listed
        self.policies = tuple(policies)
        shares = numbers("weights", weights).copy()
        if shares.shape != (len(self.policies),):
            raise UsageError(
                f"{argument('weights')} has shape {shares.shape}, expected "
                f"({len(self.policies)},): one per policy"
            )
        if not ((shares >= 0).all() and abs(shares.sum() - 1.0) <= TOLERANCE):
            raise UsageError(
                f"the weights are {shares[:8]} and sum to {shares.sum():.6g}, expected "
                "shares >= 0 that sum to 1"
            )
        shares /= shares.sum()
        shares.flags.writeable = False
        self.weights = shares
        looking = [x for x in self.policies if x.needs_context]
        if looking:
            first = looking[0]
            if any(x.features != first.features or x.width != first.width for x in looking):
                raise UsageError(
                    "the policies of a mixture look at different features; give all "
                    "of them the same features"
                )
            self.features, self.width = first.features, first.width
        # Joint policies of a mixture were learned from the same tables of items.
        by_items = [x for x in self.policies if x.item_features is not None]
        if by_items:
            self.item_features = by_items[0].item_features
            self.item_label = by_items[0].item_label
        self.rows = next((x.rows for x in self.policies if x.rows is not None), None)

    def __repr__(self) -> str:
        pairs = zip(self.weights, self.policies, strict=True)
        return f"Mixture({', '.join(f'{weight:g} {policy!r}' for weight, policy in pairs)})"

    @property
    def parts(self) -> tuple[Policy, ...]:
        """The inner policies."""
        return self.policies

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether an inner policy does."""
        return any(policy.depends_on_observed_actions for policy in self.policies)

    @property
    def gives_full_distribution(self) -> bool:
        """Whether all inner policies do."""
        return all(policy.gives_full_distribution for policy in self.policies)

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix that the inner policies share."""
        for policy in self.policies:
            if policy.needs_context:
                return policy.context(X)
        return None

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return the weighted sum of the policies' tables, (n, K)."""
        total = np.zeros((n, len(self.actions)))
        for weight, policy in zip(self.weights, self.policies, strict=True):
            total += weight * policy.distribution(context, n)
        return total

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the weighted sum of the probabilities of one action per row, (n,)."""
        total = np.zeros(len(codes))
        for weight, policy in zip(self.weights, self.policies, strict=True):
            total += weight * policy.chances(context, codes)
        return total

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return the weighted sum of the restricted policies' probabilities, (m,)."""
        total = np.zeros(len(eligible.codes))
        for weight, policy in zip(self.weights, self.policies, strict=True):
            total += weight * policy.within(context, eligible)
        return total

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return, for each row, an action of a policy drawn by weight, (n,) codes."""
        which = rng.choice(len(self.policies), size=n, p=self.weights)
        codes = np.empty(n, np.int32)
        for i, policy in enumerate(self.policies):
            mine = np.flatnonzero(which == i)
            codes[mine] = policy.draw(take(context, mine), len(mine), rng)
        return codes

    def logged(self, batch: Batch) -> Floats:
        """Return the weighted sum of the probabilities of the logged actions, (n,)."""
        total = np.zeros(len(batch))
        for weight, policy in zip(self.weights, self.policies, strict=True):
            total += weight * policy.logged(batch)
        return total

    def full(self, batch: Batch) -> Floats:
        """Return the weighted sum of the policies' tables on the rows of a batch, (n, K)."""
        return np.asarray(
            sum(w * x.full(batch) for w, x in zip(self.weights, self.policies, strict=True))
        )

    def pairs(self, batch: Batch) -> Floats:
        """Return the weighted sum of the policies' probabilities of eligible actions, (m,)."""
        return np.asarray(
            sum(w * x.pairs(batch) for w, x in zip(self.weights, self.policies, strict=True))
        )

    def onto(self, actions: Actions) -> Policy:
        """Return the mixture of the policies over the log's actions."""
        if self.listed == actions and (self.item_features is None or actions.items is None):
            return self
        return Mixture([aligned(x, actions) for x in self.policies], self.weights)

    def state(self) -> State:
        """Return the weights and the inner policies."""
        return State(arrays={"weights": self.weights}, parts=self.policies)

    @classmethod
    def from_state(cls, state: State) -> Mixture:
        """Return the policy of a state."""
        return cls(state.parts, state.array("weights", len(state.parts)))


def _same_actions(policy: Policy, actions: Actions) -> Policy:
    if policy.listed is not None and set(map(str, policy.listed)) != set(map(str, actions)):
        raise UsageError(
            "the policies of a mixture have different actions "
            f"({policy.listed.preview()} and {actions.preview()}); use aligned(policy, "
            "log.actions) on each first"
        )
    return aligned(policy, actions)
