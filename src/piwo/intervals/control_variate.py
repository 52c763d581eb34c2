"""The mixture bound with control variates: narrower wherever the log has full propensity vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.intervals.two_sided import MixtureInterval
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.reductions import Reduction
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
    "lacking",
]

SHIFTS = (0.0, *(k for _, k in BASELINES))
"""By how much each of the pooled quantities is raised: the plain credit w R, then the baselines."""
WEIGHTS = (1 / 5, *[1 / 15] * len(BASELINES))
"""Their weights in the pool."""
GAIN_SHIFTS = (0.0, 0.0, *(BASELINES[i][1] for i in GAIN_BASELINES))
"""The same for the improvement: w R + 1 - R, that with the total variation, and with some of the
baselines."""
GAIN_WEIGHTS = (1 / 5, 1 / 5, *[1 / 10] * len(GAIN_BASELINES))
MODEL_WEIGHTS = (1 / 5, *[1 / 30] * len(BASELINES), *[2 / 15] * len(CUTS))
"""Weights in the pool where there is a reward model: the plain credit, the constants, the model."""
MODEL_GAIN_WEIGHTS = (1 / 10, 1 / 10, *[1 / 15] * len(GAIN_BASELINES), *[2 / 15] * len(CUTS))


@dataclass(frozen=True)
class ControlVariateInterval(IntervalMethod):
    """Interval method: the pooled mixture bound of w R and of its truncated doubly robust forms, on both sides.

    Needs the probability of every action, of the logger and of the policy. Valid as the plain
    mixture is, for propensities that are right: also those of the actions not taken must be.

    >>> ControlVariateInterval().guarantee
    'finite-sample'
    """

    name: ClassVar[str] = "mixture-cv"
    anytime: ClassVar[bool] = True
    variates: ClassVar[bool] = True
    takes_model: ClassVar[bool] = True
    certifies: ClassVar[bool] = True
    model: Predictor | None = None

    def with_model(self, model: Predictor) -> IntervalMethod:
        """Return the method with baselines predicted by a reward model, beside the constant ones."""
        return replace(self, model=model)

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:
        """Return this method.

        Raises:
            UsageError: where the log or the policy knows the logged actions alone.
        """
        reason = lacking(log, policy)
        if reason is not None:
            raise UsageError(
                f"{argument('interval', 'mixture-cv')}: {reason}, or use {argument('interval', 'mixture')}"
            )
        return self

    def sums(self, log: Log, policy: Policy) -> tuple[Reduction[Any], ...]:
        """Return the control variates; none for a thinned log, on which nothing is bet."""
        if log.columns.weight is not None:
            return ()
        bounded = bool(np.isfinite(log.reward_range[1]))
        constant = ControlVariates(policy, bounded)
        return (
            (constant,)
            if self.model is None
            else (constant, ModelVariates(policy, self.model, bounded))
        )

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval; without an upper end of the rewards it has none either, and the lower end all delta."""
        if not evidence.bounded:
            return bounds.Interval(self.value_lower(evidence), None)
        bets, half = evidence.state.bets, evidence.log_inv_delta + np.log(2.0)
        lower = self._pooled(bets.value, "value", evidence, half)
        return bounds.Interval(lower, 1.0 - self._pooled(bets.loss, "loss", evidence, half))

    def value_lower(self, evidence: Evidence) -> float:
        """Return the raw lower bound on the value alone, which has all of delta."""
        return self._pooled(evidence.state.bets.value, "value", evidence, evidence.log_inv_delta)

    def improvement(self, evidence: Evidence) -> float:
        """Return the raw lower bound on value minus the logging policy's value, for rewards in [0, 1]."""
        return (
            self._pooled(
                evidence.state.bets.improvement, "improvement", evidence, evidence.log_inv_delta
            )
            - 1.0
        )

    def _pooled(self, plain: Floats, what: str, evidence: Evidence, penalty: float) -> float:
        """Return the pooled lower bound from the sums of the plain credit and those of the variates."""
        gain = what == "improvement"
        shifts, weights = (GAIN_SHIFTS, GAIN_WEIGHTS) if gain else (SHIFTS, WEIGHTS)
        if self.model is not None:
            shifts, weights = (*shifts, *CUTS), MODEL_GAIN_WEIGHTS if gain else MODEL_WEIGHTS
        sums = np.vstack([plain, *(getattr(state, what) for state in evidence.own)])
        return bounds.pooled_lower(
            sums, shifts, weights, evidence.rows, penalty, horizon=evidence.horizon
        )


@dataclass(frozen=True)
class AutoInterval(IntervalMethod):
    """Interval method: "mixture-cv" where the log and the policy allow it, else "mixture" with a note that says why.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0])
    >>> AutoInterval().settled(log, piwo.policies.Logging()).name
    'mixture'
    """

    name: ClassVar[str] = "auto"
    takes_model: ClassVar[bool] = True
    certifies: ClassVar[bool] = True

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:
        """Return the narrower method that can be had."""
        hopeless = (
            log.propensity_error is not None
            and log.columns.propensities is None
            and log.behavior is None
        )
        if (
            log.columns.weight is not None or hopeless
        ):  # nothing that the user could give would help
            return MixtureInterval()
        reason = lacking(log, policy)
        if reason is None:
            return ControlVariateInterval()
        return MixtureInterval(
            Note(
                f"a control variate would make most intervals narrower: {reason}",
                kind="control-variate",
            )
        )

    def finish(self, evidence: Evidence) -> bounds.Interval:  # noqa: ARG002
        """Return nothing: the settled method does."""
        raise AssertionError(f"{self.name} was not settled")


def lacking(log: Log, policy: Policy) -> str | None:
    """Return what must be given for a control variate, None where nothing is missing.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> lacking(log, piwo.policies.Uniform(log.actions)).split(";")[0]
    'the log has the propensity of the logged action only'
    """
    if log.propensity_error is not None:
        return "it needs propensities that are right, of every action, and these are known only roughly"
    if not log.gives_full_distribution:
        return (
            "the log has the propensity of the logged action only; give the probability of every "
            f"action ({argument('propensities')})"
        )
    if not policy.gives_full_distribution and not policy.is_logger:
        return "the policy tells the probabilities of the logged actions only; give full vectors, (n, K)"
    return None
