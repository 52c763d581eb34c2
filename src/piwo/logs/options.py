"""The arguments of `piwo.read` by name, for the functions that pass them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from piwo.checks import shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.columns import Roles
from piwo.logs.encoding import Missing
from piwo.logs.validation import Behavior
from piwo.messages import argument

__all__ = ["Logger", "ReadOptions", "check_logger"]

Logger: TypeAlias = Literal["fixed", "learning"]
"""Whether the behavior policy was fixed, or learned from earlier rows of the log."""


def check_logger(logger: Any) -> None:
    """Raise unless this is a declaration of the logger, or None.

    Raises:
        UsageError: naming those that there are.

    >>> check_logger("fixed")
    """
    if logger not in (None, "fixed", "learning"):
        raise UsageError(
            f"{argument('logger')} is {shown(logger)}, expected 'fixed' or 'learning': whether the "
            "system that wrote the log learned from earlier rows of it"
        )


class ReadOptions(Roles, total=False):
    """The arguments of `piwo.read` after the first."""

    actions: Sequence[Any] | Actions | None
    reward_range: tuple[float, float]
    behavior: Behavior | None
    normalize: bool
    missing: Missing
    max_levels: int
    hash_size: int
    where: str | None
    logger: Logger | None
