"""Policies known only on the rows of a log: its logger, and policies in its columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NoReturn, final

import numpy as np

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.messages import argument
from piwo.policies.blocks import Codes
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.policies.restricted import spread_out
from piwo.policies.state import State

__all__ = ["Column", "LoggedOnly", "Logging"]


class LoggedOnly(Policy):
    """Known on the logged actions only. A new kind defines `logged` and `unknown`."""

    @abstractmethod
    def unknown(self) -> NoReturn:
        """Raise the error that names the methods that work."""

    @abstractmethod
    def logged(self, batch: Batch) -> Floats:
        """Return pi(A | X) of the logged actions, (n,)."""

    @property
    def needs_actions(self) -> bool:
        """False: the log holds the probability of the logged action."""
        return False

    @property
    def gives_full_distribution(self) -> bool:
        """False: only the probabilities of the logged actions are known."""
        return False

    def distribution(self, context: Floats | None, n: int) -> Floats:  # noqa: ARG002
        """Raise: only the logged actions are known."""
        self.unknown()

    def chances(self, context: Floats | None, codes: Codes) -> Floats:  # noqa: ARG002
        """Raise: only the logged actions are known."""
        self.unknown()

    def draw(
        self,
        context: Floats | None,  # noqa: ARG002
        n: int,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Codes:
        """Raise: only the logged actions are known."""
        self.unknown()

    def full(self, batch: Batch) -> Floats:  # noqa: ARG002
        """Raise: only the logged actions are known."""
        self.unknown()


@final
class Logging(LoggedOnly):
    """pi = mu: the behavior policy, whose propensities the log holds. All its weights are 1.

    It is the baseline of every improvement certificate. It is unknown outside its log, so it cannot
    act.

    Args:
        actions: the labels; needed only inside a policy that uses their number, such as
            `EpsilonGreedy`.

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
        """Raise: it is known only on the rows of its log."""
        raise UsageError(
            "the logging policy is known only on the rows of its log; use "
            "logged(batch), or full(batch) if the log has a column with full "
            "propensity vectors"
        )

    def logged(self, batch: Batch) -> Floats:
        """Return the logged propensities, (n,). If they underflow, use `log_logged`."""
        return batch.propensity

    def log_logged(self, batch: Batch) -> Floats:
        """Return the logarithms of the logged propensities, (n,)."""
        if batch.log_propensity is not None:
            return batch.log_propensity
        return np.asarray(np.log(batch.propensity))

    def full(self, batch: Batch) -> Floats:
        """Return the full propensity vectors, (n, K).

        Raises:
            UsageError: if the log has none.
        """
        some = batch.eligible
        if some is not None and some.propensities is not None:
            return spread_out(self.pairs(batch), some, len(self.actions))
        if batch.propensities is None:
            raise UsageError(
                "the log has the propensity of the logged action only; name the "
                f"column that holds the full vectors: {argument('propensities', '...')}"
            )
        return batch.propensities

    def pairs(self, batch: Batch) -> Floats:
        """Return the propensities of the eligible actions, (m,), which the log must have."""
        assert batch.eligible is not None
        assert batch.eligible.propensities is not None
        return batch.eligible.propensities

    def onto(self, actions: Actions) -> Logging:
        """Return the logging policy with the log's actions, which are its own."""
        return Logging(actions)

    def state(self) -> State:
        """Return the actions, if they were given."""
        return State(actions=self.listed)

    @classmethod
    def from_state(cls, state: State) -> Logging:
        """Return the policy of a state."""
        return cls(state.actions)


@final
class Column(LoggedOnly):
    """pi(A | X) of the logged action, from a column of the log.

    Use it if the policy runs elsewhere (another language, a service) and can score the log's rows.

    Args:
        name: the log's column, read as a target-policy column.
        actions: the labels; needed only inside a policy that uses their number, such as
            `EpsilonGreedy`.

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
        """Raise: it is known only on the rows of its log."""
        raise UsageError(
            f"the policy of column {self.name!r} is known for the logged actions only; "
            "use logged(batch)"
        )

    def logged(self, batch: Batch) -> Floats:
        """Return the column, (n,).

        Raises:
            UsageError: if the log was read without that column.
        """
        if self.name not in batch.policies:
            raise UsageError(
                f"the log was read without the policy column {self.name!r} (it has "
                f"{sorted(batch.policies)}); "
                f"read it with {argument('policy_columns', f'[{self.name!r}]')}"
            )
        return batch.policies[self.name]

    def onto(self, actions: Actions) -> Column:
        """Return the same column with the log's actions."""
        return Column(self.name, actions)

    def state(self) -> State:
        """Return the column's name."""
        return State(actions=self.listed, parameters={"name": self.name})

    @classmethod
    def from_state(cls, state: State) -> Column:
        """Return the policy of a state."""
        return cls(state.parameters["name"], state.actions)
