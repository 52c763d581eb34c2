"""The engine of rows in a cluster: only states, as bytes, and error messages leave it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from piwo.engines.native_threads import native_threads
from piwo.engines.packed import packed, unpacked
from piwo.engines.settings import current_progress
from piwo.engines.task import Task, fold_fragment
from piwo.errors import DataError, FileError, PiwoError, UsageError
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment

__all__ = ["in_cluster"]

S = TypeVar("S")

_KINDS: dict[str, type[PiwoError]] = {
    kind.__name__: kind for kind in (DataError, FileError, UsageError)
}


def in_cluster(source: Cluster, columns: Sequence[str], task: Task[S]) -> S:
    """Return the state of all partitions.

    Args:
        source: maps and merges.
        columns: to read.
        task: what is computed from a partition, on the machine that holds it.

    Raises:
        PiwoError: the error of a partition; of several, that of the first partition.
    """
    # Partial applications of module functions can be pickled.
    one, merge = partial(_fold_partition, task), partial(_merge_parts, task)
    state, rows, failure = unpacked(source.fold(columns, one, merge))
    if failure is not None:
        _, kind, message = failure
        raise _KINDS[kind](message)
    progress = current_progress()
    if progress is not None:
        # Reported once: a cluster shows its own progress while it works.
        progress(rows, None)
    return task.from_bytes(state.tobytes())


def _fold_partition(task: Task[S], fragment: Fragment) -> bytes:
    """Return the packed state of a partition, or the error that its data raised."""
    try:
        # The tasks of the cluster use all cores already.
        with native_threads(1, "blas"):
            return _sent(task, *fold_fragment(task, fragment))
    except PiwoError as cause:
        # An error of the data is a result: a retry would read the same rows.
        kind = "DataError"
        for name, known in _KINDS.items():
            if isinstance(cause, known):
                kind = name
                break
        return packed((None, 0, (fragment.start, kind, str(cause))))


def _merge_parts(task: Task[S], parts: Iterable[bytes]) -> bytes:
    """Return the merged state of packed parts; at most two states are in memory at a time."""
    state, rows = task.empty(), 0
    failures: list[Any] = []
    for other, count, failure in map(unpacked, parts):
        if failure is not None:
            failures.append(failure)
            continue
        state = task.merge(state, task.from_bytes(other.tobytes()))
        rows += count
    if failures:
        return packed((None, 0, min(failures)))
    return _sent(task, state, rows)


def _sent(task: Task[S], state: S, rows: int) -> bytes:
    return packed((np.frombuffer(task.to_bytes(state), np.uint8), rows, None))
