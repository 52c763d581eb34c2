"""Policies that ignore the context: one action always, or every action equally often."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from piwo.logs.actions import Label
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.policies.blocks import Codes
from piwo.policies.policy import ActionList, DeterministicPolicy, Policy, action_list
from piwo.policies.restricted import shares
from piwo.policies.state import State

__all__ = ["Constant", "Uniform"]


@final
class Constant(DeterministicPolicy):
    """pi(label | x) = 1: always the same action.

    Args:
        label: the action.
        actions: the K labels, `label` among them.

    Raises:
        UsageError: if `label` is not one of the actions.

    >>> Constant("b", ["a", "b"]).probability(None, [0, 1]).tolist()
    [0.0, 1.0]
    """

    kind: ClassVar[str] = "constant"

    def __init__(self, label: Label, actions: ActionList) -> None:
        self.listed = action_list(actions)
        self.code = self.listed.index(label)

    @property
    def called(self) -> str:
        """Its kind and its action, as on the command line."""
        return f"{self.kind}:{self.actions.labels[self.code]}"

    def decide(self, context: Floats | None, n: int) -> Codes:  # noqa: ARG002
        """Return the same code for each row, whatever its context, (n,)."""
        return np.full(n, self.code, np.int32)

    def state(self) -> State:
        """Return the action's code."""
        return State(actions=self.actions, parameters={"code": self.code})

    @classmethod
    def from_state(cls, state: State) -> Constant:
        """Return the policy of a state."""
        actions, code = state.known(), state.parameters["code"]
        if type(code) is not int or not 0 <= code < len(actions):
            raise ValueError(f"code {code!r} is outside 0..{len(actions) - 1}")
        return cls(actions.labels[code], actions)


@final
class Uniform(Policy):
    """pi(a | x) = 1/K: the policy that explores most, and a common baseline.

    Args:
        actions: the K labels.

    >>> Uniform(["a", "b"]).probabilities(n=1).tolist()
    [[0.5, 0.5]]
    """

    kind: ClassVar[str] = "uniform"

    def __init__(self, actions: ActionList) -> None:
        self.listed = action_list(actions)

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether its action list was inferred from a log."""
        return self.actions.seen

    def distribution(self, context: Floats | None, n: int) -> Floats:  # noqa: ARG002
        """Return 1/K everywhere, whatever the context, (n, K)."""
        return np.full((n, len(self.actions)), 1.0 / len(self.actions))

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:  # noqa: ARG002
        """Return one over the number of eligible actions of each row, (m,)."""
        return np.repeat(shares(eligible), eligible.sizes)

    def chances(self, context: Floats | None, codes: Codes) -> Floats:  # noqa: ARG002
        """Return 1/K for each row, (n,)."""
        return np.full(len(codes), 1.0 / len(self.actions))

    def draw(
        self,
        context: Floats | None,  # noqa: ARG002
        n: int,
        rng: np.random.Generator,
    ) -> Codes:
        """Return one of the K codes for each row, (n,)."""
        return rng.integers(len(self.actions), size=n, dtype=np.int32)

    def state(self) -> State:
        """Return the actions."""
        return State(actions=self.actions)

    @classmethod
    def from_state(cls, state: State) -> Uniform:
        """Return the policy of a state."""
        return cls(state.known())
