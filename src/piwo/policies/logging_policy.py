"""The policy that took the actions in the log."""

from __future__ import annotations

from typing import ClassVar, NoReturn, final

import numpy as np

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.policies.logged_only import LoggedOnly
from piwo.policies.policy import ActionList, action_list
from piwo.policies.state import State

__all__ = ["Logging"]


@final
class Logging(LoggedOnly):
    """pi = mu: the behavior policy, whose propensities the log holds. Its importance weights are all 1.

    It is the baseline of every improvement certificate. Outside its log nothing is known of it, so
    it cannot act.

    Args:
        actions: the labels; needed only inside a policy that counts them, such as `EpsilonGreedy`.

    >>> from piwo.logs.batch import Batch
    >>> one = np.ones(1)
    >>> Logging().logged(
    ...     Batch(start=0, action=np.zeros(1, np.int32), reward=one, propensity=one / 4)
    ... ).tolist()
    [0.25]
    """

    kind: ClassVar[str] = "logging"
    is_logger: ClassVar[bool] = True

    def __init__(self, actions: ActionList | None = None) -> None:
        self.listed = None if actions is None else action_list(actions)

    def unknown(self) -> NoReturn:
        """Raise: the log alone knows."""
        raise UsageError(
            "the logging policy is known only on the rows of its log; use logged(batch), "
            "or full(batch) where the log has a column with full propensity vectors"
        )

    def logged(self, batch: Batch) -> Floats:
        """Return the logged propensities, (n,). Where they underflow to 0 use `log_logged`."""
        return batch.propensity

    def log_logged(self, batch: Batch) -> Floats:
        """Return the logarithms of the logged propensities, (n,)."""
        if batch.log_propensity is not None:
            return batch.log_propensity
        return np.asarray(np.log(batch.propensity))

    def full(self, batch: Batch) -> Floats:
        """Return the full propensity vectors, (n, K).

        Raises:
            UsageError: where the log has none.
        """
        if batch.propensities is None:
            raise UsageError(
                "the log has the propensity of the logged action only; name the column that holds "
                "the full vectors: propensities=..."
            )
        return batch.propensities

    def onto(self, actions: Actions) -> Logging:
        """Return the logging policy with the log's actions: it is over them already."""
        return Logging(actions)

    def state(self) -> State:
        """Return the actions, where they were given."""
        return State(actions=self.listed)

    @classmethod
    def from_state(cls, state: State) -> Logging:
        """Return the policy of a state."""
        return cls(state.actions)
