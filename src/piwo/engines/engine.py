"""The engine: maps a reduction over the fragments of a log and folds the states. It knows no formula."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from threading import Event
from typing import Any, Protocol, TypeVar, runtime_checkable

from piwo.checks import shown
from piwo.engines.checkpoint import Passed, current
from piwo.engines.cluster import in_cluster
from piwo.errors import DataError, UsageError
from piwo.logs.clusters import Cluster
from piwo.logs.door import Finding, Refused
from piwo.logs.log import Log, Reader, warn_of
from piwo.logs.sources import Fragment, Streamed
from piwo.reductions.reduction import Reduction

__all__ = ["Mapper", "reduce", "reporting", "telling", "using"]

S = TypeVar("S")
T = TypeVar("T")
Progress = Callable[[int, int | None], None]
"""Told (rows done since last told, rows in all or None)."""
Folded = tuple[Any, list[Finding], int]
"""State, harmless findings and row count of one fragment."""


@runtime_checkable
class Mapper(Protocol):
    """Anything that maps a function over fragments: executors, a Dask client, joblib behind a one-line adapter."""

    def map(self, fn: Callable[[Any], Any], fragments: Iterable[Any], /) -> Iterable[Any]:
        """Return fn of every fragment, in order."""
        ...


_mapper: ContextVar[Mapper | None] = ContextVar("piwo_mapper", default=None)
_progress: ContextVar[Progress | None] = ContextVar("piwo_progress", default=None)


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Have a variable hold a value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def using(mapper: Mapper) -> AbstractContextManager[None]:
    """Run every pass over a log inside the block on another mapper.

    Args:
        mapper: has `map(fn, fragments)`, such as a `concurrent.futures` executor.

    Returns:
        A context manager.

    >>> with ThreadPoolExecutor(1) as pool, using(pool):
    ...     pass
    """
    if not callable(getattr(mapper, "map", None)):
        raise UsageError(f"mapper is {shown(mapper)}, expected something with map(fn, fragments), such as an executor")
    return _set(_mapper, mapper)


def reporting(progress: Progress) -> AbstractContextManager[None]:
    """Tell a function of the rows done by passes inside the block.

    Args:
        progress: called with (rows done since the last call, rows of the source or None), from any thread; with 0 rows
            where a pass begins.

    Returns:
        A context manager.

    >>> import piwo
    >>> log, told = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0]), []
    >>> with reporting(lambda done, total: told.append((done, total))):
    ...     value = piwo.evaluate(log, piwo.policies.Logging()).value
    >>> told
    [(0, 1), (1, 1)]
    """
    if not callable(progress):
        raise UsageError(f"progress is {shown(progress)}, expected a function of (rows done, rows in all)")
    return _set(_progress, progress)


def telling() -> Progress | None:
    """Return the function that `reporting` set, for work that is no pass over a log; None outside of its blocks.

    >>> telling() is None
    True
    """
    return _progress.get()


@dataclass(frozen=True)
class _Task:
    """What one worker does: fold the batches of one fragment."""

    reader: Reader
    reduction: Reduction[Any]
    stop: Event | None = None
    tell: Callable[[int], None] | None = None

    def __call__(self, fragment: Fragment) -> Folded:
        state, notes, rows = self.reduction.empty(), list[Finding](), 0
        for part in self.reader.read(fragment):
            if self.stop is not None and self.stop.is_set():
                break
            notes += part.findings
            rows += len(part.batch)
            if len(part.batch):
                state = self.reduction.update(state, part.batch)
            if self.tell is not None:
                self.tell(part.rows)
        return state, notes, rows


def reduce(log: Log, reduction: Reduction[S]) -> S:
    """Return the state of a whole log: one pass, all cores, the same numbers however it is cut.

    Threads by default (the kernels release the interpreter lock); another mapper with `using`. States are folded in
    the order of the fragments, so a result does not depend on which worker was first.

    Args:
        log: the rows.
        reduction: what to sum.

    Raises:
        DataError: for rows that break a rule, and for a log without rows.

    >>> from piwo.reductions import Digest
    >>> log = Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.5])
    >>> reduce(log, Digest()).rows
    2
    """
    fragments = [] if isinstance(log.source, Cluster) else log.fragments(reduction.context, reduction.propensities)
    kept = current()
    passed = Passed(reduction.empty()) if kept is None else kept.begin(log, reduction, _cut(fragments))
    if not passed.done:
        passed = _folded(log, reduction, fragments, passed)
    if passed.rows == 0:
        raise DataError(f"no rows in {log.name}, expected at least one logged decision")
    warn_of(passed.findings)
    state: S = passed.state
    return state


def _folded(log: Log, reduction: Reduction[Any], fragments: list[Fragment], passed: Passed) -> Passed:
    """Return a pass that is done, going on where it had come to."""
    kept = current()
    if not log.source.steady:  # what the first pieces held once says nothing of what they hold now
        passed = Passed(reduction.empty())
    try:
        with _states(log, reduction, fragments, passed) as parts:
            for part, findings, count in parts:
                passed = passed.plus(reduction.merge(passed.state, part), findings, count)
                if kept is not None:
                    kept.keep(passed)
    except Refused as refused:
        raise log.counted(refused) from None
    passed = replace(passed, done=True)
    if kept is not None:
        kept.keep(passed)
    return passed


def _cut(fragments: list[Fragment]) -> str:
    """Say how a log is cut: mappers get the fragments, threads the pieces of those that are streams."""
    streams = _mapper.get() is None and any(isinstance(x, Streamed) for x in fragments)
    return f"{len(fragments)} {'streams' if streams else 'fragments'}"


def _states(
    log: Log, reduction: Reduction[Any], fragments: list[Fragment], passed: Passed
) -> AbstractContextManager[Iterable[Folded]]:
    """Give what the pieces after those that have passed sum to."""
    chosen, task = _mapper.get(), _Task(log.reader(reduction.labels, reduction.context), reduction)
    if isinstance(log.source, Cluster):
        return _clustered(log, log.source, task)
    if chosen is not None:
        return _mapped(chosen, task, fragments[passed.pieces :])
    return _threads(log, task, fragments, passed)


@contextmanager
def _clustered(log: Log, source: Cluster, task: _Task) -> Iterator[Iterable[Folded]]:
    reduction, tell = task.reduction, _progress.get()
    found = in_cluster(source, log.wanted(reduction.context, reduction.propensities), reduction, task)
    if tell is not None:  # clusters have displays of their own while they work
        tell(found[2], None)
    yield [found]


@contextmanager
def _mapped(mapper: Mapper, task: _Task, fragments: list[Fragment]) -> Iterator[Iterable[Folded]]:
    yield mapper.map(task, fragments)


@contextmanager
def _threads(log: Log, task: _Task, fragments: list[Fragment], passed: Passed) -> Iterator[Iterable[Folded]]:
    from threadpoolctl import threadpool_limits

    stop, tell = Event(), telling()
    told = None if tell is None else lambda rows: tell(rows, log.source.rows)
    if told is not None:
        told(0)
        if passed.pieces:
            told(passed.rows)
    pieces = islice(_pieces(fragments), passed.pieces, None)
    # our threads are the parallelism; a BLAS that starts its own underneath would fight them
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield _in_order(pool, replace(task, stop=stop, tell=told), pieces)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _pieces(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Yield what one worker folds at a time: fragments, and the pieces of a stream as they come."""
    for fragment in fragments:
        if isinstance(fragment, Streamed):
            yield from fragment.pieces()
        else:
            yield fragment


def _in_order(pool: ThreadPoolExecutor, task: _Task, pieces: Iterable[Fragment]) -> Iterator[Folded]:
    """Yield the states of pieces in their order, never more of them waiting than keeps the workers busy."""
    waiting: deque[Future[Folded]] = deque()
    ahead = 2 * (os.cpu_count() or 1)
    for piece in pieces:
        waiting.append(pool.submit(task, piece))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
