"""Stages of long work, and a limit on its time; a learner sets both, long fits ask for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from piwo.checks import shown
from piwo.engines.settings import set_variable
from piwo.errors import UsageError
from piwo.messages import argument

__all__ = [
    "OutOfTimeError",
    "Stage",
    "check_time",
    "current_limit",
    "report_stage",
    "stages",
    "time_limit",
]


@dataclass(frozen=True)
class Stage:
    """What long work is doing, or has done.

    >>> Stage("learning ridge").done
    False
    """

    text: str
    """In words."""
    done: bool = False
    """Whether the text is about something finished."""
    left: float | None = None
    """An estimate of the seconds that are left; None if there is none."""
    interrupted: bool = False
    """Whether Ctrl-C was pressed and the work goes on, to end with what it has."""


class OutOfTimeError(Exception):
    """Raised inside a fit if the time that its learner gives it is up."""


_stages: ContextVar[Callable[[Stage], None] | None] = ContextVar("piwo_stages", default=None)
_limit: ContextVar[float | None] = ContextVar("piwo_limit", default=None)


def stages(report: Callable[[Stage], None]) -> AbstractContextManager[None]:
    """Report the stages of long work inside the block to a function.

    Args:
        report: called with each `Stage`, in the thread that does the work.

    Returns:
        A context manager.

    Raises:
        UsageError: if it cannot be called.

    >>> made = []
    >>> with stages(made.append):
    ...     report_stage(Stage("learning ridge"))
    >>> made[0].text
    'learning ridge'
    """
    if not callable(report):
        raise UsageError(f"{argument('report')} is {shown(report)}, expected a function of a stage")
    return set_variable(_stages, report)


def report_stage(stage: Stage) -> None:
    """Report a stage to the function of `stages`, if there is one.

    >>> report_stage(Stage("learning ridge"))
    """
    report = _stages.get()
    if report is not None:
        report(stage)


@contextmanager
def time_limit(end: float | None) -> Iterator[None]:
    """Give fits inside the block until `time.monotonic()` is `end`; None: no limit."""
    with set_variable(_limit, end):
        yield


def current_limit() -> float | None:
    """Return the end that `time_limit` has set in this thread; None: no limit.

    >>> current_limit() is None
    True
    """
    return _limit.get()


def check_time(end: float | None = None) -> None:
    """Raise if time is up.

    Args:
        end: in a thread of its own, the `current_limit` of the thread that started it.

    Raises:
        OutOfTimeError: if it is.

    >>> check_time()
    """
    if end is None:
        end = _limit.get()
    if end is not None and time.monotonic() > end:
        raise OutOfTimeError
