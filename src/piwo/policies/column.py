"""A policy whose probabilities stand in a column of the log."""

from __future__ import annotations

from typing import ClassVar, NoReturn, final

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.policies.logged_only import LoggedOnly
from piwo.policies.policy import ActionList, action_list
from piwo.policies.state import State

__all__ = ["Column"]


@final
class Column(LoggedOnly):
    """pi(A | X) of the logged action, written into the log by whoever has the policy.

    Prefer it where the policy runs elsewhere (another language, a service) and can score the log's
    rows.

    Args:
        name: the log's column, read as a target-policy column.
        actions: the labels; needed only inside a policy that counts them, such as `EpsilonGreedy`.

    >>> import numpy as np
    >>> from piwo.logs.batch import Batch
    >>> one = np.ones(1)
    >>> batch = Batch(
    ...     start=0,
    ...     action=np.zeros(1, np.int32),
    ...     reward=one,
    ...     propensity=one,
    ...     policies={"new": one / 2},
    ... )
    >>> Column("new").logged(batch).tolist()
    [0.5]
    """

    kind: ClassVar[str] = "column"

    def __init__(self, name: str, actions: ActionList | None = None) -> None:
        if not isinstance(name, str):
            raise UsageError(
                f"a column's name is text, got {type(name).__name__}; for values use "
                "RowWise(values)"
            )
        self.name = name
        self.listed = None if actions is None else action_list(actions)

    def __repr__(self) -> str:
        return f"Column({self.name!r})"

    def unknown(self) -> NoReturn:
        """Raise: the log alone knows."""
        raise UsageError(
            f"the policy of column {self.name!r} is known for the logged actions only; use "
            "logged(batch)"
        )

    def logged(self, batch: Batch) -> Floats:
        """Return the column, (n,).

        Raises:
            UsageError: where the log was read without it.
        """
        if self.name not in batch.policies:
            raise UsageError(
                f"the log was read without the policy column {self.name!r} (it has "
                f"{sorted(batch.policies)}); "
                f"read it with policies=[{self.name!r}]"
            )
        return batch.policies[self.name]

    def onto(self, actions: Actions) -> Column:
        """Return the same column with the log's actions: it is over them already."""
        return Column(self.name, actions)

    def state(self) -> State:
        """Return the column's name."""
        return State(actions=self.listed, parameters={"name": self.name})

    @classmethod
    def from_state(cls, state: State) -> Column:
        """Return the policy of a state."""
        return cls(state.parameters["name"], state.actions)
