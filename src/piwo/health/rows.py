"""Rows of the tables that `piwo.check` makes."""

from __future__ import annotations

from dataclasses import dataclass

from piwo.logs.actions import Label

__all__ = [
    "ActionRow",
    "AgeRow",
    "ContextGap",
    "HeavyRow",
    "PositionRow",
    "SizeRow",
    "WeightBin",
]


@dataclass(frozen=True)
class ActionRow:
    """What was logged of one action."""

    action: Label
    count: int
    frequency: float
    mean_propensity: float | None
    """Mean logged propensity over the rows that took it."""
    mean_reward: float | None
    mean_inverse: float
    """Mean over all rows of 1{A = a}/mu; its expectation is 1 if the action has a propensity
    above 0 in every row."""
    standard_error: float | None
    z: float | None
    """(mean_inverse - 1) / standard_error. If propensities are small, chance may bring it far below
    0. None if it cannot be computed, or is 4 or more from a difference of at most 1/1000, as of
    rounded propensities; so are those of other tables."""
    p: float | None
    """p-value of "its propensities are not too small", corrected for the count of actions; or
    None."""


@dataclass(frozen=True)
class SizeRow:
    """Rows that could choose from at least `least` and fewer than 2 `least` actions."""

    least: int
    rows: int
    mean_reward: float
    mean_weight: float
    """Mean weight of the policy that is uniform over the eligible actions; its expectation is 1."""
    z: float | None
    """(mean_weight - 1) over its standard error; None if it cannot be computed."""


@dataclass(frozen=True)
class AgeRow:
    """Rows whose action was first eligible at least the share `least` of the log's rows before."""

    least: float
    rows: int
    mean_reward: float | None
    """None without rows."""
    weight: float
    """Mean over all rows of the uniform policy's weight if the action has that age, else 0."""
    listed: float
    """Mean share of eligible actions with that age, which is the expectation of `weight`."""
    z: float | None
    """Their difference over its standard error; None if it cannot be computed."""


@dataclass(frozen=True)
class PositionRow:
    """Rows whose action was shown at one position."""

    position: str | None
    """As text; None: missing."""
    rows: int
    mean_reward: float
    reward_z: float | None
    """How far the rewards are from those of the same actions at all positions, in standard errors;
    None if it cannot be computed."""
    mean_weight: float
    """Mean weight of the uniform policy; its expectation is 1 if the position does not depend on
    the action."""
    weight_z: float | None
    """(mean_weight - 1) over its standard error; None if it cannot be computed."""
    untaken: float
    """Share of what the uniform policy plays whose actions were never taken at the position."""


@dataclass(frozen=True)
class HeavyRow:
    """One of the rows with the largest weight."""

    row: int
    action: Label
    propensity: float
    weight: float
    share: float | None
    """Its share of all weight."""


@dataclass(frozen=True)
class WeightBin:
    """Rows whose weight lies in [least, 2 least); least is 0 for weight 0."""

    least: float
    rows: int
    share: float | None


@dataclass(frozen=True)
class ContextGap:
    """How many rows have no usable value in a context column; each row counts for one reason."""

    column: str
    missing: int
    nan: int
    infinite: int
    indicated: bool
    """Whether missing values and NaN get a column of their own (missing="indicator") instead of
    being refused."""

    @property
    def refused(self) -> bool:
        """Whether learning refuses rows for it."""
        return self.infinite > 0 or not self.indicated
