"""What an interval method is: which sums it needs, how they become an interval, and what that promises."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from piwo import bounds
from piwo.bounds.interval import Guarantee
from piwo.errors import UsageError
from piwo.intervals.point import Estimate, Estimator, estimator_named
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.reductions import PolicyState, Reduction
from piwo.reductions.model_variate import Predictor
from piwo.scores import Score

__all__ = ["Evidence", "IntervalMethod", "check_exact"]


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
    """Whose credits were summed."""
    estimator: Estimator
    estimate: Estimate
    """The point estimate, on the unit scale."""
    state: PolicyState
    """The sums that every method has."""
    own: tuple[Any, ...]
    """The states of the method's own sums (`IntervalMethod.sums`)."""
    delta: float
    """Chance of error of this interval, for N policies already divided by N."""
    log_inv_delta: float
    """log(1 / delta), never formed from a delta that underflows."""
    random_state: Any
    horizon: bounds.Horizon = None
    """None: this n alone; else declared in advance, so that the log may be looked at again as it
    grows."""

    @property
    def rows(self) -> int:
        """N."""
        return self.state.moments.rows

    @property
    def bounded(self) -> bool:
        """Whether rewards have an upper end, so that losses exist."""
        return math.isfinite(self.log.reward_range[1])


class IntervalMethod(ABC):
    """How an interval is made. A new one says `name` and `finish`, and is one line in `INTERVALS`.

    Methods are frozen dataclasses without state: what they need of the rows they ask for as a
    reduction, which runs in the one pass over the log that serves all policies.
    """

    name: ClassVar[str]
    """As on the command line."""
    guarantee: ClassVar[Guarantee] = "finite-sample"
    estimators: ClassVar[tuple[str, ...]] = ()
    """The point estimates that it goes with, by name; none: all."""
    fixed_bet: ClassVar[bool] = False
    """Whether it comes from the credits of the point estimate's own score, at its one bet size."""
    anytime: ClassVar[bool] = False
    """Whether it holds at all n together where a horizon was declared (`Evidence.horizon`)."""
    variates: ClassVar[bool] = False
    """Whether it has control variates, which take the probability of every action."""
    takes_model: ClassVar[bool] = False
    """Whether predicted rewards can make it narrower."""
    certifies: ClassVar[bool] = False
    """Whether certificates can rest on it: it then has `value_lower`."""

    def goes_with(self, estimator: Estimator) -> bool:
        """Whether the interval may stand beside this point estimate."""
        return not self.estimators or estimator.name in self.estimators

    def estimator(self, asked: str | None) -> Estimator:
        """Return the point estimate to stand beside the interval: the one asked for, or the interval's own.

        Args:
            asked: name of the estimate; None: none was asked for.

        Raises:
            UsageError: where the two do not go together.
        """
        chosen = estimator_named((self.estimators or ("iw",))[0] if asked is None else asked)
        if not self.goes_with(chosen):
            got = "got none" if asked is None else f"got {argument('estimator', asked)}"
            known = " or ".join(map(repr, self.estimators))
            rest = f"{known}, {got}; leave estimator out, or use {known}"
            if not known:
                rest = (
                    f"a pessimistic score, {got}; name one, such as {argument('estimator', 'ls')}"
                )
            raise UsageError(f"{argument('interval', self.name)} goes with the estimate of {rest}")
        return chosen

    @property
    def note(self) -> str | None:
        """What a reader of this method's interval must know."""
        return None

    def declared(self, text: str) -> IntervalMethod:
        """Return the method with what was written behind its name, as in "hoeffding:20".

        Raises:
            UsageError: for methods to which nothing can be declared.
        """
        raise UsageError(
            f"interval '{self.name}:{text}' is not known: {self.name} takes nothing; use "
            f"{self.name!r}"
        )

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:  # noqa: ARG002 (for methods that choose)
        """Return the method to use for this policy on this log: this one, or what it stands for.

        Raises:
            UsageError: where the log or the policy lacks what the method needs.
        """
        return self

    def with_model(self, model: Predictor) -> IntervalMethod:  # noqa: ARG002 (for methods that take one)
        """Return the method with predicted rewards, for those that `takes_model`; others return themselves."""
        return self

    def sums(self, log: Log, policy: Policy) -> tuple[Reduction[Any], ...]:  # noqa: ARG002 (for methods that need more)
        """Return what the method must sum beside `PolicySums`: dataclasses with a field `policy`, this one."""
        return ()

    @abstractmethod
    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the raw interval on the unit scale. Only called where the guarantee can be had."""

    def value_lower(self, evidence: Evidence) -> float:  # noqa: ARG002 (for methods that have one)
        """Return the raw lower bound on the value alone, which has all of delta; for methods that `certifies`."""
        raise AssertionError(f"{self.name} makes no certificates")

    def improvement(self, evidence: Evidence) -> float:
        """Return the raw lower bound on value minus the logging policy's value, for rewards in [0, 1]."""
        gains = evidence.state.bets.improvement
        return bounds.improvement_lower(
            gains, evidence.rows, evidence.log_inv_delta, horizon=evidence.horizon
        )


def check_exact(method: IntervalMethod, log: Log) -> None:
    """Refuse propensities that may be too small, for methods that rest on weights of 1 on average.

    Raises:
        UsageError: where they may.
    """
    if log.propensity_error is not None and not log.propensity_error.exact:
        raise UsageError(
            f"{argument('interval', method.name)} needs propensities that are right, and these may be too "
            f"small (propensity_factor, sensitivity); use {argument('interval', 'mixture')}"
        )
