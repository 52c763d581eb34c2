"""The upper end of an interval under a declared cap on rates, and when the rows contradict it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from piwo import bounds
from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.bounds.rate_cap import TESTED, rows_by_weight
from piwo.checks import is_number
from piwo.errors import DataError, UsageError
from piwo.intervals import Evidence, IntervalMethod
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.reductions.rate_cells import RateCellState
from piwo.visible import number, p_value

__all__ = ["RateCap"]

# The part of delta/2 that the interval's own upper end keeps, so that a cap that says little costs
# little. The bound under the cap has the rest, and is about one percent wider for it.
_OWN_SHARE = 0.1


@dataclass(frozen=True)
class RateCap:
    """A declared cap on E[R | x, a], for every context and action.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[5, 0], propensity=[0.5, 0.5], reward_range=(0, 5)
    ... )
    >>> RateCap.declared(1.0, log, [])
    RateCap(value=1.0, unit=0.2)
    """

    value: float
    """In the reward's own unit."""
    unit: float
    """On the unit scale."""

    @classmethod
    def declared(
        cls, value: float | None, log: Log, methods: Iterable[IntervalMethod]
    ) -> Self | None:
        """Return a cap, checked; None if none is declared.

        Args:
            value: in the reward's own unit; None: none.
            log: the rows.
            methods: the interval methods of all policies.

        Raises:
            UsageError: for a number that is not inside of the reward range, and for logs and
                intervals that a cap cannot be used with.
        """
        if value is None:
            return None
        what = argument("rate_cap", value)
        low, high = log.reward_range
        if log.columns.cost:
            raise UsageError(f"{what} caps mean rewards, and this log has costs; leave it out")
        if not math.isfinite(high):
            raise UsageError(f"{what} needs rewards with an upper end; leave it out")
        if log.columns.weight is not None:
            raise UsageError(
                f"{what} needs all rows, and this log is a sample whose rows may have been chosen "
                "by their rewards (it has sampling weights); leave it out"
            )
        for method in methods:
            if method.guarantee != "finite-sample":
                raise UsageError(
                    f"{what} goes with finite-sample intervals, and "
                    f"{argument('interval', method.name)} is asymptotic; use "
                    f"{argument('interval', 'mixture')}"
                )
        if not (is_number(value) and low < value < high):
            raise UsageError(
                f"{what}: expected a mean reward between {low:g} and {high:g}, the ends of the "
                "rewards' range, that no context and action exceeds"
            )
        return cls(float(value), (float(value) - low) / log.span)

    def applied(
        self,
        interval: bounds.Interval,
        state: RateCellState,
        method: IntervalMethod,
        evidence: Evidence,
        whose: str,
    ) -> bounds.Interval:
        """Return a raw interval with the upper end that the cap allows.

        Formula: the lower end keeps its delta/2. The upper end is the smaller of the bound under
        the cap, at 9/10 of delta/2, and the interval's own upper end, at 1/10 of it.

        Args:
            interval: of the method, without the cap.
            state: the sums by size of the weight.
            method: of the interval.
            evidence: what the interval was made from.
            whose: what messages call the policy.

        Raises:
            DataError: if the rows contradict the cap.
        """
        self._refuse_contradicted(state, evidence, whose)
        # (1 - share) delta / 2
        penalty = evidence.log_inv_delta + math.log(2.0) - math.log1p(-_OWN_SHARE)
        upper = bounds.rate_cap_upper(
            state.cells, evidence.rows, self.unit, penalty, horizon=evidence.horizon
        )
        lower = max(0.0, interval.lower or 0.0)
        if upper < lower:
            value = evidence.log.value
            raise DataError(
                f"{self._contradicted}: the value of {whose} is at most {number(value(upper))} "
                f"under it, and at least {number(value(lower))} without; declare a higher one, or "
                "leave it out"
            )
        reduced = replace(
            evidence,
            delta=evidence.delta * _OWN_SHARE,
            log_inv_delta=evidence.log_inv_delta - math.log(_OWN_SHARE),
        )
        own = method.finish(reduced).upper
        if own is not None:
            upper = min(upper, own)
        return replace(interval, upper=upper)

    @property
    def _contradicted(self) -> str:
        return f"{argument('rate_cap', self.value)} is contradicted by this log"

    def _refuse_contradicted(self, state: RateCellState, evidence: Evidence, whose: str) -> None:
        """Raise if rows were rewarded more often than the cap allows, with p below `SUSPICIOUS`."""
        logs = bounds.rate_cap_log_e_values(state.cells, self.unit)
        # what a policy pays for being one of several
        paid = evidence.log_inv_delta + math.log(evidence.delta_of_all)
        p = math.exp(min(0.0, paid - float(np.logaddexp.reduce(logs))))
        if p >= SUSPICIOUS:
            return
        worst = int(logs.argmax())
        lost, won = rows_by_weight(state.cells)[worst]
        which = "its rows"
        if worst:
            # the first group is of all rows
            weight = 2.0 ** (TESTED[0] + worst - 1)
            which = f"rows of weight {weight:g} to {2 * weight:g} under {whose}"
        raise DataError(
            f"{self._contradicted}: {which} earned "
            f"{number(evidence.log.value(float(won / (lost + won))))} on average ({p_value(p)}); "
            "declare a higher one, or leave it out"
        )
