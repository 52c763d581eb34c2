"""Progress on standard error: a bar and a line a candidate on a terminal, else few lines."""

from __future__ import annotations

import math
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

__all__ = ["SILENCE", "Rows", "progress", "spark_starts", "stage_lines"]

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

    On a terminal: a bar with rows, rate and time left, and a line for each candidate of a learner.
    Not on a terminal: lines on standard error; work shorter than `SILENCE` / 2 has none.
    """
    if quiet:
        with piwo.engines.stages(_after_interrupt):
            yield
        return
    if not sys.stderr.isatty():
        rows = Rows()
        with piwo.reporting(rows.add), stage_lines(on_stderr, rows):
            yield
        return
    # Imported only if a bar may be shown, as it takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.completed:,.0f} rows"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    try:
        with piwo.reporting(reporter(bar)), stage_lines(bar.console.print, every=True):
            yield
    finally:
        bar.stop()


class Rows:
    """How far the present pass over the log is.

    A command makes several passes; the count starts at 0 for each. If a source does not know its
    number of rows (a query), later passes use the count of the first.

    >>> rows = Rows()
    >>> rows.add(0, None)
    >>> rows.add(2_000, 8_000)
    >>> rows.done, rows.total
    (2000, 8000)
    """

    def __init__(self) -> None:
        self.done = 0
        self.total: int | None = None
        self._counted = 0
        self._began = time.monotonic()
        # Threads of the engine call `add` at the same time.
        self._lock = Lock()

    def add(self, rows: int, total: int | None) -> None:
        """Count rows that are done; engines call this."""
        with self._lock:
            # An engine reports 0 rows when a pass begins.
            if rows == 0 or (total is not None and self.done >= total):
                self._counted = max(self._counted, self.done)
                self.done, self._began = 0, time.monotonic()
            self.done += rows
            self.total = total
            if total is None and self._counted:
                self.total = max(self._counted, self.done)

    @property
    def rate(self) -> float:
        """Rows a second of this pass; 0 if it has just begun."""
        took = time.monotonic() - self._began
        return self.done / took if took > 0.0 else 0.0

    @property
    def left(self) -> float | None:
        """The seconds that this pass still takes; None if that is unknown."""
        if self.total is None or self.rate == 0.0:
            return None
        return (self.total - self.done) / self.rate

    def __str__(self) -> str:
        """The rows done and the rate, in words; empty before the first row."""
        if not self.done:
            return ""
        text = f"{self.done:,}"
        if self.total is not None:
            text += f" of {self.total:,}"
        return f"{text} rows, {self.rate:,.0f} a second"


@contextmanager
def stage_lines(
    write: Callable[[str], object], rows: Rows | None = None, *, every: bool = False
) -> Iterator[None]:
    """Write a line for each finished stage inside the block, and one if there was none for long.

    Args:
        write: called with one line, from any thread.
        rows: how far the pass over the log is, for the line after a silence; None: not shown.
        every: write the stages of the first seconds too, which are left out otherwise.
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
            # "0 s left" would be false, whatever the estimate is.
            when += f", about {math.ceil(left)} s left" if left > 0.0 else ", finishing"
        write(f"piwo: {text} ({when})")

    def report(stage: Stage) -> None:
        nonlocal doing, began, over_at
        _after_interrupt(stage)
        with lock:
            if not stage.done:
                doing, began = stage.text, time.monotonic()
                over_at = _end(stage, began)
            elif every or stage.interrupted or time.monotonic() - started > SILENCE / 2:
                line(stage.text, stage.left)

    def beat() -> None:
        while not over.wait(SILENCE / 10):
            with lock:
                now = time.monotonic()
                if now - max(began, written) <= SILENCE * 0.8:
                    continue
                text = _at_work(doing, rows)
                if not text:
                    continue
                # without a stage, the time left is that of the pass over the rows
                line(text, _left(over_at, now) if doing or rows is None else rows.left)

    beating = Thread(target=beat, daemon=True)
    beating.start()
    try:
        with piwo.engines.stages(report):
            yield
    finally:
        over.set()
        beating.join()


def _at_work(doing: str, rows: Rows | None) -> str:
    """Return the stage at work and the rows it has done, as text; empty if neither is known."""
    done = "" if rows is None else str(rows)
    return ": ".join(filter(None, (doing, done)))


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
    """Return the function that engines call with each number of rows done, for a bar."""
    from rich.progress import Progress

    assert isinstance(bar, Progress)
    task = bar.add_task("", total=None, rate="")
    started = time.monotonic()
    rows = Rows()

    def report(more: int, total: int | None) -> None:
        before = rows.done
        rows.add(more, total)
        if rows.done < before or more == 0:
            bar.reset(task)
        if not bar.live.is_started and time.monotonic() - started > PATIENCE:
            bar.start()
        rate = f"{rows.rate:,.0f} rows/s"
        bar.update(task, completed=rows.done, total=rows.total, rate=rate)

    return report
