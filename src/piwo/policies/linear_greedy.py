"""The action with the highest linear score."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.policies.blocks import Codes
from piwo.policies.linear_scores import best, coefficients, is_plain, score_blocks
from piwo.policies.policy import ActionList, DeterministicPolicy, action_list
from piwo.policies.state import State

__all__ = ["LinearGreedy"]


@final
class LinearGreedy(DeterministicPolicy):
    """pi(x) = argmax_a <c_a, x> + b_a; of equal scores the lowest code wins.

    The class over which PIWO with a ridge oracle learns (arXiv 2309.15771, section 6). "Equal" is
    meant in floating point: scores that differ by rounding only are not equal, and rounding may
    depend on how rows are cut into
        batches.

    Args:
        coef: (K, d), one row an action.
        intercept: (K,); -inf: this action is not available.
        actions: the K labels.
        features: how data frames become the context matrix of width d; None: plain matrices only.

    Raises:
        UsageError: for other shapes, or NaN and infinite coefficients.
        DataError: where a context makes a score NaN or +inf, or leaves no action; the row is named.

    >>> policy = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["up", "down"])
    >>> policy.act([[2.0], [-3.0], [0.0]]).actions.tolist()
    ['up', 'down', 'up']
    """

    kind: ClassVar[str] = "linear-greedy"

    def __init__(
        self, coef: Any, intercept: Any, actions: ActionList, features: Features | None = None
    ) -> None:
        self.listed = action_list(actions)
        self.coef, self.intercept = coefficients(coef, intercept, self.listed, features)
        self.features = features
        self.width = self.coef.shape[1]

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix; a float64 matrix of the right width as it is."""
        return X if is_plain(X, self.width) else super().context(X)

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the action with the highest score in each row, (n,) codes."""
        codes = np.empty(n, np.int32)
        assert context is not None
        for block, scores in score_blocks(context, self.coef, self.intercept):
            codes[block], _ = best(scores, block.start)
        return codes

    def state(self) -> State:
        """Return coefficients and intercepts."""
        return State(
            self.actions, self.features, arrays={"coef": self.coef, "intercept": self.intercept}
        )

    @classmethod
    def from_state(cls, state: State) -> LinearGreedy:
        """Return the policy of a state."""
        count = len(state.known())
        return cls(
            state.array("coef", count, -1),
            state.array("intercept", count),
            state.known(),
            state.features,
        )
