"""Progress of a pass over the log: a bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Event, Lock, Thread
from typing import Any

import piwo
from piwo.cli.interrupts import goes_on
from piwo.cli.notices import on_stderr
from piwo.engines import Stage

__all__ = ["SILENCE", "progress", "spark_starts", "stage_lines"]

PATIENCE = 0.5
"""Seconds before the bar is shown; most commands have finished by then."""
SILENCE = 10.0
"""Most seconds without a line while a learner works. The first line comes after half of them."""


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
    """Show how far the work inside the block is, unless `quiet`.

    Stages of learning are lines on standard error; rows done and time left are a bar on a terminal.
    """
    if quiet:
        with piwo.engines.stages(_after_interrupt):
            yield
        return
    if not sys.stderr.isatty():
        with stage_lines(on_stderr):
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
        with piwo.reporting(reporter(bar)), stage_lines(bar.console.print):
            yield
    finally:
        bar.stop()


@contextmanager
def stage_lines(write: Callable[[str], object]) -> Iterator[None]:
    """Write a line for each finished stage inside the block, and one if there was none for long.

    Args:
        write: called with one line, from any thread.
    """
    started = written = time.monotonic()
    doing, began = "", started
    over_at: float | None = None
    over, lock = Event(), Lock()

    def line(text: str, left: float | None) -> None:
        nonlocal written
        written = time.monotonic()
        when = f"{written - started:.0f} s"
        if left is not None:
            when += f", about {left:.0f} s left"
        write(f"piwo: {text} ({when})")

    def report(stage: Stage) -> None:
        nonlocal doing, began, over_at
        _after_interrupt(stage)
        with lock:
            if not stage.done:
                doing, began = stage.text, time.monotonic()
                over_at = _end(stage, began)
            elif stage.interrupted or time.monotonic() - started > SILENCE / 2:
                line(stage.text, stage.left)

    def beat() -> None:
        while not over.wait(SILENCE / 10):
            with lock:
                now = time.monotonic()
                if doing and now - max(began, written) > SILENCE * 0.8:
                    # a stage that takes longer than expected has no time left to show
                    line(doing, _left(over_at, now))

    beating = Thread(target=beat, daemon=True)
    beating.start()
    try:
        with piwo.engines.stages(report):
            yield
    finally:
        over.set()
        beating.join()


def _end(stage: Stage, began: float) -> float | None:
    """Return when a stage is expected to be over, if that is known."""
    if stage.left is None:
        return None
    return began + stage.left


def _left(over_at: float | None, now: float) -> float | None:
    """Return the seconds that are left; None if they are unknown, or over."""
    if over_at is None or now >= over_at:
        return None
    return over_at - now


def _after_interrupt(stage: Stage) -> None:
    """Let the command continue if its learner has caught Ctrl-C."""
    if stage.interrupted:
        goes_on()


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
