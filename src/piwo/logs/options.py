"""The arguments of `piwo.read` by name, for the functions that pass them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from piwo.checks import shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.columns import Columns, Roles
from piwo.logs.encoding import Missing
from piwo.logs.validation import Behavior
from piwo.messages import argument

__all__ = [
    "Logger",
    "ReadOptions",
    "check_fixed_actions",
    "check_logger",
    "check_reward_range",
    "check_roles",
]

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


def check_reward_range(reward_range: Any) -> None:
    """Raise unless this is (lo, hi) with finite lo < hi, of a width that is finite or infinite.

    Raises:
        UsageError: saying what was received.

    >>> check_reward_range((0.0, 1.0))
    """
    try:
        low, high = map(float, reward_range)
        numbers = all(isinstance(x, Real) for x in reward_range)
    except (TypeError, ValueError, OverflowError):
        numbers, low, high = False, 0.0, 1.0
    if not (numbers and np.isfinite(low) and low < high):
        raise UsageError(
            f"{argument('reward_range')} is {reward_range!r}, expected (lo, "
            "hi) with finite lo < hi; hi may be inf"
        )
    # Rewards are divided by the width.
    if np.isfinite(high) and not np.isfinite(high - low):
        raise UsageError(
            f"{argument('reward_range')} is {reward_range!r}, whose width is "
            "beyond float64; rescale the reward"
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
    action_cost: Mapping[Any, float] | str | None
    action_cost_range: tuple[float, float] | None
    items: Any
    items_label: str | None


def check_roles(columns: Columns, options: Mapping[str, Any]) -> None:
    """Check that options fit the columns of a log.

    Args:
        columns: the roles.
        options: as `Log.of` takes them.

    Raises:
        UsageError: for a log without propensities, a logger that states none, and for options
            that need other columns.
    """
    behavior = options.get("behavior")
    if behavior is not None and not hasattr(behavior, "probabilities"):
        raise UsageError(
            f"{argument('behavior')} is {type(behavior).__name__}, expected an object with "
            "probabilities(X), the (n, K) propensities of n contexts, such as a policy of "
            "piwo.policies; for a function: piwo.policies.Function(f, actions)"
        )
    if not columns.states_propensities and behavior is None:
        raise UsageError(
            "a log needs a propensity column, a log-propensity column, "
            f"propensity vectors, or {argument('behavior')}"
        )
    if columns.predictions is not None and columns.eligible is None:
        raise UsageError(
            f"{argument('predictions')} are lists with a reward for each eligible action, and the "
            f"log names no such actions; name their column ({argument('eligible')}), or leave "
            f"{argument('predictions')} out"
        )
    if options.get("normalize") and columns.propensities is None:
        raise UsageError(
            f"{argument('normalize', value=True)} divides each row of "
            "propensities by its sum, and there are none; name their column "
            f"({argument('propensities')}), or leave {argument('normalize')} out"
        )


def check_fixed_actions(columns: Columns, what: str) -> None:
    """Raise if the actions that could be taken change from row to row.

    Args:
        columns: of the log.
        what: the caller in words.

    Raises:
        UsageError: for logs with eligible actions.
    """
    if columns.eligible is not None:
        raise UsageError(
            f"{what} learns as if every action could be taken in every row, and column "
            f"{columns.eligible!r} lists the eligible ones; use the joint-ridge or the "
            f"conditional-logit oracle, with features of the actions ({argument('items')})"
        )
