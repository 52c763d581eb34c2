"""Blocks of rows, threads over them, and the limit of a table of rows x actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, shown
from piwo.engines.cores import cores
from piwo.engines.native_threads import native_threads
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.messages import argument
from piwo.sources.frames import is_frame, to_table

__all__ = [
    "DENSE_LIMIT",
    "Codes",
    "check_dense",
    "check_size",
    "row_blocks",
    "row_count",
    "spread",
    "take",
]

T = TypeVar("T")

Codes = npt.NDArray[np.int32]

DENSE_LIMIT = 4 * 2**30
"""Largest table, in bytes, that is made: of rows x actions, or of the sums of every action."""

# A block of scores this small stays in the second-level cache: measured 3 to 5 times faster than
# blocks of 1 MB and more.
_BLOCK_BYTES = 2**17
# Below this many rows a matrix product no longer pays; above this many bytes a block is a table.
_LEAST_ROWS = 64
_MOST_BYTES = 2**26


def row_blocks(rows: int, actions: int, size: int | None = None) -> Iterator[slice]:
    """Cut rows into slices whose (rows, actions) block of float64 is small, at most 64 MB.

    Args:
        rows: n.
        actions: K.
        size: target size in bytes; None: what fits the cache.

    >>> [(x.start, x.stop) for x in row_blocks(1000, 32)]
    [(0, 512), (512, 1000)]
    """
    step = block_rows(actions, size)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def block_rows(actions: int, size: int | None = None) -> int:
    """Return the number of rows of a block of `row_blocks`.

    >>> block_rows(32)
    512
    """
    bytes_a_row = 8 * actions
    least = min(_LEAST_ROWS, _MOST_BYTES // bytes_a_row)
    return max((size or _BLOCK_BYTES) // bytes_a_row, least, 1)


def take(context: Floats | None, rows: slice | npt.NDArray[Any]) -> Floats | None:
    """Return some rows of a context; None for policies that need none.

    >>> take(np.eye(2), slice(1)).tolist(), take(None, slice(1))
    ([[1.0, 0.0]], None)
    """
    if context is None:
        return None
    return context[rows]


def spread(rows: int, step: int, work: Callable[[slice], T]) -> list[T]:
    """Apply a function to each slice of `step` rows, on all cores; results are in row order.

    Args:
        rows: n.
        step: rows in a slice.
        work: called from several threads at once.

    >>> spread(5, 2, lambda rows: rows.stop - rows.start)
    [2, 2, 1]
    """
    slices = [slice(at, min(at + step, rows)) for at in range(0, rows, step)]
    workers = max(1, min(len(slices), cores()))
    # Our threads use all cores already; BLAS threads inside them would compete for these cores.
    if workers == 1:
        with native_threads(1, "blas"):
            return [work(rows) for rows in slices]
    with native_threads(1, "blas"), ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(work, slices))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def check_dense(rows: int, actions: int) -> None:
    """Refuse a table of rows x actions that is too large, before it is allocated.

    Raises:
        UsageError: if rows * actions * 8 bytes is more than `DENSE_LIMIT`.

    >>> check_dense(1_000_000, 50_000)
    Traceback (most recent call last):
    piwo.errors.UsageError: a table of 1,000,000 rows x 50000 actions needs 400.0 GB, ...
    """
    what = f"a table of {rows:,} rows x {actions} actions"
    check_size(what, rows * actions, "use probability(X, codes) for one action per row, or act(X)")


def check_size(what: str, numbers: int, instead: str) -> None:
    """Refuse a table that is too large, before it is allocated.

    Args:
        what: the table, in words.
        numbers: how many float64 it holds.
        instead: the advice.

    Raises:
        UsageError: if it takes more than `DENSE_LIMIT` bytes.

    >>> check_size("a table of gains", 10**9, "read fewer rows")
    Traceback (most recent call last):
    piwo.errors.UsageError: a table of gains needs 8.0 GB, the limit is 4.3 GB; read fewer rows
    """
    needed = 8 * numbers
    if needed > DENSE_LIMIT:
        raise UsageError(
            f"{what} needs {needed / 1e9:.1f} GB, the limit is {DENSE_LIMIT / 1e9:.1f} GB; "
            f"{instead}"
        )


def row_count(X: Any, n: int | None) -> int:
    """Return the number of contexts, or n if there are none.

    Raises:
        UsageError: if neither is given, or they differ.

    >>> row_count([[0.5], [1.0]], None), row_count(None, 3)
    (2, 3)
    """
    if X is None:
        if n is None:
            raise UsageError(
                f"got neither contexts nor a number of rows; pass {argument('X')} or "
                f"{argument('n')}"
            )
        check_count("n", n, 0)
        return int(n)
    if not is_frame(X) and (not hasattr(X, "__len__") or isinstance(X, str)):
        raise UsageError(
            f"{argument('X')} is {shown(X)}, expected a data frame or an (n, d) matrix of contexts"
        )
    if is_frame(X):
        rows: int = to_table(X).num_rows
    else:
        rows = len(X)
    if n is not None and n != rows:
        raise UsageError(f"got {rows} contexts and {argument('n', n)}; leave {argument('n')} out")
    return rows


def checked_codes(codes: Any, actions: int) -> Codes:
    """Return action codes as int32, all of them within 0..K-1.

    Raises:
        UsageError: for codes that are not whole numbers, or outside 0..K-1.
    """
    found = np.asarray(codes)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(
            f"action codes have shape {found.shape} and type {found.dtype}, expected "
            "(n,) whole numbers; turn labels into codes with actions.codes(labels)"
        )
    if found.size and not (found.min() >= 0 and found.max() < actions):
        row = int(np.flatnonzero((found < 0) | (found >= actions))[0])
        raise UsageError(
            f"action code {found[row]} at row {row} is outside 0..{actions - 1}; -1 is "
            "the code of a label that is not in the list"
        )
    return found.astype(np.int32, copy=False)
