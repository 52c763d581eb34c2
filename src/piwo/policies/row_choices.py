"""A policy of one log only: the action that it takes in each of the log's rows."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, final

import numpy as np

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import Codes
from piwo.policies.policy import ActionList, Policy, action_list

__all__ = ["RowChoices"]


@final
class RowChoices(Policy):
    """pi(A | X_t) = 1 where A is the action listed for row t.

    Prefer it to `RowWise` where the policy is deterministic and the actions are many: it holds one
    number a row.

    Args:
        choices: (n,) labels, one for each row of the log, in its order.
        actions: the K labels.

    Raises:
        UsageError: for a label that is not among the actions.

    >>> from piwo.logs.batch import Batch
    >>> rows = Batch(0, np.array([0, 0], np.int32), np.ones(2), np.ones(2))
    >>> RowChoices(["a", "b"], ["a", "b"]).logged(rows).tolist()
    [1.0, 0.0]
    """

    kind: ClassVar[str] = "row-choices"

    def __init__(self, choices: Any, actions: ActionList) -> None:
        self.listed = action_list(actions)
        self.codes = self.listed.codes(choices, "choices")
        self.rows = len(self.codes)
        if (self.codes < 0).any():
            row = int(np.flatnonzero(self.codes < 0)[0])
            raise UsageError(
                f"choice {row} is not one of the {len(self.listed)} actions "
                f"({self.listed.preview()})"
            )

    def _unknown(self) -> NoReturn:
        raise UsageError(
            "these choices belong to the rows of one log; use logged(batch) on that log"
        )

    def distribution(self, context: Floats | None, n: int) -> Floats:  # noqa: ARG002
        """Raise: only the rows of the log are known."""
        self._unknown()

    def chances(self, context: Floats | None, codes: Codes) -> Floats:  # noqa: ARG002
        """Raise: only the rows of the log are known."""
        self._unknown()

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:  # noqa: ARG002
        """Raise: only the rows of the log are known."""
        self._unknown()

    def _of(self, batch: Batch) -> Codes:
        numbers = batch.row_numbers
        if len(numbers) and numbers.max() >= len(self.codes):
            raise UsageError(
                f"the log has a row {int(numbers.max())}, the policy {len(self.codes)} choices; "
                "give one a row"
            )
        return self.codes[numbers]

    def logged(self, batch: Batch) -> Floats:
        """Return 1 where the logged action is the one chosen, (n,)."""
        same: Floats = (self._of(batch) == batch.action).astype(np.float64)
        return same

    def full(self, batch: Batch) -> Floats:
        """Return 1 in the column of the action chosen, (n, K)."""
        table = np.zeros((len(batch), len(self.actions)))
        table[np.arange(len(batch)), self._of(batch)] = 1.0
        return table
