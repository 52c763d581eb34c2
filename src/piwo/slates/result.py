"""The value of one slate policy on one log, with its interval and what both rest on."""

from __future__ import annotations

from dataclasses import dataclass

from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.evaluation.record import compared_with, ends_text
from piwo.messages import Note
from piwo.records import Record
from piwo.visible import confidence, number, visible_lines

__all__ = ["SlateEvaluation", "SlotValue"]


@dataclass(frozen=True)
class SlotValue(Record):
    """What one slot contributes to the value; rewards are in their own unit.

    >>> SlotValue(1, 10, 1.0, 0.5, 0.4, 1.0).position
    1
    """

    position: int
    """1 for the first slot."""
    rows: int
    """Rows whose slate has the slot."""
    position_weight: float
    """alpha_l."""
    value: float | None
    """Mean of w_l r_l over these rows; self-normalized if the estimate is."""
    logging_value: float
    """Mean of r_l."""
    mean_weight: float
    """Mean of w_l, which is 1 on average if the logger shows all that the target does."""


@dataclass(frozen=True)
class SlateEvaluation(Record):
    """The value of one slate policy on one log. Values are in the reward's own unit.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["a", "b"], ["b", "a"]] * 50, "rs": [[1, 0], [0, 0]] * 50},
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ... )
    >>> print(piwo.slates.evaluate(log, piwo.slates.Deterministic(["a", "b"])))
    Deterministic: 1 (standard), 95% interval [0.7735, 1.227] (deadline)
      note: ...
    """

    name: str
    estimator: str
    assumption: str
    """Under what the value, and the interval, are right: one sentence."""
    self_normalized: bool
    value: float | None
    standard_error: float | None
    lower: float | None
    upper: float | None
    lower_raw: float | None
    """The lower end as the formula gave it."""
    upper_raw: float | None
    interval: str
    guarantee: str
    """finite-sample, given the assumption; asymptotic; or none."""
    delta: float
    rows: int
    slots: int
    """L, the most slots of a slate."""
    largest_value: float | None
    """What a slate can be worth at most; None if rewards have no upper end."""
    shift: float
    """B: the bounds are those of credits to which this was added, because weights may be as low as
    -B; 0 for all estimators but the pseudo-inverse. In units of the largest value."""
    mean_weight: float
    """Mean over rows of sum_l alpha_l w_l / sum_l alpha_l, in which slots that a slate lacks count
    with w_l = 1; 1 in expectation."""
    max_weight: float
    ess: float | None
    """Effective sample size of the mean weights; None if weights may be negative."""
    logging_value: float
    """Mean value of the logged slates."""
    improvement_lower: float | None
    """Lower bound (at delta) on the value minus the logger's, if the assumption holds; above 0:
    certified better under it. It has a finite-sample guarantee whatever the interval. None: there
    is none, as for rewards without an upper end."""
    propensity_p: float
    """p-value of "propensities are not too small", valid at any n."""
    by_slot: tuple[SlotValue, ...]
    """What each slot contributes; empty if weights are of whole slates."""
    no_interval: Note | None = None
    """Why there is no interval; None if there is one."""
    notes: tuple[Note, ...] = ()
    """What a reader must know, the most important first."""
    unit: str | None = None
    """The column of units, each of which counts the same; None: rows do."""
    units: int | None = None
    """The number of units."""
    logger: str | None = None
    """The declared logger, "fixed" or "learning"; None: not declared."""
    improvement_upper: float | None = None
    """Upper bound (at delta) on that difference; None: there is none, also where the two cross."""

    @property
    def bounds_hold(self) -> bool:
        """Whether it has finite-sample bounds, given the assumption."""
        return self.guarantee == "finite-sample" and self.propensity_p >= SUSPICIOUS

    @property
    def in_sample(self) -> bool:
        """Whether the policy was learned from these rows, so that it has no bounds."""
        return self.no_interval is not None and self.no_interval.kind == "in-sample"

    @property
    def certified_better(self) -> bool:
        """Whether the policy is certified better than the logging policy, given the assumption."""
        gain = self.improvement_lower
        return gain is not None and gain > 0 and self.propensity_p >= SUSPICIOUS

    @property
    def over(self) -> str:
        """What the improvement is over, in words."""
        return compared_with(None, self.logger)

    def reaches(self, at_least: float) -> bool:
        """Whether the value is certified to be at least this, by the lower end of the interval."""
        return self.bounds_hold and self.lower is not None and self.lower >= at_least

    def __str__(self) -> str:
        value = "not defined" if self.value is None else number(self.value)
        how = self.estimator
        if self.self_normalized:
            how += ", self-normalized"
        ends = f"no interval: {self.no_interval}"
        if self.no_interval is None:
            level = f"{confidence(self.delta, '%')} interval"
            ends = f"{level} {ends_text(self.lower, self.upper)} ({self.interval})"
        lines = [f"{self.name}: {value} ({how}), {ends}"]
        # the line itself says why there is no interval
        lines += [f"  note: {note}" for note in self.notes if note != self.no_interval]
        return visible_lines(lines)
