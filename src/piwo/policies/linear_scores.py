"""Scores linear in the context, block by block: what the greedy and the softmax policy share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, numbers
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.policies.blocks import Codes, RowError, row_blocks

__all__ = ["best", "coefficients", "is_plain", "score_blocks"]


def coefficients(
    coef: Any, intercept: Any, actions: Actions, features: Features | None
) -> tuple[Floats, Floats]:
    """Return (K, d) coefficients and (K,) intercepts as float64 copies that nobody can change.

    Raises:
        UsageError: for other shapes, NaN or infinite numbers. An intercept may be -inf: that action
            is not available.
    """
    check_kind("features", features, (Features, type(None)))
    matrix, constant = numbers("coef", coef).copy(), numbers("intercept", intercept).copy()
    if matrix.ndim != 2 or len(matrix) != len(actions):
        raise UsageError(
            f"coef has shape {matrix.shape}, expected ({len(actions)}, d): one row an action"
        )
    if constant.shape != (len(actions),):
        raise UsageError(
            f"intercept has shape {constant.shape}, expected ({len(actions)},): one number an "
            "action"
        )
    if features is not None and features.width != matrix.shape[1]:
        raise UsageError(
            f"coef has {matrix.shape[1]} columns, the features make {features.width}: "
            f"{', '.join(features.names[:8])}"
        )
    if not np.isfinite(matrix).all():
        raise UsageError("coef holds NaN or infinite numbers, expected finite ones")
    if not (constant < np.inf).all():
        raise UsageError(
            "intercept holds NaN or +inf, expected finite numbers, or -inf for an action that is "
            "not available"
        )
    if not (constant > -np.inf).any():
        raise UsageError(
            "every intercept is -inf, so no action is available; make at least one finite"
        )
    matrix.flags.writeable = constant.flags.writeable = False
    return matrix, constant


def is_plain(X: Any, width: int | None) -> bool:
    """Whether X can be scored as it is; NaN and infinite numbers in it show in the scores."""
    return (
        isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2 and X.shape[1] == width
    )


def score_blocks(
    context: Floats, coef: Floats, intercept: Floats
) -> Iterator[tuple[slice, Floats]]:
    """Yield (rows, X C' + b) for blocks of rows, (m, K), in a buffer that the next block overwrites."""
    transposed = coef.T
    buffer: npt.NDArray[np.float64] | None = None
    # Scores of a NaN or infinite context are NaN or infinite, and `best` refuses them by row.
    with np.errstate(invalid="ignore", over="ignore"):
        for block in row_blocks(len(context), len(coef)):
            count = block.stop - block.start
            buffer = np.empty((count, len(coef))) if buffer is None else buffer
            scores = buffer[:count]
            np.matmul(context[block], transposed, out=scores)
            scores += intercept
            yield block, scores


def best(scores: Floats, start: int) -> tuple[Codes, Floats]:
    """Return each row's best action, the lowest code where several are best, and its score.

    Args:
        scores: (m, K); -inf: not available.
        start: row number of the first row, for errors.

    Returns:
        (m,) codes and (m,) scores, all finite.

    Raises:
        DataError: for a NaN or +inf score, or a row with no available action; the row is named.

    >>> best(np.array([[1.0, 2.0, 2.0]]), 0)[0].tolist()
    [1]
    """
    codes = scores.argmax(axis=1)
    # argmax finds a NaN before any number, so the row's winner shows whatever is wrong with the
    # row.
    top = scores[np.arange(len(scores)), codes]
    if not np.isfinite(top).all():
        row = int(np.flatnonzero(~np.isfinite(top))[0])
        problem = f"a score is {top[row]}; look for NaN, infinite or huge numbers in its context"
        if top[row] == -np.inf:
            problem = (
                "no action is available (every score is -inf); give at least one a finite score"
            )
        raise RowError(problem, start + row)
    return codes.astype(np.int32), top
