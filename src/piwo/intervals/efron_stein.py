"""The Efron-Stein bound around the self-normalized estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.control_variate import lacking
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.reductions import Reduction
from piwo.reductions.efron_stein import EfronSteinSums

__all__ = ["EfronSteinInterval"]


@dataclass(frozen=True)
class EfronSteinInterval(IntervalMethod):
    """Interval method: the Efron-Stein bound of the self-normalized estimate, `bounds.efron_stein_interval`.

    For independent rows, and propensities of all actions that are right.

    >>> EfronSteinInterval().guarantee
    'finite-sample'
    """

    name: ClassVar[str] = "eslb"

    @property
    def note(self) -> str | None:
        """What the interval rests on."""
        return "eslb holds for independent rows and contexts, and rests on the propensities of all actions"

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:
        """Return this method.

        Raises:
            UsageError: where log or policy knows the logged actions alone, for logs in clusters,
                for rewards without an upper end.
        """
        missing = lacking(log, policy)
        if missing is not None:
            raise UsageError(
                f"{argument('interval', 'eslb')}: {missing}, or use {argument('interval', 'mixture')}"
            )
        log.require_order(
            f"{argument('interval', 'eslb')}", f"use {argument('interval', 'mixture')}"
        )
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                f"{argument('interval', 'eslb')} needs rewards with an upper end; use {argument('interval', 'mixture')}"
            )
        return self

    def sums(self, log: Log, policy: Policy) -> tuple[Reduction[Any], ...]:
        """Return the Efron-Stein sums; none for a thinned log, of which not all rows are there."""
        return () if log.columns.weight is not None else (EfronSteinSums(policy),)

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval; [0, 1] where all weights are 0, or some beyond what the sums can tell."""
        sums, moments = evidence.state.moments, evidence.own[0].moments()
        if moments is None or not sums.w < math.inf or sums.max_weight > _LARGEST:
            return bounds.Interval(0.0, 1.0)
        return bounds.efron_stein_interval(
            min(1.0, sums.wr / sums.w) if sums.w > 0.0 else 0.0,
            sums.w,
            moments.changes,
            moments.expected_changes,
            moments.inflation,
            evidence.rows,
            evidence.log_inv_delta,
        )


_LARGEST = 2.0**40
"""`EfronSteinSums` looks at sums of weights up to some 2^45."""
