"""The difference of two policies: which is better, and by how much at least?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals import IntervalMethod
from piwo.intervals.point import importance_weighted
from piwo.intervals.prepare import name_of
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.policies.sameness import policy_digest
from piwo.reductions import PolicyState, PolicySums
from piwo.reductions.pair_sums import PAIR_BASELINES, PairState, PairSums
from piwo.scores import IW

__all__ = ["PAIR_SHIFTS", "PAIR_WEIGHTS", "Baseline", "Difference"]

PAIR_SHIFTS = (0.0, *(k for _, k in PAIR_BASELINES))
"""By how much each of the pooled quantities is raised beyond 1: the plain one, then those with
control variates."""
PAIR_WEIGHTS = (1 / 3, *[2 / (3 * len(PAIR_BASELINES))] * len(PAIR_BASELINES))
"""Their weights in the pool."""


@dataclass(frozen=True)
class Difference:
    """What bounds v(policy) - v(other) from below: one statement about both, from the same rows.

    Far tighter than a lower bound minus an upper one: what both do alike adds no noise where both
    tell the probability of every action. For rewards in [0, 1]; the propensities of the logged
    actions are enough, and may be too large (`Log.with_propensity_error`). Where those of all actions are known,
    control variates make it narrower still.

    Formula: LB(E Y) - 1, Y as in `piwo.reductions.pair_sums.PairSums`, E Y - 1 <= v(policy) -
    v(other); with control variates the pooled bound of all its forms, `piwo.bounds.pooled_lower`.
    Source: docs/theory.md, section "Improvement over another policy".

    Args:
        policy: over the log's action list.
        other: likewise, fixed before these rows were looked at.
        variates: use control variates; both must tell the probability of every action, and so must
            the log.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> pair = Difference(*(piwo.policies.Constant(x, log.actions) for x in log.actions))
    >>> state = piwo.reductions.reduce(log, pair.sums)
    >>> 0.9 < pair.lower(state, log_inv_delta=3.0) < 1.0
    True
    """

    policy: Policy
    other: Policy
    variates: bool = False

    @classmethod
    def of(cls, policy: Policy, other: Policy, method: IntervalMethod) -> Difference:
        """Return the difference as the interval method of the policy has it: with control variates if that has them.

        Args:
            policy: see above.
            other: see above.
            method: settled for the policy.
        """
        full = policy.gives_full_distribution and other.gives_full_distribution
        return cls(policy, other, full and method.variates)

    @property
    def sums(self) -> PairSums:
        """What must be summed over the log."""
        return PairSums(
            self.policy,
            self.other,
            self.policy.gives_full_distribution and self.other.gives_full_distribution,
            self.variates,
        )

    def lower(
        self, state: PairState, log_inv_delta: float, horizon: bounds.Horizon = None
    ) -> float:
        """Return the raw lower bound, at least -1, from the state of `sums`.

        Args:
            state: of `sums`.
            log_inv_delta: log(1/delta) of this one statement.
            horizon: see `piwo.bounds.Horizon`.
        """
        if not self.variates:
            return bounds.improvement_lower(state.bets, state.rows, log_inv_delta, horizon=horizon)
        sums = np.vstack([state.bets, state.raised])
        return (
            bounds.pooled_lower(
                sums, PAIR_SHIFTS, PAIR_WEIGHTS, state.rows, log_inv_delta, horizon=horizon
            )
            - 1.0
        )

    def log_e_value(self, state: PairState) -> float:
        """Return the evidence against "not better than the other", an e-value valid at every n, as its logarithm."""
        return bounds.log_e_value(state.bets, state.rows, 1.0)


@dataclass(frozen=True)
class Baseline:
    """A policy that others are compared with in place of the logging policy.

    >>> from piwo.policies import Constant
    >>> Baseline("old", Constant("a", ["a", "b"])).key
    ('the baseline', 'old')
    """

    name: str
    policy: Any
    twins: tuple[Any, ...] = ()
    """Names of those compared with it that are the same policy."""

    @classmethod
    def of(cls, log: Log, policies: Mapping[Any, Any], given: Any) -> Baseline | None:
        """Return the baseline that a user gave; None for the logging policy, with which all are compared anyhow.

        Args:
            log: the rows.
            policies: name -> policy: those to compare with it.
            given: None; a policy, or what `piwo.evaluate` takes in place of one; or the name of one
                of the policies.

        Raises:
            UsageError: for a name that is not among them, and for rewards without an upper end.
        """
        if isinstance(given, str) and given not in policies:
            known = ", ".join(map(str, policies))
            raise UsageError(
                f"{argument('baseline')} is {given!r}, expected a policy, or the name of one of those given: "
                f"{known}"
            )
        policy = policies[given] if isinstance(given, str) else given
        if policy is None or policy is log.behavior or getattr(policy, "is_logger", False):
            return None
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                "the rewards have no upper end, so nothing bounds what the baseline earns; "
                "declare reward_range"
            )
        if isinstance(given, str):
            return cls(given, policy, (given,))
        itself = policy_digest(policy)
        return cls(
            name_of(policy),
            policy,
            tuple(name for name, one in policies.items() if policy_digest(one) == itself),
        )

    @property
    def key(self) -> tuple[str, str]:
        """A name that no policy beside it has."""
        return ("the baseline", self.name)

    @property
    def sums(self) -> tuple[PolicySums, ...]:
        """What must be summed over the log of the policy itself; nothing where it is one of those compared."""
        return () if self.twins else (PolicySums(self.policy, IW(), bounded=False),)

    def value(self, state: PolicyState, log: Log) -> float | None:
        """Return the importance-weighted estimate of what it is worth, in the reward's own unit."""
        value = importance_weighted(state.moments, log.origin).value
        return None if value is None or not math.isfinite(value) else log.value(value)
