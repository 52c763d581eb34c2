"""One action, always."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from piwo.logs.actions import Label
from piwo.logs.batch import Floats
from piwo.policies.blocks import Codes
from piwo.policies.policy import ActionList, DeterministicPolicy, action_list
from piwo.policies.state import State

__all__ = ["Constant"]


@final
class Constant(DeterministicPolicy):
    """pi(label | x) = 1: what would have been earned by always doing the same.

    Args:
        label: the action.
        actions: the K labels, `label` among them.

    Raises:
        UsageError: where `label` is not one of the actions.

    >>> Constant("b", ["a", "b"]).probability(None, [0, 1]).tolist()
    [0.0, 1.0]
    """

    kind: ClassVar[str] = "constant"

    def __init__(self, label: Label, actions: ActionList) -> None:
        self.listed = action_list(actions)
        self.code = self.listed.index(label)

    @property
    def called(self) -> str:
        """Its kind and its action, as the command line calls it."""
        return f"{self.kind}:{self.actions.labels[self.code]}"

    def decide(self, context: Floats | None, n: int) -> Codes:  # noqa: ARG002 (the same for every context)
        """Return the one code for each row, (n,)."""
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
