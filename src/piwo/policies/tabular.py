"""Probabilities in a table: one distribution, or one for each distinct context."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.logs.foreign import RowError
from piwo.messages import argument
from piwo.policies.blocks import Codes
from piwo.policies.distributions import checked_distributions, named_table
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.policies.state import State
from piwo.sources.frames import is_frame

__all__ = ["Tabular"]


@final
class Tabular(Policy):
    """pi(a | x) looked up in a table.

    Args:
        probabilities: (K,) one distribution for every row; or (C, K), row c for context c. A data
            frame's columns are matched to the actions by name.
        actions: the K labels.
        contexts: (C, d) distinct contexts, a matrix, or a data frame if `features` are given.
        features: how data frames become the context matrix.

    Raises:
        UsageError: if the shapes do not fit together, or a context occurs twice.
        DataError: for rows that are not distributions; later, for a context that is not in the
            table (its row is reported).

    >>> policy = Tabular([[1.0, 0.0], [0.25, 0.75]], ["a", "b"], contexts=[[0.0], [1.0]])
    >>> policy.probabilities([[1.0]]).tolist()
    [[0.25, 0.75]]
    """

    kind: ClassVar[str] = "tabular"

    def __init__(
        self,
        probabilities: Any,
        actions: ActionList,
        contexts: Any = None,
        features: Features | None = None,
    ) -> None:
        self.listed = action_list(actions)
        if not is_frame(probabilities) and np.ndim(probabilities) == 1:
            probabilities = [probabilities]
        table, _ = named_table(probabilities, self.listed)
        self.table = checked_distributions(table)
        self.contexts: Floats | None
        if contexts is None:
            if len(self.table) != 1:
                raise UsageError(
                    f"got {len(self.table)} distributions and no contexts; pass "
                    f"{argument('contexts')}, or one distribution"
                )
            self.contexts = None
            return
        self.features = features
        self.width = _width(contexts, features)
        self.contexts = known = self.context(contexts)
        assert known is not None
        if not len(known) or len(known) != len(self.table):
            raise UsageError(
                f"got {len(self.table)} distributions and {len(known)} contexts, "
                "expected equal numbers"
            )
        self._columns, self._order = _index(known)

    def _entries(self, context: Floats | None, n: int) -> npt.NDArray[np.intp]:
        """Return the table row of each context, (n,)."""
        if self.contexts is None:
            return np.zeros(n, np.intp)
        assert context is not None
        found = _find(context, self._columns)
        if (found < 0).any():
            row = int(np.flatnonzero(found < 0)[0])
            shown = np.array2string(context[row], threshold=8, precision=6)
            raise RowError(
                f"the context {shown} is not in the policy's table of "
                f"{len(self.contexts)} contexts "
                f"({int((found < 0).sum())} such rows); add it to the table",
                row,
            )
        return self._order[found]

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return each row's entry of the table, (n, K)."""
        return self.table[self._entries(context, n)]

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the table's probability of one action per row, (n,)."""
        return self.table[self._entries(context, len(codes)), codes]

    def state(self) -> State:
        """Return the table."""
        arrays = {"probabilities": self.table}
        if self.contexts is not None:
            arrays["contexts"] = self.contexts
        return State(actions=self.actions, features=self.features, arrays=arrays)

    @classmethod
    def from_state(cls, state: State) -> Tabular:
        """Return the policy of a state."""
        table = state.array("probabilities", -1, len(state.known()))
        contexts = None
        if "contexts" in state.arrays:
            contexts = state.array("contexts", len(table), -1)
        return cls(table, state.known(), contexts, state.features)


def _width(contexts: Any, features: Features | None) -> int | None:
    if features is not None:
        return features.width
    if is_frame(contexts) or np.ndim(contexts) != 2:
        return None
    return int(np.shape(contexts)[1])


# Contexts are compared value by value, column after column: each value is replaced by its rank
# among the table's values, and the rank is combined with the key of the columns before it. Keys
# are ranked again after every column, so that they stay below C * C for any d.


def _index(
    contexts: Floats,
) -> tuple[list[tuple[Floats, npt.NDArray[np.int64]]], npt.NDArray[np.intp]]:
    """Return the lookup table of `_find`, and the table row of each final key."""
    columns = []
    key = np.zeros(len(contexts), np.int64)
    for j in range(contexts.shape[1]):
        values, rank = np.unique(contexts[:, j], return_inverse=True)
        joined = key * len(values) + rank
        keys, key = np.unique(joined, return_inverse=True)
        columns.append((values, keys))
    order = np.argsort(key)
    doubled = np.flatnonzero(np.diff(key[order]) == 0)
    if len(doubled):
        first = int(doubled[0])
        raise UsageError(
            f"contexts {order[first]} and {order[first + 1]} are the same; give each "
            "distinct context once"
        )
    return columns, order


def _find(
    contexts: Floats, columns: list[tuple[Floats, npt.NDArray[np.int64]]]
) -> npt.NDArray[np.int64]:
    """Return each context's final key, 0..C-1 (contexts are distinct); -1: not in the table."""
    key = np.zeros(len(contexts), np.int64)
    known = np.ones(len(contexts), bool)
    for j, (values, joined) in enumerate(columns):
        rank, hit = _position(contexts[:, j], values)
        known &= hit
        key, hit = _position(key * len(values) + rank, joined)
        known &= hit
    return np.where(known, key, -1)


def _position(
    values: npt.NDArray[Any], among: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    place = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return place.astype(np.int64), among[place] == values
