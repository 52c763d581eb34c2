"""Baselines: the policy that others are compared with, and bounds on the difference of two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.bounds import deadline
from piwo.errors import UsageError
from piwo.intervals import IntervalMethod
from piwo.intervals.deadline import blocks_of, mixture_of, planned_rows, test_levels
from piwo.intervals.loggers import BASELINE, check_loggers
from piwo.intervals.matching import name_of
from piwo.intervals.method import Evidence
from piwo.intervals.point import importance_weighted
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.policies.sameness import policy_digest
from piwo.reductions import PolicyState, PolicySums
from piwo.reductions.blocks import Partition
from piwo.reductions.pair_sums import PAIR_BASELINES, PairState, PairSums
from piwo.scores import IW

__all__ = ["PAIR_SHIFTS", "PAIR_WEIGHTS", "Baseline", "BaselineResult", "Difference"]

PAIR_SHIFTS: tuple[float, ...] = (0.0, *(k for _, k in PAIR_BASELINES))
"""By how much each of the pooled quantities is raised beyond 1: the plain one, then those with
control variates."""
PAIR_WEIGHTS: tuple[float, ...] = (1 / 3, *[2 / (3 * len(PAIR_BASELINES))] * len(PAIR_BASELINES))
"""Their weights in the pool."""


@dataclass(frozen=True)
class Difference:
    """What bounds v(policy) - v(other) from below: one statement about both, from the same rows.

    Far tighter than a lower bound minus an upper one: what both do alike adds no noise if both give
    the probability of every action. For rewards in [0, 1]; the propensities of the logged actions
    are enough, and may be too large (`Log.with_propensity_error`). If those of all actions are
    known, control variates make it narrower still.

    Formula: LB(E Y) - 1, Y as in `piwo.reductions.pair_sums.PairSums`, E Y - 1 <= v(policy) -
    v(other); with control variates the pooled bound of all its forms, `piwo.bounds.pooled_lower`.
    Source: docs/theory.md, section "Improvement over another policy".

    Args:
        policy: over the log's action list.
        other: likewise, fixed before these rows were looked at.
        variates: use control variates; both must give the probability of every action, and so must
            the log.
        partition: into blocks to bet on in turn; None: without.

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
    partition: Partition | None = None

    @classmethod
    def of(
        cls,
        policy: Policy,
        other: Policy,
        method: IntervalMethod,
        partition: Partition | None = None,
    ) -> Difference:
        """Return the difference, with control variates if the interval method has them.

        Args:
            policy: see above.
            other: see above.
            method: settled for the policy.
            partition: see above; it is used if the method bets on blocks.
        """
        made = cls(policy, other, partition=partition if method.needs_blocks else None)
        return replace(made, variates=made.full and method.variates)

    @property
    def full(self) -> bool:
        """Whether both give the probability of every action."""
        return self.policy.gives_full_distribution and self.other.gives_full_distribution

    @property
    def sums(self) -> PairSums:
        """What must be summed over the log."""
        return PairSums(self.policy, self.other, self.full, self.variates, self.partition)

    def lower(
        self, state: PairState, log_inv_delta: float, horizon: bounds.Horizon = None
    ) -> float:
        """Return the raw lower bound, at least -1, from the state of `sums`.

        Args:
            state: of `sums`.
            log_inv_delta: log(1/delta) of this one statement.
            horizon: see `piwo.bounds.Horizon`.
        """
        if self.partition is not None:
            blocks, mixture = self._both(state, log_inv_delta, horizon)
            planned = planned_rows(horizon)
            return deadline.deadline_lower(blocks, mixture, log_inv_delta, planned=planned) - 1.0
        if not self.variates:
            return bounds.improvement_lower(state.bets, state.rows, log_inv_delta, horizon=horizon)
        # Y and its forms with control variates, each a block of bet sums
        sums = np.vstack([state.bets, state.raised])
        # E Y - 1 <= v(policy) - v(other)
        pooled = bounds.pooled_lower(
            sums, PAIR_SHIFTS, PAIR_WEIGHTS, state.rows, log_inv_delta, horizon=horizon
        )
        return pooled - 1.0

    def log_e_value(self, state: PairState, evidence: Evidence) -> float:
        """Return the log e-value against "not better than the other", valid at every n.

        Args:
            state: of `sums`.
            evidence: for the policy: the levels of the tests.
        """
        if self.partition is None:
            return bounds.log_e_value(state.bets, state.rows, 1.0)
        blocks, mixture = self._both(state, evidence.log_inv_delta, evidence.horizon)
        return deadline.deadline_log_e_value(
            blocks, mixture, 1.0, test_levels(evidence), planned=planned_rows(evidence.horizon)
        )

    def _both(
        self, state: PairState, log_inv_delta: float, horizon: bounds.Horizon
    ) -> tuple[deadline.Blocks, deadline.Mixture]:
        """Return the sums of all forms of Y by block, and the mixture of these."""
        bets, forms = [state.bets], [state.blocks]
        shifts: tuple[float, ...] = (0.0,)
        weights: tuple[float, ...] = (1.0,)
        if self.variates:
            bets, forms = [*bets, *state.raised], [*forms, *state.raised_blocks]
            shifts, weights = PAIR_SHIFTS, PAIR_WEIGHTS
        mixture = mixture_of(bets, shifts, weights, state.rows, log_inv_delta, horizon)
        return blocks_of(state.block_rows, forms, shifts, state.trend, state.numbers), mixture


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
        """Return the baseline that a user gave; None for the logging policy, the usual one.

        Args:
            log: the rows.
            policies: name -> policy: those to compare with it.
            given: None; a policy, or what `piwo.evaluate` takes in place of one; or the name of one
                of the policies.

        Raises:
            UsageError: for a name that is not among them, the logging policy of another log, and
                rewards without an upper end.
        """
        if isinstance(given, str) and given not in policies:
            known = ", ".join(map(str, policies))
            raise UsageError(
                f"{argument('baseline')} is {given!r}, expected a policy, or the name "
                f"of one of those given: {known}"
            )
        policy = given
        if isinstance(given, str):
            policy = policies[given]
        # a logging policy that was saved or learned is the logger of one log
        check_loggers(log, {BASELINE: policy})
        if policy is None or policy is log.behavior or getattr(policy, "is_logger", False):
            return None
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                "the rewards have no upper end, so nothing bounds what the baseline "
                f"earns; declare {argument('reward_range')}"
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
        """A key that none of the policies has."""
        return (BASELINE, self.name)

    def sums(self, log: Log) -> tuple[PolicySums, ...]:
        """Return what must be summed of the policy itself: nothing if it is one of those compared.

        Args:
            log: the rows.
        """
        if self.twins:
            return ()
        return (PolicySums(self.policy, IW(), bounded=False, origin=log.origin),)


@dataclass(frozen=True)
class BaselineResult:
    """What the pass over the log says of a baseline itself."""

    baseline: Baseline
    state: PolicyState
    obstacle: Note | None
    """Why nothing is said of improvements over it; None if it can be."""

    @property
    def usable(self) -> bool:
        """Whether improvements over it can be certified."""
        return self.obstacle is None

    def value(self, log: Log) -> float | None:
        """Return the importance-weighted estimate of what it is worth, in the reward's own unit."""
        value = importance_weighted(self.state.moments, log.origin).value
        if value is None or not math.isfinite(value):
            return None
        return log.value(value)
