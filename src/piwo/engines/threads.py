"""The engine of this machine: one thread a core folds fragments and the pieces of streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from threading import Event
from typing import TypeVar

from piwo.engines.cores import cores
from piwo.engines.native_threads import native_threads
from piwo.engines.settings import current_progress
from piwo.engines.task import Task, fold_fragment
from piwo.sources.source import Fragment, Streamed

__all__ = ["on_threads"]

S = TypeVar("S")


@contextmanager
def on_threads(
    task: Task[S],
    fragments: list[Fragment],
    *,
    total: int | None,
    pieces: int,
    rows: int,
) -> Iterator[Iterable[tuple[S, int]]]:
    """Give the states and row counts of the pieces, in order; all work stops at the end.

    Args:
        task: what is computed from each piece.
        fragments: of the source.
        total: rows of the source, None if unknown.
        pieces: how many pieces were merged before; these are skipped.
        rows: their rows.
    """
    stop, progress = Event(), current_progress()
    report = None
    if progress is not None:

        def report(done: int) -> None:
            progress(done, total)

        report(0)
        if pieces:
            report(rows)
    waiting = islice(_pieces(fragments), pieces, None)
    worker = partial(fold_fragment, task, stop=stop, report=report)
    count = cores()
    if count == 1:
        # Handing pieces to one other thread and back would cost a tenth of the time.
        with native_threads(1):
            yield map(worker, waiting)
        return
    # The pool uses all cores; a BLAS with threads of its own would compete.
    workers = ThreadPoolExecutor(count, initializer=_without_threads)
    with native_threads(1, "blas"), workers as pool:
        try:
            yield _in_order(pool, worker, waiting, 2 * count)
        finally:
            # After an error, an interrupt, or when more rows would change nothing.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _without_threads() -> None:
    """Let OpenMP, whose setting is one for each thread, start no threads in a worker."""
    native_threads(1, "openmp")


def _pieces(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Yield what one worker folds at a time: fragments, and pieces of streams as they arrive."""
    for fragment in fragments:
        if isinstance(fragment, Streamed):
            yield from fragment.pieces()
        else:
            yield fragment


def _in_order(
    pool: ThreadPoolExecutor,
    worker: Callable[[Fragment], tuple[S, int]],
    pieces: Iterable[Fragment],
    ahead: int,
) -> Iterator[tuple[S, int]]:
    """Yield the states of pieces in order; the queue is as short as keeps the workers busy."""
    waiting: deque[Future[tuple[S, int]]] = deque()
    for piece in pieces:
        waiting.append(pool.submit(worker, piece))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
