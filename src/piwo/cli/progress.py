"""Progress of a pass over the log: a bar on a terminal's standard error, removed at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock
from typing import Any

import piwo

__all__ = ["progress", "spark_starts"]

PATIENCE = 0.5
"""Seconds before the bar is shown; most passes are over by then."""


def spark_starts(paths: Sequence[str]) -> bool:
    """Whether reading these logs starts Spark in this process, which takes a while in silence.

    >>> spark_starts(["log.parquet"])
    False
    """
    if not any(path.startswith("spark:") for path in paths):
        return False
    if "pyspark.sql" not in sys.modules:
        return find_spec("pyspark") is not None
    sql: Any = sys.modules["pyspark.sql"]  # None where a test hides it
    return sql is not None and sql.SparkSession.getActiveSession() is None


@contextmanager
def progress(quiet: bool = False) -> Iterator[None]:
    """Show rows done and the time left inside the block; nothing if quiet or without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.completed:,.0f} rows"),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    try:
        with piwo.reporting(reporter(bar)):
            yield
    finally:
        bar.stop()


def reporter(bar: object) -> Callable[[int, int | None], None]:
    """Return the function that engines call with rows done: it starts the bar late, anew each pass.

    If the number of rows is unknown, as for a query, the pass before has counted them.
    """
    from rich.progress import Progress

    assert isinstance(bar, Progress)
    task = bar.add_task("", total=None)
    started, lock, done, counted = time.monotonic(), Lock(), 0, 0

    def report(rows: int, total: int | None) -> None:
        nonlocal done, counted
        with lock:
            if rows == 0 or (total is not None and done >= total):
                # the next pass begins
                counted, done = max(counted, done), 0
                bar.reset(task)
            done += rows
            if not bar.live.is_started and time.monotonic() - started > PATIENCE:
                bar.start()
            expected = total
            if total is None and counted:
                expected = max(counted, done)
            bar.update(task, completed=done, total=expected)

    return report
