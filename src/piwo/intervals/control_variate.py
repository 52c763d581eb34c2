"""Control variates: the mixture bound on w R and on its doubly robust forms together.

Narrower than the plain mixture if the log has the probability of every action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from piwo import bounds
from piwo.intervals.method import Evidence, IntervalMethod, lacking
from piwo.intervals.partition import lacks_key, partition_of
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.logs.split import HeldOut
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.reductions import Reduction
from piwo.reductions.blocks import Partition
from piwo.reductions.control_variate import BASELINES, GAIN_BASELINES, ControlVariates
from piwo.reductions.model_variate import CUTS, ModelVariates, Predictor

__all__ = [
    "GAIN_SHIFTS",
    "GAIN_WEIGHTS",
    "MODEL_GAIN_WEIGHTS",
    "MODEL_WEIGHTS",
    "SHIFTS",
    "WEIGHTS",
    "AutoInterval",
    "ControlVariateInterval",
]

SHIFTS: tuple[float, ...] = (0.0, *(k for _, k in BASELINES))
"""k_c: by how much each pooled quantity is raised. The plain credit w R, then the baselines."""
WEIGHTS: tuple[float, ...] = (1 / 5, *[1 / 15] * len(BASELINES))
"""p_c: their weights in the pool."""
GAIN_SHIFTS: tuple[float, ...] = (0.0, 0.0, *(BASELINES[i][1] for i in GAIN_BASELINES))
"""The same for the improvement: w R + 1 - R, its form with the total variation, some baselines."""
GAIN_WEIGHTS: tuple[float, ...] = (1 / 5, 1 / 5, *[1 / 10] * len(GAIN_BASELINES))
TRUNCATED_SHARE = 0.05
"""The part of the error of an upper end that bets on truncated weights have."""
MODEL_WEIGHTS = (1 / 5, *[1 / 30] * len(BASELINES), *[2 / 15] * len(CUTS))
"""Weights in the pool with a reward model: the plain credit, the constants, the model."""
MODEL_GAIN_WEIGHTS = (1 / 10, 1 / 10, *[1 / 15] * len(GAIN_BASELINES), *[2 / 15] * len(CUTS))


Quantity = Literal["value", "loss", "improvement"]
"""w R, w (1 - R), w R + 1 - R."""


@dataclass(frozen=True, kw_only=True)
class ControlVariateInterval(IntervalMethod):
    """The interval method "mixture-cv": the pooled mixture bound of w R and its control variates.

    The control variates are truncated doubly robust forms of w R, and of w (1 - R) for the upper
    end. They need the probability of every action, of the logger and of the policy; those of the
    actions that were not taken must be right, too.
    """

    model: Predictor | None = None
    """Predicts rewards; None: the baselines are constants."""

    def with_model(self, model: Predictor) -> IntervalMethod:
        """Return the method with predicted baselines, in addition to the constant ones."""
        return replace(self, model=model)

    def sums(
        self, log: Log, policy: Policy, partition: Partition | None = None
    ) -> tuple[Reduction[Any], ...]:
        """Return the control variates; none for a thinned log, on which nothing is bet."""
        if log.columns.weight is not None:
            return ()
        bounded = math.isfinite(log.reward_range[1])
        constant = ControlVariates(policy, bounded, partition)
        if self.model is None:
            return (constant,)
        return constant, ModelVariates(policy, self.model, bounded, partition)

    def interval(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval; if rewards have no upper end, its lower end has all of delta."""
        if not evidence.bounded:
            return bounds.Interval(self.value_lower(evidence), None)
        # delta / 2 for each side
        half = evidence.log_inv_delta + np.log(2.0)
        bets = evidence.state.bets
        lower = self._pooled(bets.value, "value", evidence, half)
        if not self.variates:
            return bounds.Interval(lower, 1.0 - self._pooled(bets.loss, "loss", evidence, half))
        own = half - math.log1p(-TRUNCATED_SHARE)
        missed = self._pooled(bets.loss, "loss", evidence, own)
        # the mass that truncation cuts off is worth at most 1
        truncated = bounds.truncated_upper(
            evidence.own[0].truncated,
            evidence.rows,
            half - math.log(TRUNCATED_SHARE),
            horizon=evidence.horizon,
        )
        return bounds.Interval(lower, min(1.0 - missed, truncated))

    def value_lower(self, evidence: Evidence) -> float:
        """Return the raw lower bound on the value, at all of delta."""
        return self._pooled(evidence.state.bets.value, "value", evidence, evidence.log_inv_delta)

    def improvement(self, evidence: Evidence) -> float:
        """Return the raw lower bound on v(policy) - v(logging policy), for rewards in [0, 1]."""
        plain = evidence.state.bets.improvement
        # LB(E[w R + 1 - R]) - 1
        return self._pooled(plain, "improvement", evidence, evidence.log_inv_delta) - 1.0

    def _pooled(
        self, plain: Floats, what: Quantity, evidence: Evidence, log_inv_delta: float
    ) -> float:
        """Return the pooled lower bound from the sums of the plain credit and of the variates."""
        shifts, weights = self._forms(what)
        # S_cj, one row for each quantity c
        sums = np.vstack([plain, *(getattr(state, what) for state in evidence.own)])
        return bounds.pooled_lower(
            sums, shifts, weights, evidence.rows, log_inv_delta, horizon=evidence.horizon
        )

    def _forms(self, what: Quantity) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the shift of each form of a quantity, and its weight in the pool."""
        if what == "improvement":
            shifts, weights, model_weights = GAIN_SHIFTS, GAIN_WEIGHTS, MODEL_GAIN_WEIGHTS
        else:
            shifts, weights, model_weights = SHIFTS, WEIGHTS, MODEL_WEIGHTS
        if self.model is not None:
            shifts, weights = (*shifts, *CUTS), model_weights
        return shifts, weights


@dataclass(frozen=True, kw_only=True)
class AutoInterval(IntervalMethod):
    """The interval method "auto": the narrowest of four methods whose needs are met.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0])
    >>> piwo.evaluate(log, piwo.policies.Logging()).interval
    'deadline'
    >>> piwo.evaluate(replace(log, logger="learning"), piwo.policies.Logging()).interval
    'mixture'
    """

    deadline: tuple[IntervalMethod, IntervalMethod]
    """With control variates and without: bets on hashed blocks of rows."""
    mixture: tuple[IntervalMethod, IntervalMethod]
    """The same for logs without such blocks."""

    def partition(self, log: Log, horizon: bounds.Horizon) -> Partition | None:
        """Return the blocks that spread over the log; None if rows may depend on earlier ones.

        Blocks in time would assume rewards without drift.

        Args:
            log: the rows.
            horizon: see `piwo.bounds.Horizon`.
        """
        chosen = log.selector
        if log.logger is None and isinstance(chosen, HeldOut) and chosen.cut is not None:
            # the last rows are held out because the logger may have learned
            return None
        found = partition_of(log, horizon)
        if found is not None and found.by == "hash":
            return found
        return None

    def settled(
        self, log: Log, policy: Policy, partition: Partition | None = None
    ) -> IntervalMethod:
        """Return the narrowest method that the log and the policy allow."""
        narrow, plain = self.mixture if partition is None else self.deadline
        approximate = log.propensity_error is not None
        every_action = log.columns.propensities is not None or log.behavior is not None
        # Loggers of changing actions seldom keep the probabilities of the others.
        unlisted = log.columns.eligible is not None and not every_action
        if log.columns.weight is not None or unlisted or (approximate and not every_action):
            # little that the user could pass would help, so there is nothing to note
            return plain
        reason = lacking(log, policy)
        chosen, reasons = narrow, []
        if reason is not None:
            chosen, reasons = plain, [reason]
        if partition is None and lacks_key(log):
            reasons.append(
                "row numbers of a cluster change from pass to pass; name a unique row id "
                f"({argument('key')}), so that rows can be put into blocks"
            )
        if not reasons:
            return chosen
        text = f"narrower intervals are possible: {'; and '.join(reasons)}"
        return replace(chosen, note=Note(text, kind="control-variate"))

    def interval(self, evidence: Evidence) -> bounds.Interval:  # noqa: ARG002
        """Raise an error: the settled method makes the interval."""
        raise AssertionError(f"{self.name} was not settled")
