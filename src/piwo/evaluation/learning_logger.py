"""Loggers of which nothing is declared, and that seem to have learned: asked once more as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from piwo.logs.log import Log

__all__ = ["LearningSeenError", "as_learning_if_seen"]

P = ParamSpec("P")
R = TypeVar("R")


class LearningSeenError(Exception):
    """The rows show a learning logger, and what was summed assumes a fixed one.

    Attributes:
        changed: how many (context, action) had several propensities, of how many.

    >>> LearningSeenError((40, 90)).changed
    (40, 90)
    """

    def __init__(self, changed: tuple[int, int]) -> None:
        super().__init__(changed)
        self.changed = changed


def as_learning_if_seen(
    answer: Callable[Concatenate[Log, P], R],
) -> Callable[Concatenate[Log, P], R]:
    """Make a function of a log take an undeclared logger for a learning one if rows show that.

    The log is then read a second time, as other sums are needed. Results have a note.

    Args:
        answer: raises `LearningSeenError` if rows show that and it assumes a fixed logger.

    >>> as_learning_if_seen(len).__name__
    'len'
    """

    @wraps(answer)
    def asked(log: Log, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return answer(log, *args, **kwargs)
        except LearningSeenError as seen:
            learning = replace(log, logger="learning", logger_changed=seen.changed)
        return answer(learning, *args, **kwargs)

    # A named first argument, `log=`, is no part of Concatenate.
    return cast(Callable[Concatenate[Log, P], R], asked)
