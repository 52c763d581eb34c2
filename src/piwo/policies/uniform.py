"""Every action with the same probability."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from piwo.logs.batch import Floats
from piwo.policies.blocks import Codes
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.policies.state import State

__all__ = ["Uniform"]


@final
class Uniform(Policy):
    """pi(a | x) = 1/K: the policy to compare with when nothing else is known, and the one that explores most.

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
        """Whether the action list, all of which is played, was taken from a log."""
        return self.actions.seen

    def distribution(self, context: Floats | None, n: int) -> Floats:  # noqa: ARG002 (the same for every context)
        """Return 1/K everywhere, (n, K)."""
        return np.full((n, len(self.actions)), 1.0 / len(self.actions))

    def chances(self, context: Floats | None, codes: Codes) -> Floats:  # noqa: ARG002
        """Return 1/K for each row, (n,)."""
        return np.full(len(codes), 1.0 / len(self.actions))

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:  # noqa: ARG002
        """Return one of the K codes for each row, (n,)."""
        return rng.integers(len(self.actions), size=n, dtype=np.int32)

    def state(self) -> State:
        """Return the actions: there is nothing else."""
        return State(actions=self.actions)

    @classmethod
    def from_state(cls, state: State) -> Uniform:
        """Return the policy of a state."""
        return cls(state.known())
