"""Empirical likelihood of pairs (w, R), exact. Asymptotic, for comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from piwo import bounds
from piwo.bounds.interval import Guarantee
from piwo.errors import UsageError
from piwo.intervals.declared_weight import check_declared, declared_number
from piwo.intervals.method import Evidence, IntervalMethod, check_exact
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.reductions import Reduction
from piwo.reductions.weight_pairs import WeightPairs

__all__ = ["EmpiricalLikelihoodInterval"]


@dataclass(frozen=True)
class EmpiricalLikelihoodInterval(IntervalMethod):
    """Interval method: empirical likelihood, not its quadratic form, `bounds.empirical_likelihood_interval`.

    Args:
        max_weight: what pi/mu can be at most ("empirical-likelihood:20" by name); infinity: nobody
            knows.

    >>> EmpiricalLikelihoodInterval().declared("20").max_weight
    20.0
    """

    name: ClassVar[str] = "empirical-likelihood"
    guarantee: ClassVar[Guarantee] = "asymptotic"
    estimators: ClassVar[tuple[str, ...]] = ("iw", "snips")
    max_weight: float = math.inf

    def declared(self, text: str) -> EmpiricalLikelihoodInterval:
        """Return the method with the weight that was written behind its name.

        Raises:
            UsageError: for text that is no number of at least 1, below which weights are not 1 on
                average.
        """
        return replace(self, max_weight=declared_number(self.name, text, least=1.0))

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:  # noqa: ARG002
        """Return this method.

        Raises:
            UsageError: for propensities that may be too small, and for rewards without an upper
                end.
        """
        check_exact(self, log)
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                f"{argument('interval', 'empirical-likelihood')} needs rewards with an upper end; use "
                "'cressie-read'"
            )
        return self

    def sums(self, log: Log, policy: Policy) -> tuple[Reduction[Any], ...]:
        """Return the pairs; none for a thinned log, of which not all rows are there."""
        return () if log.columns.weight is not None else (WeightPairs(policy),)

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval, without ends where a weight is beyond float64 or the rows are fewer than three.

        Raises:
            DataError: where a row has a larger weight than was declared.
        """
        if not evidence.own:
            return bounds.Interval(None, None, "asymptotic")
        check_declared(self.name, evidence.state.moments.max_weight, self.max_weight)
        pairs = evidence.own[0]
        return bounds.empirical_likelihood_interval(
            pairs.w, pairs.reward, evidence.delta, count=pairs.count, largest=self.max_weight
        )
