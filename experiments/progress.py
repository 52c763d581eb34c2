"""Progress of a run on standard error: a bar with the time left, or one line per logger."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from experiments.results import Listener

__all__ = ["progress"]

WHOLE_RUN = 1e9
"""Seconds back over which the speed is measured: loggers are few, and all take about as long."""


@contextmanager
def progress() -> Iterator[Listener]:
    """Yield who shows the loggers done and the time left inside the block."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    columns = (
        TextColumn("loggers"),
        MofNCompleteColumn(),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
    )
    bar = Progress(
        *columns,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=WHOLE_RUN,
    )
    try:
        yield _Bar(bar)
    finally:
        bar.stop()


@final
class _Bar:
    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task = bar.add_task("", total=None, start=False)

    def begin(self, total: int, kept: int) -> None:
        self.bar.update(self.task, total=total, completed=kept)
        self.bar.start()
        self.bar.start_task(self.task)

    def done(self, name: str) -> None:  # noqa: ARG002 (the bar counts)
        self.bar.advance(self.task)

    def warn(self, text: str) -> None:
        self.bar.console.print(Text(f"warning: {text}"))


@final
class _Lines:
    def __init__(self) -> None:
        self.total = self.kept = self.finished = 0
        self.started = time.monotonic()

    def begin(self, total: int, kept: int) -> None:
        self.total, self.kept, self.finished = total, kept, kept
        self.started = time.monotonic()

    def done(self, name: str) -> None:
        self.finished += 1
        passed = time.monotonic() - self.started
        left = passed / (self.finished - self.kept) * (self.total - self.finished)
        print(
            f"{name}: {self.finished} of {self.total}, {passed:.0f} s, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

    def warn(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr, flush=True)
