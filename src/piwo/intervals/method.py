"""Interval methods: which sums they need, how these become an interval, and what it promises."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from piwo import bounds
from piwo.errors import DataError, UsageError
from piwo.intervals.partition import partition_of
from piwo.intervals.point import Estimate, Estimator, estimator_named
from piwo.logs.log import Log
from piwo.logs.split import at_random
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.reductions import PolicyState, Reduction
from piwo.reductions.blocks import Partition
from piwo.reductions.model_variate import Predictor
from piwo.scores import Score

__all__ = ["Evidence", "IntervalMethod", "OneFormula", "lacking"]


@dataclass(frozen=True)
class Evidence:
    """All that an interval for one policy may rest on, after the pass over the log.

    >>> from dataclasses import fields
    >>> {"state", "own", "log_inv_delta"} <= {item.name for item in fields(Evidence)}
    True
    """

    log: Log
    policy: Policy
    score: Score
    """The score whose credits were summed."""
    estimator: Estimator
    estimate: Estimate
    """The point estimate, on the unit scale."""
    state: PolicyState
    """The sums that every method has."""
    own: tuple[Any, ...]
    """The states of the method's own sums (`IntervalMethod.sums`)."""
    delta: float
    """Error probability of this interval; for N policies already divided by N."""
    log_inv_delta: float
    """log(1 / delta), never formed from a delta that underflows."""
    random_state: Any
    horizon: bounds.Horizon = None
    """None: valid at this n only; otherwise declared in advance, so that the log may be looked at
    again as it grows."""
    max_weight: float = math.inf
    """The largest weight that can occur, as declared with the method; infinity: not declared."""
    delta_of_all: float = 0.05
    """Error probability of all intervals of the request together."""

    @property
    def rows(self) -> int:
        """The number of rows, n."""
        return self.state.moments.rows

    @property
    def bounded(self) -> bool:
        """Whether rewards have an upper end, so that losses exist."""
        return math.isfinite(self.log.reward_range[1])


@dataclass(frozen=True, kw_only=True)
class IntervalMethod(ABC):
    """An interval method: one row of the table `piwo.intervals.INTERVALS`, described by its fields.

    Most methods are a `TwoSided` or a `OneFormula`. Methods keep nothing fitted: what they need of
    the rows they request as reductions, which run in the one pass over the log that serves all
    policies.
    """

    name: str
    """As in Python and on the command line."""
    summary: str
    """What it is, in one line."""
    source: str
    guarantee: bounds.Guarantee = "finite-sample"
    needs: str = ""
    """What else it needs, in words, beyond a log, a policy, and what the next fields say."""
    needs_every_action: bool = False
    """Whether it needs the probability of every action, of logger and policy."""
    needs_upper_end: bool = False
    """Whether it needs rewards with an upper end."""
    needs_mean_weight_one: bool = False
    """Whether it uses E w = 1, which fails for propensities that may be too small."""
    needs_single_rows: bool = False
    """Whether it needs rows that do not depend on each other: it does not exist by unit."""
    needs_fixed_logger: bool = False
    """Whether it needs rows that are independent, not only given the past."""
    needs_blocks: bool = False
    """Whether it bets on blocks of rows one after the other, see `piwo.intervals.partition`."""
    needs_row_numbers: bool = False
    """Whether it needs rows with numbers that are the same in every pass."""
    needs_second_pass: bool = False
    """Whether it reads the rows of the log again, all of them."""
    weight_limit: str = "none"
    """Whether the largest possible weight can be declared with the method, as in "hoeffding:20"."""
    max_weight: float | None = None
    """What pi/mu can be at most, as declared; None: not declared."""
    fewest_rows: int = 0
    """With fewer rows there is no interval."""
    thinned: bool = False
    """Whether it exists for a log with sampling weights."""
    anytime: bool = False
    """Whether it holds at all n together if a horizon was declared (`Evidence.horizon`)."""
    estimators: tuple[str, ...] = ()
    """Names of the point estimates that it can be combined with; empty: see `goes_with`."""
    fixed_bet: bool = False
    """Whether it is made of the credits of the point estimate's own score, at its one bet size."""
    variates: bool = False
    """Whether it has control variates, which take the probability of every action."""
    takes_model: bool = False
    """Whether predicted rewards can make it narrower."""
    upper_share: float = 0.5
    """The share of delta with which its upper end may be wrong; the rest is for other bounds on the
    same side, such as what the logging policy earns at least."""
    certifies: bool = False
    """Whether certificates can rest on it; it then has `value_lower`."""
    note: str | None = None
    """What a reader of its intervals must know."""

    def goes_with(self, estimator: Estimator) -> bool:
        """Whether the interval may be reported with this point estimate."""
        if self.estimators:
            return estimator.name in self.estimators
        if self.fixed_bet:
            # any pessimistic score whose bound needs no upper end of the rewards
            score = estimator.score(1.0)
            return score.pessimistic and not score.needs_upper_end
        return True

    def estimator(self, asked: str | None) -> Estimator:
        """Return the point estimate to report: the one that was asked for, or the interval's own.

        Args:
            asked: name of the estimate; None: none was asked for.

        Raises:
            UsageError: if the two cannot be combined.
        """
        if asked is not None:
            chosen, got = estimator_named(asked), f"got {argument('estimator', asked)}"
        elif self.estimators:
            chosen, got = estimator_named(self.estimators[0]), "got none"
        else:
            chosen, got = estimator_named("iw"), "got none"
        if self.goes_with(chosen):
            return chosen
        if self.estimators:
            known = " or ".join(map(repr, self.estimators))
            rest = f"{known}, {got}; leave {argument('estimator')} out, or use {known}"
        else:
            example = argument("estimator", "ls")
            rest = f"a pessimistic score, {got}; name one, such as {example}"
        raise UsageError(f"{self._argument} needs the estimate of {rest}")

    def declared(self, text: str) -> Self:
        """Return the method with the largest possible weight, given as the text after its name.

        Args:
            text: "20" in "hoeffding:20".

        Raises:
            UsageError: for methods that take none, and for text that is not such a number.
        """
        if self.weight_limit == "none":
            raise UsageError(
                f"interval '{self.name}:{text}' is not known: {self.name} takes no number; use "
                f"{self.name!r}"
            )
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        expected, enough = "above 0", number > 0.0
        if self.needs_mean_weight_one:
            # weights that are 1 on average have a largest one of at least 1
            expected, enough = "of at least 1", number >= 1.0
        if not (math.isfinite(number) and enough):
            raise UsageError(
                f"interval '{self.name}:{text}' ends in {text!r}, expected a number {expected}: "
                "the largest possible weight"
            )
        return replace(self, max_weight=number)

    def partition(self, log: Log, horizon: bounds.Horizon) -> Partition | None:
        """Return the blocks of the log, if the method bets on blocks and there are any.

        Args:
            log: the rows.
            horizon: see `piwo.bounds.Horizon`.

        Raises:
            UsageError: for a horizon that bets on blocks cannot be planned for.
        """
        if not self.needs_blocks:
            return None
        instead = f"use {argument('interval', 'mixture')}"
        if horizon == "universal":
            raise UsageError(
                f"{self._argument} plans its bets for a number of rows, and "
                f"{argument('horizon')} is 'universal'; give a number of rows, or {instead}"
            )
        # blocks end at row numbers of the whole log, of which one side has only some
        if horizon is not None and at_random(log.selector):
            raise UsageError(
                f"{self._argument} with {argument('horizon')} counts the rows in the order of the "
                f"decisions, and {log.name} is one side of a random split; split with "
                f"{argument('tail', value=True)}, or {instead}"
            )
        return partition_of(log, horizon)

    def settled(
        self, log: Log, policy: Policy, partition: Partition | None = None
    ) -> IntervalMethod:
        """Return the method to use for this policy on this log: this one, or the one it selects.

        Args:
            log: the rows.
            policy: over the log's action list.
            partition: the log's blocks, see `piwo.intervals.partition`.

        Raises:
            UsageError: if the log or the policy lacks what the method needs.
        """
        instead = f"use {argument('interval', 'mixture')}"
        if self.weight_limit == "required" and self.max_weight is None:
            raise UsageError(
                f"{self._argument} needs the largest weight pi/mu that can occur, which no log "
                f"can show; declare it, as in '{self.name}:20', or {instead}, which needs none"
            )
        if self.needs_every_action:
            reason = lacking(log, policy)
            if reason is not None:
                raise UsageError(f"{self._argument}: {reason}, or {instead}")
        error = log.propensity_error
        if self.needs_mean_weight_one and error is not None and not error.exact:
            factor, gamma = argument("propensity_factor"), argument("sensitivity")
            raise UsageError(
                f"{self._argument} needs exact propensities, and these may be too small "
                f"({factor}, {gamma}); {instead}"
            )
        if self.needs_fixed_logger and log.logger == "learning":
            raise UsageError(
                f"{self._argument} needs a fixed logger, and this one learned from earlier rows "
                f"({argument('logger', 'learning')}); {instead}"
            )
        if self.needs_single_rows:
            log.columns.require_single_rows(self._argument, instead)
        if self.needs_row_numbers:
            log.require_order(self._argument, instead)
        if self.needs_blocks and partition is None:
            raise UsageError(
                f"{self._argument} bets on rows in an order that says nothing about their rewards, "
                f"and {log.name} has none (rows in a cluster need {argument('key')}; a logger that "
                f"learns needs {argument('time')}, or a file in the order of the decisions; "
                f"{argument('horizon')} needs a number of rows, and none of {argument('time')}); "
                f"{instead}"
            )
        if self.needs_upper_end and not math.isfinite(log.reward_range[1]):
            raise UsageError(f"{self._argument} needs rewards with an upper end; {instead}")
        return self

    def with_model(self, model: Predictor) -> IntervalMethod:  # noqa: ARG002
        """Return the method with predicted rewards if it `takes_model`, otherwise this one."""
        return self

    def sums(
        self,
        log: Log,  # noqa: ARG002
        policy: Policy,  # noqa: ARG002
        partition: Partition | None = None,  # noqa: ARG002
    ) -> tuple[Reduction[Any], ...]:
        """Return reductions besides `PolicySums`: dataclasses whose field `policy` is this one."""
        return ()

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the raw interval on the unit scale. Only called if the guarantee can be had.

        Raises:
            DataError: if a row has a larger weight than was declared.
        """
        nothing = bounds.Interval(None, None, self.guarantee)
        # the rows that thinning dropped are not counted
        if evidence.log.columns.weight is not None and not self.thinned:
            return nothing
        if self.max_weight is not None:
            evidence = replace(evidence, max_weight=self.max_weight)
            self._check_weights(evidence)
        if evidence.rows < self.fewest_rows:
            return nothing
        return self.interval(evidence)

    @abstractmethod
    def interval(self, evidence: Evidence) -> bounds.Interval:
        """Return the formula's interval, for rows that `finish` has checked."""

    def value_lower(self, evidence: Evidence) -> float:  # noqa: ARG002
        """Return the raw lower bound on the value, at all of delta, for methods that certify."""
        raise AssertionError(f"{self.name} makes no certificates")

    def improvement(self, evidence: Evidence) -> float:
        """Return the raw lower bound on v(policy) - v(logging policy), for rewards in [0, 1]."""
        # LB(E[w R + 1 - R]) - 1
        gains = evidence.state.bets.improvement
        return bounds.improvement_lower(
            gains, evidence.rows, evidence.log_inv_delta, horizon=evidence.horizon
        )

    def log_e_better(self, evidence: Evidence) -> float:
        """Return the log e-value against "not better than the logging policy"."""
        return bounds.log_e_value(evidence.state.bets.improvement, evidence.rows, 1.0)

    def log_e_above(self, evidence: Evidence, threshold: float) -> float:
        """Return the log e-value against "worth at most the threshold", on the unit scale."""
        return bounds.log_e_value(evidence.state.bets.value, evidence.rows, threshold)

    def missing_mass(self, evidence: Evidence) -> float:
        """Return the raw upper bound on the mass of actions that the logger never takes."""
        return bounds.missing_mass_upper(
            evidence.state.bets.weight,
            evidence.rows,
            evidence.log_inv_delta,
            horizon=evidence.horizon,
        )

    def sees_sorted_rows(
        self,
        evidence: Evidence,  # noqa: ARG002
        *,
        one_sided: bool = False,  # noqa: ARG002
    ) -> bool:
        """Whether bounds are weaker because the file seems sorted."""
        return False

    @property
    def assumes_fixed_logger(self) -> bool:
        """Whether it is about independent rows, so that nothing holds if the logger learned."""
        return self.needs_fixed_logger or self.guarantee == "asymptotic"

    @property
    def assumptions(self) -> tuple[Note, ...]:
        """The note of what the method assumes, which certificates repeat."""
        if isinstance(self.note, Note) and self.note.kind == "assumptions":
            return (self.note,)
        return ()

    @property
    def _argument(self) -> str:
        return argument("interval", self.name)

    def _check_weights(self, evidence: Evidence) -> None:
        seen = evidence.state.moments.max_weight
        if seen > evidence.max_weight * (1 + 1e-9):
            raise DataError(
                f"a row has weight {seen:.6g}, which is above the {evidence.max_weight:g} declared "
                f"with {self._argument}; declare a number that no weight can exceed"
            )


@dataclass(frozen=True, kw_only=True)
class OneFormula(IntervalMethod):
    """An interval method whose ends come from one formula, possibly with sums of its own."""

    ends: Callable[[Evidence], bounds.Interval]
    """Makes the interval on the unit scale."""
    own: Callable[[Policy], Reduction[Any]] | None = None
    """Makes the reduction whose state is `Evidence.own[0]`; None: `PolicySums` suffices."""

    def sums(
        self,
        log: Log,
        policy: Policy,
        partition: Partition | None = None,  # noqa: ARG002
    ) -> tuple[Reduction[Any], ...]:
        """Return the method's own sums; none for a thinned log, of which rows are missing."""
        if self.own is None or log.columns.weight is not None:
            return ()
        return (self.own(policy),)

    def interval(self, evidence: Evidence) -> bounds.Interval:
        """Return the formula's interval."""
        return self.ends(evidence)


def lacking(log: Log, policy: Policy) -> str | None:
    """Return what a method that needs the probability of every action lacks, None if nothing.

    Args:
        log: the rows.
        policy: over the log's action list.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> lacking(log, piwo.policies.Uniform(log.actions)).split(";")[0]
    'the log has the propensity of the logged action only'
    """
    if log.propensity_error is not None:
        return "it needs the exact propensity of every action, and these are known approximately"
    if not log.gives_every_propensity:
        # `behavior` is the alternative in Python; the command has the option for vectors only
        return (
            "the log has the propensity of the logged action only; give the probability of every "
            f"action ({argument('propensities')})"
        )
    if not policy.gives_full_distribution and not policy.is_logger:
        return (
            "the policy has the probabilities of the logged actions only; give full vectors, (n, K)"
        )
    return None
