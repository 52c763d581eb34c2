"""A policy given row by row for one log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import Codes
from piwo.policies.distributions import checked_distributions, checked_probabilities, named_table
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.sources.frames import is_frame

__all__ = ["RowWise"]


@final
class RowWise(Policy):
    """pi on the rows of one log: of the logged actions, or full vectors. Row t belongs to row t of the log.

    Prefer it where the probabilities were computed elsewhere and the log cannot be written again.

    Args:
        values: (n,) pi(A | X) of the logged actions; or (n, K) full vectors: a data frame with one
            column an action, matched by name, or a plain array in the order of `actions`.
        actions: the K labels. A frame's column names are the labels where it is left out.

    Attributes:
        index: the pandas index of `values`, or None; `piwo.sources.frames.same_index` compares it
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

    def distribution(self, context: Floats | None, n: int) -> Floats:  # noqa: ARG002 (the rows are the context)
        """Return the table, (n, K); n must be its length."""
        if self.table is None:
            raise UsageError(
                "this row-wise policy has the logged actions' probabilities only; give full "
                "vectors, (n, K)"
            )
        if n != self.rows:
            raise UsageError(
                f"this row-wise policy has {self.rows} rows and was asked for {n}; it knows its "
                "own log only"
            )
        return self.table

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the table's entry of one action a row, (n,)."""
        return self.distribution(context, len(codes))[np.arange(len(codes)), codes]

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:  # noqa: ARG002
        """Raise: there is nothing to act on."""
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
                f"this row-wise policy has {self.rows} rows, the log has at least "
                f"{int(numbers.max()) + 1}; give one row a row of the log, in the log's order"
            )
        return numbers

    def logged(self, batch: Batch) -> Floats:
        """Return pi(A | X) of the batch's rows, found by their row numbers in the log, (n,)."""
        rows = self._positions(batch)
        if self.column is not None:
            return self.column[rows]
        assert self.table is not None
        return self.table[rows, batch.action]

    def full(self, batch: Batch) -> Floats:
        """Return the full vectors of the batch's rows, (n, K)."""
        if self.table is None:
            raise UsageError(
                "this row-wise policy has the logged actions' probabilities only; give full "
                "vectors, (n, K)"
            )
        return self.table[self._positions(batch)]

    def onto(self, actions: Actions) -> Policy:
        """Return this policy over the log's actions; probabilities of logged actions are already."""
        return self if self.column is not None else super().onto(actions)


def _is_series(values: Any) -> bool:
    """Whether it is one column: a Series may stream as frames do, but has a name and no columns."""
    return isinstance(values, pa.ChunkedArray) or (
        hasattr(values, "name") and not hasattr(values, "columns")
    )
