"""The record of a log's health: what was measured, what was found, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from piwo.logs.actions import Label
from piwo.logs.propensity_error import CalibrationBin
from piwo.records import Record

__all__ = [
    "TABLE_ROWS",
    "ActionRow",
    "ContextGap",
    "Health",
    "HealthFinding",
    "HeavyRow",
    "Severity",
    "Verdict",
    "WeightBin",
]

Verdict = Literal["fit", "fit with care", "unfit"]
Severity = Literal["unfit", "care", "note"]

TABLE_ROWS = 1000
"""Most rows of the per-action table that a `Health` holds: those with the most evidence against
them."""


@dataclass(frozen=True)
class HealthFinding:
    """One thing that a user of the log should know."""

    kind: str
    """Which rule found it, such as "effective-sample"."""
    severity: Severity
    text: str
    """One line: what, how many, which rows or actions, what to do."""
    rows: tuple[int, ...] = ()
    """The rows that it names, numbered from 0."""


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
    """Mean over all rows of 1{A = a}/mu; its expectation is 1 where the action is supported
    everywhere."""
    standard_error: float | None
    z: float | None
    """(mean_inverse - 1) / standard_error. Far below 0 it may be chance, where propensities are
    small."""
    p: float | None
    """p-value of "its propensities are not too small", corrected for the count of actions; or
    None."""


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
    """In how many rows a context column has no value that can be used, each row for one reason."""

    column: str
    missing: int
    nan: int
    infinite: int
    indicated: bool
    """Whether missing values, NaN among them, get a column of their own (missing="indicator") and
    are not refused."""

    @property
    def refused(self) -> bool:
        """Whether learning refuses rows for it."""
        return self.infinite > 0 or not self.indicated


@dataclass(frozen=True)
class Health(Record):
    """The health of a log with respect to one policy; see `check` for the rules.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> piwo.check(log).verdict
    'fit'
    """

    verdict: Verdict
    findings: tuple[HealthFinding, ...]
    """Most severe first."""
    policy: str
    """The policy that the weights belong to."""
    rows: int
    actions: int
    actions_logged: int
    never_logged: tuple[Label, ...]
    """Actions of the list that no row took, at most `TABLE_ROWS` of them."""
    mean_reward: float
    reward_range: tuple[float, float]
    cost: bool
    propensity_min: float
    propensity_median: float
    """To within a factor of two."""
    mean_weight: float
    mean_weight_z: float | None
    max_weight: float
    ess: float | None
    """Effective sample size (sum w)^2 / sum w^2; None where all weights are 0 or one is beyond
    float64."""
    unsupported_mass: float | None
    top_share: Mapping[int, float | None]
    """Share of all weight that the heaviest 1, 2 and 10 rows carry."""
    propensity_p: float | None
    """p-value of "the propensities are not too small" for the uniform policy; None where it cannot
    be tested."""
    action_p: float | None
    """The smallest p of the per-action table."""
    thinned: bool
    logged_once: int
    """Actions logged once, where the action list was taken from the log: others may be missing from
    it."""
    delta: float
    by_action: tuple[ActionRow, ...]
    actions_left_out: int
    """Actions that the per-action table leaves out because it is at its limit."""
    heaviest: tuple[HeavyRow, ...]
    histogram: tuple[WeightBin, ...]
    doubts: tuple[str, ...] = ()
    """What is known of the propensities less surely than that they are right (`Log.with_propensity_error`,
    estimated ones)."""
    context_gaps: tuple[ContextGap, ...] = ()
    """The context columns that were named and have missing, NaN or infinite values."""
    calibration: tuple[CalibrationBin, ...] = ()
    """How estimated propensities compare with what was done; empty where they were logged."""

    @property
    def fit(self) -> bool:
        """Whether the log may be used, with care or without."""
        return self.verdict != "unfit"

    def __str__(self) -> str:
        from piwo.health.text import health_text

        return health_text(self)
