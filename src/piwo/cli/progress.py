"""Progress of a pass over the log: a bar on standard error, if that is a terminal."""

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
"""Seconds before the bar is shown; most commands have finished by then."""


def spark_starts(paths: Sequence[str]) -> bool:
    """Whether reading these logs starts Spark in this process, which prints nothing for a while.

    >>> spark_starts(["log.parquet"])
    False
    """
    if not any(path.startswith("spark:") for path in paths):
        return False
    if "pyspark.sql" not in sys.modules:
        # Without Spark, nothing starts: an error says how to install it.
        return find_spec("pyspark") is not None
    # None means that a test hides the module.
    sql: Any = sys.modules["pyspark.sql"]
    return sql is not None and sql.SparkSession.getActiveSession() is None


@contextmanager
def progress(quiet: bool = False) -> Iterator[None]:
    """Show the rows done and the time left inside the block, on a terminal and unless `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    # Imported only if a bar may be shown, as it takes a while.
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
    """Return the function that engines call with each number of rows done.

    A command makes several passes over the log; the bar starts at 0 for each. If a source does not
    know its number of rows (a query), later passes use the count of the first.
    """
    from rich.progress import Progress

    assert isinstance(bar, Progress)
    task = bar.add_task("", total=None)
    started = time.monotonic()
    # Threads of the engine call `report` at the same time.
    lock = Lock()
    done = counted = 0

    def report(rows: int, total: int | None) -> None:
        nonlocal done, counted
        with lock:
            # An engine reports 0 rows when a pass begins.
            if rows == 0 or (total is not None and done >= total):
                counted = max(counted, done)
                done = 0
                bar.reset(task)
            done += rows
            if not bar.live.is_started and time.monotonic() - started > PATIENCE:
                bar.start()
            expected = total
            if total is None and counted:
                expected = max(counted, done)
            bar.update(task, completed=done, total=expected)

    return report
