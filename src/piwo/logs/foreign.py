"""Checks of what models, functions and policies of users return: one place for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.checks import real_array
from piwo.errors import DataError
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.sources.row_labels import place, places

__all__ = [
    "TOLERANCE",
    "RowError",
    "action_codes",
    "checked_numbers",
    "distributions",
    "log_probabilities",
    "pair_probabilities",
    "predictions",
    "probabilities",
]

TOLERANCE = 1e-4
"""How far the sum of a row may be from 1, or one probability above 1, for any K."""
# Sums this close to 1 differ from it by rounding in float64: such rows are kept as they are.
_ROUNDING = 1e-12
_SHOWN = 5


class RowError(DataError):
    """Some rows cannot be used. `rows` are positions in the input; a log replaces them by its own.

    Args:
        problem: what is wrong, and what to do.
        rows: the first of these rows, or the only one.
        count: how many there are; None: those of `rows`.

    >>> str(RowError("no", 7).at([3] * 8)), str(RowError("no", [1, 2], 9))
    ('row 3: no', 'row numbers from 0: 1, 2, ...: no')
    """

    def __init__(self, problem: str, rows: int | Sequence[int], count: int | None = None) -> None:
        given = [rows] if isinstance(rows, int) else rows
        self.problem = problem
        self.rows = tuple(int(row) for row in given)[:_SHOWN]
        self.count = count or len(given)
        where = place(self.rows[0])
        if self.count > 1:
            where = places(self.rows, self.count > len(self.rows))
        super().__init__(f"{where}: {problem}")

    def __reduce__(self) -> tuple[type[RowError], tuple[str, tuple[int, ...], int]]:
        """Keep the rows when pickled, as errors of worker processes are."""
        return RowError, (self.problem, self.rows, self.count)

    def at(self, numbers: Sequence[int] | npt.NDArray[np.int64], policy: object = None) -> RowError:
        """Return the error with the numbers that a log gives to its rows, (n,).

        Args:
            numbers: of the rows.
            policy: whose error it is, if it is not known yet; `piwo.compare` knows its name.
        """
        made = self._moved([int(numbers[row]) for row in self.rows])
        if made.policy is None:
            made.policy = policy
        return made

    def after(self, rows: int) -> RowError:
        """Return the error for an input that has this many rows before those that were checked."""
        return self._moved([row + rows for row in self.rows])

    def _moved(self, rows: Sequence[int]) -> RowError:
        made = RowError(self.problem, rows, self.count)
        made.policy = self.policy
        return made


def distributions(found: Any, rows: int, columns: int, giver: str) -> Floats:
    """Return probability vectors that a user's code gave, (rows, columns), each with the sum 1.

    Rows must sum to 1 within `TOLERANCE` and are divided by their sum, which removes the rounding
    of float32; rows that sum to 1 up to rounding in float64 are kept as they are.

    Args:
        found: what was returned.
        rows: n.
        columns: the number of actions or classes.
        giver: what returned it, for the error: "MyModel.predict_proba".

    Raises:
        DataError: for what is not numbers, has another shape, or is not a distribution in every
            row; the first rows are named.

    >>> distributions([[3, -1, -1]], 1, 3, "MyModel.predict_proba")
    Traceback (most recent call last):
    piwo.logs.foreign.RowError: row 0: MyModel.predict_proba gave [3, -1, -1], expected ...
    """
    table = checked_numbers(found, (rows, columns), giver)
    bad = ~((table >= 0.0) & (table <= 1.0 + TOLERANCE)).all(axis=1)
    sums = table.sum(axis=1)
    bad |= ~(np.abs(sums - 1.0) <= TOLERANCE)
    if bad.any():
        wrong = np.flatnonzero(bad)
        problem = _no_distribution(giver, table[wrong[0]], sums[wrong[0]])
        raise RowError(problem, wrong[:_SHOWN].tolist(), len(wrong))
    uneven = np.abs(sums - 1.0) > _ROUNDING
    if uneven.any():
        table = table.copy()
        table[uneven] /= sums[uneven, None]
    return table


def probabilities(found: Any, rows: int, giver: str) -> Floats:
    """Return probabilities of one action a row that a user's code gave, (rows,).

    >>> probabilities([5.0], 1, "Mine.chances")
    Traceback (most recent call last):
    piwo.logs.foreign.RowError: row 0: Mine.chances gave 5, expected a probability in [0, 1]
    """
    column = checked_numbers(found, (rows,), giver)
    bad = ~((column >= 0.0) & (column <= 1.0 + TOLERANCE))
    _refuse(bad, column, giver, "a probability in [0, 1]")
    return np.minimum(column, 1.0)


def pair_probabilities(found: Any, eligible: Eligible, giver: str) -> Floats:
    """Return probabilities of eligible actions that a user's code gave, (m,), by row with sum 1.

    Args:
        found: what was returned.
        eligible: the pairs of a row and an action.
        giver: what returned it, for the error.

    Raises:
        DataError: as `distributions`.

    >>> some = Eligible(np.array([0, 2]), np.array([4, 1], np.int32))
    >>> pair_probabilities([0.5, 0.1], some, "Mine.within")
    Traceback (most recent call last):
    piwo.logs.foreign.RowError: row 0: Mine.within gave [0.5, 0.1] with the sum 0.6, expected ...
    """
    pairs = len(eligible.codes)
    column = checked_numbers(found, (pairs,), giver, "pairs of a row and an eligible action")
    sums = np.bincount(eligible.rows, column, minlength=len(eligible))
    bad = ~(np.abs(sums - 1.0) <= TOLERANCE)
    outside = ~((column >= 0.0) & (column <= 1.0 + TOLERANCE))
    bad[eligible.rows[outside]] = True
    if bad.any():
        rows = np.flatnonzero(bad)
        first = column[eligible.starts[rows[0]] : eligible.starts[rows[0] + 1]]
        problem = _no_distribution(giver, first, sums[rows[0]])
        raise RowError(problem, rows[:_SHOWN].tolist(), len(rows))
    if (np.abs(sums - 1.0) > _ROUNDING).any():
        column = column / sums[eligible.rows]
    return column


def log_probabilities(found: Any, rows: int, giver: str) -> Floats:
    """Return logarithms of probabilities of one action a row, (rows,); -inf for 0.

    >>> log_probabilities([-np.inf, 0.0], 2, "Mine.log_logged").tolist()
    [-inf, 0.0]
    """
    column = checked_numbers(found, (rows,), giver)
    bad = ~(column <= TOLERANCE)
    _refuse(bad, column, giver, "the logarithm of a probability, at most 0")
    return np.minimum(column, 0.0)


def predictions(found: Any, shape: tuple[int, ...], giver: str) -> Floats:
    """Return predicted rewards that a user's code gave: finite numbers of this shape.

    >>> predictions([[0.5, np.nan]], (1, 2), "MyModel.predict")
    Traceback (most recent call last):
    piwo.logs.foreign.RowError: row 0: MyModel.predict gave [0.5, nan], expected finite numbers
    """
    table = checked_numbers(found, shape, giver)
    expected = "a finite number"
    if table.ndim == 2:
        expected = "finite numbers"
    finite = np.isfinite(table).reshape(len(table), -1)
    _refuse(np.asarray(~finite.all(axis=1)), table, giver, expected)
    return table


def action_codes(found: Any, rows: int, actions: int, giver: str) -> npt.NDArray[np.int32]:
    """Return action codes that a user's code gave, (rows,), each from 0 to actions - 1.

    >>> action_codes([0, 2], 2, 2, "Mine.decide")
    Traceback (most recent call last):
    piwo.logs.foreign.RowError: row 1: Mine.decide gave 2, expected the code of an action, 0..1
    """
    column = checked_numbers(found, (rows,), giver)
    bad = ~((column >= 0) & (column < actions) & (column == np.floor(column)))
    _refuse(bad, column, giver, f"the code of an action, 0..{actions - 1}")
    return column.astype(np.int32)


def checked_numbers(found: Any, shape: tuple[int, ...], giver: str, what: str = "rows") -> Floats:
    """Return numbers of this shape; neither one row nor one column stands for many.

    >>> checked_numbers([[0.5, 0.5]], (60, 2), "behavior.probabilities")
    Traceback (most recent call last):
    piwo.errors.DataError: behavior.probabilities gave the shape (1, 2), expected ...
    """
    wanted = _words(shape, what)
    if found is None:
        raise DataError(f"{giver} gave None, expected {wanted}")
    try:
        numbers = real_array(found)
    except (TypeError, ValueError):
        raise DataError(
            f"{giver} gave what is not numbers ({type(found).__name__}), expected {wanted}"
        ) from None
    if numbers.shape != shape:
        raise DataError(f"{giver} gave the shape {numbers.shape}, expected {wanted}")
    return numbers


def _words(shape: tuple[int, ...], what: str) -> str:
    words = f"the shape {shape}: one number for each of {shape[0]} {what}"
    if len(shape) == 2:
        words += f" and {shape[1]} actions"
    return words


def _refuse(bad: npt.NDArray[np.bool_], found: Floats, giver: str, expected: str) -> None:
    if not bad.any():
        return
    rows = np.flatnonzero(bad)
    first = found[rows[0]]
    shown = f"{first:.6g}" if first.ndim == 0 else _row(first)
    raise RowError(f"{giver} gave {shown}, expected {expected}", rows[:_SHOWN].tolist(), len(rows))


def _no_distribution(giver: str, values: Floats, total: float) -> str:
    """Return what is wrong with the probabilities of a row, and their sum if that is it."""
    found = f"{giver} gave {_row(values)}"
    if math.isfinite(total) and abs(total - 1.0) > TOLERANCE:
        found += f" with the sum {total:.6g}"
    return f"{found}, expected probabilities in [0, 1] that sum to 1"


def _row(values: Floats) -> str:
    few = [f"{value:.6g}" for value in values[:_SHOWN]]
    more = ", ..." if len(values) > _SHOWN else ""
    return f"[{', '.join(few)}{more}]"
