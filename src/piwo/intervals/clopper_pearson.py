"""The exact interval of a binomial, where the value of a policy is one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.messages import argument

__all__ = ["ClopperPearsonInterval"]


@dataclass(frozen=True)
class ClopperPearsonInterval(IntervalMethod):
    """Interval method: Clopper-Pearson on the wins and on the losses, `bounds.clopper_pearson_lower`.

    For rewards of 0 and 1 and weights of 0 and one other number: the logger's own policy, or a
    deterministic policy on a uniform logger. That the rows at hand have no other weights is
    checked; that none can occur is for you to know.

    >>> ClopperPearsonInterval().guarantee
    'finite-sample'
    """

    name: ClassVar[str] = "clopper-pearson"

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval.

        Raises:
            UsageError: where rewards or weights are of another kind.
        """
        sums, n, c = evidence.state.moments, evidence.rows, evidence.state.moments.max_weight
        # sums of terms >= 0: they are 0 only where every row is of this kind
        binary = evidence.bounded and math.isclose(sums.w2r, sums.w2r2, rel_tol=1e-9)
        alike = 0 < c < math.inf and math.isclose(c * sums.w, sums.w2, rel_tol=1e-9)
        if not (binary and alike):
            raise UsageError(
                f"{argument('interval', 'clopper-pearson')} needs rewards of 0 and 1, and weights of 0 and one "
                "other number (the logger's own policy, or a deterministic one on a uniform "
                f"logger); use {argument('interval', 'mixture')}"
            )
        half = evidence.log_inv_delta + math.log(2.0)
        wins, losses = round(sums.wr / c), round((sums.w - sums.wr) / c)
        lower, missed = (c * bounds.clopper_pearson_lower(k, n, half) for k in (wins, losses))
        return bounds.Interval(lower, 1.0 - missed)
