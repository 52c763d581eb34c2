"""What the formulas say of one policy, and what of it can be told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from piwo import bounds
from piwo.evaluation.baseline import Baseline, Difference
from piwo.evaluation.contradiction import Claim
from piwo.intervals import Evidence, IntervalMethod
from piwo.intervals.prepare import unknown_actions
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.reductions import PolicyState

__all__ = ["Against", "Measured", "obstacle"]

NOTHING = bounds.Interval(None, None)


@dataclass(frozen=True)
class Against:
    """What the pass over the log found of a baseline itself."""

    baseline: Baseline
    state: PolicyState
    obstacle: str | None


@dataclass(frozen=True)
class Measured:
    """What the formulas say of one policy on the unit scale, and whether the rows can be believed."""

    method: IntervalMethod
    evidence: Evidence
    obstacle: str | None
    """Why nothing but asymptotic statements can be made of this policy; None where all can."""
    raw: bounds.Interval
    gain: float | None
    """Raw lower bound on the improvement."""
    log_e_better: float | None
    against: Against | None
    """None: the logging policy."""
    own_p: float | None = None
    """p-value of "the propensities are not too small" by the weights of this policy; None where it
    is not tested."""
    contradicted: str | None = None
    """Why no finite-sample bound of the whole call is believed; None before that is known, and
    where all are."""

    @classmethod
    def of(
        cls,
        method: IntervalMethod,
        evidence: Evidence,
        obstacle: str | None,
        pair: tuple[Difference, Any] | None,
        against: Against | None,
    ) -> Measured:
        """Return what the formulas say.

        Args:
            method: settled for the policy.
            evidence: what the pass over the log found.
            obstacle: see above.
            pair: the difference from the baseline and its sums; None: the logging policy is the
                baseline.
            against: the baseline; None likewise.
        """
        exact = obstacle is None
        raw = method.finish(evidence) if exact or method.guarantee == "asymptotic" else NOTHING
        gain = log_e = None
        if pair is not None and against is not None:
            if exact and against.obstacle is None:
                difference, sums = pair
                gain = difference.lower(sums, evidence.log_inv_delta, evidence.horizon)
                log_e = difference.log_e_value(sums)
        elif evidence.bounded and exact:
            gain = method.improvement(evidence)
            log_e = bounds.log_e_value(evidence.state.bets.improvement, evidence.rows, 1.0)
        return cls(method, evidence, obstacle, raw, gain, log_e, against)

    @property
    def claim(self) -> Claim:
        """What is held against the reward range."""
        return Claim(self.raw, self.gain)

    @property
    def why_not(self) -> str | None:
        """Why no finite-sample statement is made; None where it is."""
        return self.obstacle or self.contradicted

    @property
    def shown(self) -> bounds.Interval:
        """The interval to report."""
        if self.why_not is not None and self.method.guarantee != "asymptotic":
            return NOTHING
        return self.raw.reported(0.0, 1.0 if self.evidence.bounded else math.inf)

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
    def no_interval(self) -> str | None:
        """Why there is no interval to report; None where there is one."""
        if self.guarantee != "none":
            return None
        return self.why_not or f"the {self.method.name} interval is not defined on these rows"


def obstacle(log: Log, policy: Policy, once: int) -> str | None:
    """Return why no finite-sample statement can be made, None where one can.

    Args:
        log: the rows.
        policy: over the log's action list.
        once: how many actions of the list were logged exactly once.
    """
    if log.columns.weight is not None:
        return "the log was thinned (sampling weights) and the dropped rows are not counted: no finite-sample interval"
    if policy.depends_on_observed_actions and once:
        # a policy that plays whatever was seen is made from the data: E w <= 1 does not hold for it
        return Note(
            f"{unknown_actions(once, len(log.actions))}: no finite-sample interval; "
            f"give the list ({argument('actions', '[...]')})",
            kind="inferred-actions",
        )
    return None
