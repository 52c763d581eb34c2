"""The engine of this machine: fragments, and the pieces of streams, on a thread for each core."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from threading import Event
from typing import TypeVar

from piwo.engines.settings import current_progress
from piwo.engines.task import Task, Worker
from piwo.sources.source import Fragment, Streamed

__all__ = ["on_threads"]

S = TypeVar("S")


@contextmanager
def on_threads(
    task: Task[S], fragments: list[Fragment], *, total: int | None, pieces: int, rows: int
) -> Iterator[Iterable[tuple[S, int]]]:
    """Give the states of the pieces and their numbers of rows, in order; at the end all work stops.

    Args:
        task: what is made of each piece.
        fragments: of the source.
        total: rows of the source, None if unknown.
        pieces: how many pieces were merged before; these are skipped.
        rows: their rows.
    """
    from threadpoolctl import threadpool_limits

    stop, progress = Event(), current_progress()
    report = None
    if progress is not None:

        def report(done: int) -> None:
            progress(done, total)

        report(0)
        if pieces:
            report(rows)
    waiting = islice(_pieces(fragments), pieces, None)
    # our threads are the parallelism; a BLAS that starts its own underneath would fight them
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield _in_order(pool, Worker(task, stop, report), waiting)
        finally:  # an error, an interrupt, or more rows would change nothing
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _pieces(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Yield what one worker folds at a time: fragments, and the pieces of a stream as they come."""
    for fragment in fragments:
        if isinstance(fragment, Streamed):
            yield from fragment.pieces()
        else:
            yield fragment


def _in_order(
    pool: ThreadPoolExecutor, worker: Worker[S], pieces: Iterable[Fragment]
) -> Iterator[tuple[S, int]]:
    """Yield the states of pieces in order; as few wait as keep the workers busy."""
    waiting: deque[Future[tuple[S, int]]] = deque()
    ahead = 2 * (os.cpu_count() or 1)
    for piece in pieces:
        waiting.append(pool.submit(worker, piece))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
