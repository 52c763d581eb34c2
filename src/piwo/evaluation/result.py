"""Results of a request: what the sums of one pass say of each policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.evaluation.baseline import BaselineResult
from piwo.evaluation.contradiction import RawBounds, beyond_range
from piwo.intervals import Evidence, IntervalMethod
from piwo.logs.log import Log
from piwo.messages import Note

__all__ = ["PolicyResult", "RequestResult", "in_units"]


@dataclass(frozen=True)
class PolicyResult:
    """The bounds of one policy on the unit scale, and whether the rows can be believed."""

    method: IntervalMethod
    evidence: Evidence
    obstacle: Note | None
    """Why only asymptotic statements can be made of this policy, or none; None if all can."""
    raw: RawBounds
    log_e_better: float | None
    """Evidence against "no better than the baseline", the logarithm of an e-value."""
    baseline: BaselineResult | None
    """None: the logging policy."""
    unsupported: float | None = None
    """Mean of sum_a pi(a|X) 1{mu(a|X) = 0}; without full propensities None, or for certificates
    what was never logged."""
    provenance: Note | None = None
    """What the statements rest on if the policy may have been learned from these rows."""
    own_p: float | None = None
    """p-value of "the propensities are not too small" by the weights of this policy; None if it is
    not tested."""
    contradicted: Note | None = None
    """Why no bound of the whole request is believed; None if all are."""
    uncapped: bounds.Interval | None = None
    """The raw interval without the declared cap on rates; None if there is no such cap."""
    copied: float | None = None
    """Estimated share of the rows that are copies of another one; None if nothing shows it."""
    itself: bool = False
    """Whether it is what improvements are over."""
    logger_changed: tuple[int, int] | None = None
    """Of a logger that was declared fixed, or counts as learning for this: how many (context,
    action) had several propensities, of how many; None if no more than a few."""

    never_taken: int = 0
    """How many actions could be taken and never were; 0 if they were not counted."""

    @property
    def usable(self) -> bool:
        """Whether finite-sample statements can be made of this policy."""
        return self.obstacle is None

    @property
    def declared_logger(self) -> str | None:
        """What was declared of the logger; None for one that counts as learning by its rows."""
        log = self.evidence.log
        return log.logger if log.logger_changed is None else None

    @property
    def why_not(self) -> Note | None:
        """Why no finite-sample statement is made; None if it is."""
        return self.obstacle or self.contradicted

    @property
    def withheld(self) -> Note | None:
        """Why the interval of the formula is not shown; None if it is.

        What stands in the way of finite-sample statements alone leaves an asymptotic interval,
        rows that contradict their propensities do not.
        """
        raw = self.raw.interval
        if raw.guarantee != "asymptotic":
            return self.why_not
        log, most = self.evidence.log, self.most
        return self.contradicted or beyond_range(
            raw, self.method.name, most, lambda unit: in_units(unit, log)
        )

    @property
    def shown(self) -> bounds.Interval:
        """The interval to report."""
        raw = self.raw.interval
        if self.withheld is not None:
            return replace(raw, lower=None, upper=None)
        return raw.reported(0.0, self.most)

    @property
    def gain_upper(self) -> float | None:
        """Upper bound on the improvement over the logging policy, on the unit scale; None: no.

        The smaller of two: the upper end of the interval less what the logging policy earns at
        least; and the bound from both on the same rows, which is not defined by unit. They share
        what the interval leaves of delta (`IntervalMethod.upper_share`). The upper end of an
        asymptotic interval proves nothing: then it is the second bound alone, at delta.
        """
        evidence, shown = self.evidence, self.shown
        possible = self.why_not is None and self.raw.gain is not None and evidence.bounded
        if not possible or self.baseline is not None:
            return None
        apart = shown.guarantee == "finite-sample" and shown.upper is not None
        paired = evidence.log.columns.unit is None
        if not apart and (not paired or shown.guarantee == "finite-sample"):
            return None
        if self.itself:
            return 0.0
        left = 1.0 - self.method.upper_share if apart else 1.0
        # log(1/delta) of each bound besides the upper end
        penalty = evidence.log_inv_delta + math.log((apart + paired) / left)
        most = []
        state, n, horizon = evidence.state, evidence.rows, evidence.horizon
        if apart and shown.upper is not None:
            earned = state.moments.reward
            logged = bounds.logged_value_lower(earned, n, penalty, horizon=horizon)
            most.append(shown.upper - logged)
        if paired:
            gains, weights = state.bets.improvement, state.bets.weight
            most.append(bounds.improvement_upper(gains, weights, n, penalty, horizon=horizon))
        return min(most)

    def improvement(self, span: float) -> tuple[float | None, float | None]:
        """Return the bounds on the improvement, lower and upper, in the reward's own unit.

        Each is a statement of its own. Where they cross, they say nothing together, and only the
        lower one is given.

        Args:
            span: the width of the reward range.
        """
        lower = improvement_in_units(self.raw.gain, span)
        upper = improvement_in_units(self.gain_upper, span)
        if lower is not None and upper is not None and upper < lower:
            return lower, None
        return lower, upper

    @property
    def missing_mass_upper(self) -> float | None:
        """Upper bound on what the policy plays where the logger never goes; None: no bound."""
        if self.why_not is not None:
            return None
        return min(1.0, max(0.0, self.method.missing_mass(self.evidence)))

    @property
    def most(self) -> float:
        """The highest value that there can be."""
        if self.evidence.bounded:
            return 1.0
        return math.inf

    @property
    def guarantee(self) -> str:
        """What the interval to report promises."""
        shown = self.shown
        if shown.lower is None and shown.upper is None:
            return "none"
        if shown.guarantee == "asymptotic" and self.evidence.estimator.smoothed:
            return "asymptotic, for the smoothed value"
        return shown.guarantee

    @property
    def no_interval(self) -> Note | None:
        """Why there is no interval to report; None if there is one."""
        if self.guarantee != "none":
            return None
        why = self.withheld or self.why_not
        if why is not None:
            return why
        return Note(
            f"the {self.method.name} interval is not defined on these rows", kind="undefined"
        )


@dataclass(frozen=True)
class RequestResult:
    """What the sums say of all policies of a request together."""

    policies: Mapping[Any, PolicyResult]
    baseline: BaselineResult | None
    """None: the logging policy."""
    never_logged: npt.NDArray[np.int64]
    """Codes of the actions that could be taken and were never logged; empty if they were not
    counted."""
    certain_rows: int = 0
    """See `CertainRows`; 0 if they were not counted."""
    p_values: Mapping[Any, float] = field(default_factory=dict)
    """key -> p-value of "the propensities are not too small" by the weights of each policy, and of
    the baseline, with what they pay for each other."""
    contradicted: Note | None = None
    """Why no bound is believed; None if all are."""

    @property
    def claimed(self) -> dict[Any, RawBounds]:
        """The raw bounds of the policies that have them."""
        return {key: one.raw for key, one in self.policies.items() if one.usable}

    @property
    def least_p(self) -> float | None:
        """The smallest of the p-values; None if there are none."""
        return min(self.p_values.values(), default=None)


def improvement_in_units(gain: float | None, span: float) -> float | None:
    """Return a bound on a difference of values in the reward's own unit; None if there is none.

    No policy is worth less than the whole range below another, so it is at least -1 on the unit
    scale.

    Args:
        gain: on the unit scale.
        span: the width of the reward range.

    >>> improvement_in_units(0.5, 4.0), improvement_in_units(-3.0, 4.0)
    (2.0, -4.0)
    """
    return None if gain is None else span * max(-1.0, gain)


def in_units(number: float | None, log: Log) -> float | None:
    """Return a number of the unit scale in the reward's own unit; None if it is not finite.

    >>> log = Log.from_arrays(action=["a"], reward=[1], propensity=[1.0], reward_range=(0, 5))
    >>> in_units(0.5, log), in_units(math.inf, log)
    (2.5, None)
    """
    if number is None or not math.isfinite(number):
        return None
    return float(log.value(number))
