"""Predicted rewards of the eligible actions of each row, in the forms that users have them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.errors import DataError, UsageError
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import is_list, predictions_of
from piwo.logs.findings import Findings, Refused
from piwo.logs.foreign import RowError, checked_numbers
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.sources.frames import unmasked

__all__ = ["PREDICTIONS", "PairFunction", "PairLists", "lists_of", "takes_pairs"]

PREDICTIONS = "predictions"
"""The word for the log's own column of predicted rewards."""


@dataclass(frozen=True)
class PairLists:
    """Predicted rewards as n lists in memory, one reward for each eligible action.

    >>> from piwo.logs.eligible import Eligible
    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> batch = Batch(0, np.array([4, 4], np.int32), np.ones(2), np.ones(2), eligible=some)
    >>> PairLists(pa.array([[0.5, 0.25], [1.0]])).of(batch).tolist()
    [0.5, 0.25, 1.0]
    """

    lists: pa.Array
    """n lists of numbers, in the order of the log's rows."""
    needs_context: bool = False

    def of(self, batch: Batch) -> Floats:
        """Return the predicted rewards of all pairs in their own unit, (m,).

        Raises:
            DataError: for lists of another length than those of eligible actions, and for numbers
                that are missing or infinite, naming the rows.
        """
        assert batch.eligible is not None
        rows = batch.row_numbers
        if len(rows) and rows.max() >= len(self.lists):
            raise DataError(
                f"{argument('q')} has {len(self.lists):,} lists, expected one for each row of the "
                f"log, in its order, and there is a row {rows.max():,} (from 0)"
            )
        findings = Findings(rows)
        found = predictions_of(self.lists.take(pa.array(rows)), "q", batch.eligible, findings)
        if findings.fatal:
            raise Refused(findings.fatal)
        assert found.predictions is not None
        return found.predictions


@dataclass(frozen=True, eq=False)
class PairFunction:
    """Predicted rewards from a function of the contexts and labels of pairs.

    >>> from piwo.logs.eligible import Eligible
    >>> some = Eligible(np.array([0, 2, 3]), np.array([1, 0, 1], np.int32))
    >>> batch = Batch(0, np.array([1, 1], np.int32), np.ones(2), np.ones(2), eligible=some)
    >>> PairFunction(lambda x, labels: labels * 2.0, np.array([5, 7]), False).of(batch).tolist()
    [14.0, 10.0, 14.0]
    """

    function: Callable[[Floats, Any], Any]
    """Contexts (m, d) and labels (m,) of pairs to their predicted rewards, (m,)."""
    labels: npt.NDArray[Any]
    """(K,) those of the actions, in the order of their codes."""
    needs_context: bool = True
    """False for a log without context: contexts have no columns then."""

    def of(self, batch: Batch) -> Floats:
        """Return the predicted rewards of all pairs in their own unit, (m,).

        Raises:
            DataError: for another number of predictions than pairs, and for predictions that are
                NaN or infinite, naming the row.
        """
        some = batch.eligible
        assert some is not None
        context = batch.context
        if context is None:
            context = np.empty((len(batch), 0))
        given = self.function(context[some.rows], self.labels[some.codes])
        found = checked_numbers(given, (len(some.codes),), "the reward model", "pairs")
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            label, value = self.labels[some.codes[bad[0]]], found[bad[0]]
            raise RowError(
                f"the reward model gave {value} for {str(label)!r}, expected a finite number",
                np.unique(batch.row_numbers[some.rows[bad]]).tolist(),
            )
        return found


def takes_pairs(q: Any) -> bool:
    """Whether a function needs two arguments: the contexts of pairs and their labels.

    >>> takes_pairs(lambda x, labels: x), takes_pairs(lambda x: x), takes_pairs(3)
    (True, False, False)
    """
    if not callable(q) or hasattr(q, "predict"):
        return False
    try:
        parameters = inspect.signature(q).parameters.values()
    except (TypeError, ValueError):
        # functions of other languages may not say
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in places and one.default is one.empty]
    return len(needed) == 2


def lists_of(q: Any, log: Log, rows: int | None) -> pa.Array | None:
    """Return lists of predicted rewards as an Arrow array; None for anything else.

    A table with a column for each action, which may be an array or a data frame, is no list of
    those that are eligible.

    Args:
        q: the argument.
        log: with eligible actions.
        rows: number of rows of the log before a split; None if unknown.

    Raises:
        DataError: for lists of anything but numbers.
        UsageError: for another number of lists than rows.
    """
    array = _list_array(q, len(log.actions))
    if array is None:
        return None
    if rows is not None and len(array) != rows:
        raise UsageError(
            f"{argument('q')} has {len(array):,} lists, the log has {rows:,} rows; give one for "
            "each row of the log, in its order"
        )
    return array


def _list_array(q: Any, actions: int) -> pa.Array | None:
    if isinstance(q, pa.ChunkedArray):
        q = q.combine_chunks()
    if isinstance(q, pa.Array):
        return q if is_list(q.type) else None
    if isinstance(q, str | Mapping | pa.Table | pa.RecordBatch) or hasattr(q, "columns"):
        return None
    if isinstance(q, np.ndarray) and q.dtype != object and (q.ndim != 2 or q.shape[1] == actions):
        return None
    if not isinstance(q, Iterable):
        return None
    listed = [_plain(one) for one in unmasked(q)]
    if not all(one is None or isinstance(one, list | tuple) for one in listed):
        return None
    try:
        return pa.array(listed, pa.list_(pa.float64()))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as cause:
        line = " ".join(str(cause).split())[:200]
        raise DataError(
            f"{argument('q')} cannot be read as lists of the predicted rewards of the eligible "
            f"actions: {line}"
        ) from None


def _plain(entry: Any) -> Any:
    """Return an array, or a polars Series, as a list; anything else as it is."""
    if isinstance(entry, np.ndarray):
        return entry.tolist()
    if hasattr(entry, "to_list"):
        return entry.to_list()
    return entry
