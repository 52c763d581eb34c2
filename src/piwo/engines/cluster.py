"""The engine of rows in a cluster: states travel as bytes, rows and stack traces do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from piwo.engines.packed import packed, unpacked
from piwo.engines.settings import current_progress
from piwo.engines.task import Task, Worker
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
        task: what is made of a partition, where it is.

    Raises:
        PiwoError: what a partition raised; of several, the first partition's.
    """
    state, rows, failure = unpacked(source.fold(columns, _One(task), _Merge(task)))
    if failure is not None:
        _, kind, message = failure
        raise _KINDS[kind](message)
    progress = current_progress()
    if progress is not None:  # clusters have displays of their own while they work
        progress(rows, None)
    return task.from_bytes(state.tobytes())


@dataclass(frozen=True)
class _One(Generic[S]):
    """Folds a partition. An error of the data is a result: a retry would meet the same rows."""

    task: Task[S]

    def __call__(self, fragment: Fragment) -> bytes:
        from threadpoolctl import threadpool_limits

        try:
            with threadpool_limits(1, "blas"):  # the cluster's tasks are the parallelism
                return _sent(self.task, *Worker(self.task)(fragment))
        except PiwoError as cause:
            names = (name for name, kind in _KINDS.items() if isinstance(cause, kind))
            failure = (fragment.start, next(names, "DataError"), str(cause))
            return packed((None, 0, failure))


@dataclass(frozen=True)
class _Merge(Generic[S]):
    """Merges what partitions were made into, one after the other: two states are held at a time."""

    task: Task[S]

    def __call__(self, parts: Iterable[bytes]) -> bytes:
        task, state, rows, failures = self.task, self.task.empty(), 0, list[Any]()
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
