"""Policies of one log: probabilities, or the action taken, in each of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.foreign import RowError
from piwo.policies.blocks import Codes
from piwo.policies.distributions import checked_distributions, checked_probabilities, named_table
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.policies.restricted import at_places, renormalized, spread_out, taken
from piwo.sources.frames import is_frame

__all__ = ["RowChoices", "RowWise"]


@final
class RowWise(Policy):
    """pi on the rows of one log, of the logged actions or full vectors. Row t is row t of the log.

    Use it if the probabilities were computed elsewhere and the log cannot be rewritten.

    Args:
        values: (n,) pi(A | X) of the logged actions; or (n, K) full vectors: a data frame with one
            column per action, matched by name, or a plain array in the order of `actions`.
        actions: the K labels. If left out, the labels are the column names of the frame.

    Attributes:
        index: the pandas index of `values`, or None. `piwo.sources.frames.same_index` compares it
            with the log's.

    Raises:
        UsageError: for a plain (n, K) array without actions, or with another number of columns.
        DataError: for a missing or extra column, a negative or NaN probability, a row that does not
            sum to 1.

    >>> RowWise({"2": [0.7], "9": [0.2], "10": [0.1]}, ["10", "2", "9"]).probabilities(n=1).tolist()
    [[0.1, 0.7, 0.2]]
    """

    kind: ClassVar[str] = "row-wise"

    def __init__(self, values: Any, actions: ActionList | None = None) -> None:
        index = getattr(values, "index", None)
        self.index: Sequence[Any] | None = None if callable(index) else index
        self.table: Floats | None
        self.column: Floats | None
        if _is_series(values) or (not is_frame(values) and np.ndim(values) == 1):
            self.listed = None if actions is None else action_list(actions)
            self.column = checked_probabilities(values)
            self.table, self.rows = None, len(self.column)
        else:
            table, self.listed = named_table(values, actions)
            self.table = checked_distributions(table)
            self.column, self.rows = None, len(self.table)

    def __repr__(self) -> str:
        return f"RowWise({self.rows} rows)"

    @property
    def gives_full_distribution(self) -> bool:
        """Whether full vectors were given."""
        return self.table is not None

    def distribution(self, context: Floats | None, n: int) -> Floats:  # noqa: ARG002
        """Return the table, (n, K), whose rows are the contexts; n must be its length."""
        if self.table is None:
            raise UsageError(
                "this row-wise policy has the logged actions' probabilities only; "
                "give full vectors, (n, K)"
            )
        if n != self.rows:
            raise UsageError(
                f"this row-wise policy has {self.rows:,} rows, got {n:,}; it is known only "
                "on its own log"
            )
        return self.table

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the table's entry of one action per row, (n,)."""
        return self.distribution(context, len(codes))[np.arange(len(codes)), codes]

    def draw(
        self,
        context: Floats | None,  # noqa: ARG002
        n: int,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Codes:
        """Raise: the policy is known only on the rows of its log."""
        self._no_contexts()

    def _no_contexts(self) -> NoReturn:
        raise UsageError(
            "a row-wise policy knows the rows of its own log only and cannot act on contexts"
        )

    def _positions(self, batch: Batch) -> npt.NDArray[np.int64]:
        numbers = batch.row_numbers
        assert self.rows is not None
        if len(numbers) and numbers.max() >= self.rows:
            raise UsageError(
                f"this row-wise policy has {self.rows:,} rows, the log has at least "
                f"{int(numbers.max()) + 1:,}; give one row for each row of the log, in "
                "the log's order"
            )
        return numbers

    def logged(self, batch: Batch) -> Floats:
        """Return pi(A | X) of the batch's rows, found by their row numbers in the log, (n,)."""
        rows = self._positions(batch)
        if self.column is not None:
            return self.column[rows]
        assert self.table is not None
        if batch.eligible is not None:
            return at_places(self.pairs(batch), batch.eligible.places(batch.action))
        return self.table[rows, batch.action]

    def pairs(self, batch: Batch) -> Floats:
        """Return the table's probabilities of eligible actions, divided by their sum, (m,)."""
        assert self.table is not None
        assert batch.eligible is not None
        rows, pairs = self._positions(batch), batch.eligible
        try:
            return renormalized(self.table[rows[pairs.rows], pairs.codes], pairs)
        except RowError as wrong:
            raise wrong.at(batch.row_numbers, self) from None

    def full(self, batch: Batch) -> Floats:
        """Return the full vectors of the batch's rows, (n, K)."""
        if self.table is None:
            raise UsageError(
                "this row-wise policy has the logged actions' probabilities only; "
                "give full vectors, (n, K)"
            )
        if batch.eligible is not None:
            return spread_out(self.pairs(batch), batch.eligible, len(self.actions))
        return self.table[self._positions(batch)]

    def onto(self, actions: Actions) -> Policy:
        """Return this policy over the log's actions; logged probabilities need no change."""
        if self.column is not None:
            return self
        return super().onto(actions)


def _is_series(values: Any) -> bool:
    """Whether it is one column. A Series may stream like a frame, but has a name and no columns."""
    return isinstance(values, pa.ChunkedArray) or (
        hasattr(values, "name") and not hasattr(values, "columns")
    )


@final
class RowChoices(Policy):
    """pi(A | X_t) = 1 if A is the action listed for row t.

    Use it in place of `RowWise` if the policy is deterministic and the actions are many: it holds
    one number per row.

    Args:
        choices: (n,) labels, one a row of the log, in its order.
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

    def draw(
        self,
        context: Floats | None,  # noqa: ARG002
        n: int,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Codes:
        """Raise: only the rows of the log are known."""
        self._unknown()

    def _of(self, batch: Batch) -> Codes:
        numbers = batch.row_numbers
        if len(numbers) and numbers.max() >= len(self.codes):
            raise UsageError(
                f"the log has a row {int(numbers.max())}, the policy {len(self.codes):,} "
                "choices; give one a row"
            )
        return self.codes[numbers]

    def logged(self, batch: Batch) -> Floats:
        """Return 1 if the logged action is the one chosen, else 0, (n,)."""
        chosen = self._of(batch)
        if batch.eligible is not None:
            try:
                # Raises if a choice is not eligible.
                taken(chosen, batch.eligible)
            except RowError as wrong:
                raise wrong.at(batch.row_numbers, self) from None
        same: Floats = (chosen == batch.action).astype(np.float64)
        return same

    def full(self, batch: Batch) -> Floats:
        """Return 1 for the action chosen and 0 for the others, (n, K)."""
        table = np.zeros((len(batch), len(self.actions)))
        table[np.arange(len(batch)), self._of(batch)] = 1.0
        return table

    def pairs(self, batch: Batch) -> Floats:
        """Return 1 for the action chosen and 0 for the other eligible ones, (m,)."""
        assert batch.eligible is not None
        try:
            return taken(self._of(batch), batch.eligible)
        except RowError as wrong:
            raise wrong.at(batch.row_numbers, self) from None
