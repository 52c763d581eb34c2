"""The arguments of `piwo.read` by name, for the functions that pass them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from piwo.logs.actions import Actions
from piwo.logs.columns import Roles
from piwo.logs.encoding import Missing
from piwo.logs.validation import Behavior

__all__ = ["Logger", "ReadOptions"]

Logger: TypeAlias = Literal["fixed", "learning"]
"""Whether the behavior policy was fixed, or learned from earlier rows of the log."""


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
