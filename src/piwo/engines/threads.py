"""The engine of this machine: fragments, and the pieces of streams, on a thread for each core."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from threading import Event

from piwo.engines.settings import current_progress
from piwo.engines.task import Folded, Task
from piwo.sources.source import Fragment, Streamed

__all__ = ["on_threads"]


@contextmanager
def on_threads(
    task: Task, fragments: list[Fragment], *, total: int | None, pieces: int, rows: int
) -> Iterator[Iterable[Folded]]:
    """Give what the pieces sum to, in their order.

    Args:
        task: what is made of each.
        fragments: of the log.
        total: rows of the log, None where nobody knows.
        pieces: how many pieces have been folded before, which are passed over.
        rows: their rows.
    """
    from threadpoolctl import threadpool_limits

    stop, tell = Event(), current_progress()
    told = None if tell is None else lambda done: tell(done, total)
    if told is not None:
        told(0)
        if pieces:
            told(rows)
    # our threads are the parallelism; a BLAS that starts its own underneath would fight them
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield _in_order(
                pool, replace(task, stop=stop, tell=told), islice(_pieces(fragments), pieces, None)
            )
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


def _in_order(pool: ThreadPoolExecutor, task: Task, pieces: Iterable[Fragment]) -> Iterator[Folded]:
    """Yield the states of pieces in their order, never more of them waiting than keeps the workers busy."""
    waiting: deque[Future[Folded]] = deque()
    ahead = 2 * (os.cpu_count() or 1)
    for piece in pieces:
        waiting.append(pool.submit(task, piece))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
