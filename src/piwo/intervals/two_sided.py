"""The mixture bound on w R and on w (1 - R): no bet size to choose, no bound on the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from piwo import bounds
from piwo.intervals.method import Evidence, IntervalMethod

__all__ = ["MixtureInterval"]


@dataclass(frozen=True)
class MixtureInterval(IntervalMethod):
    """Interval method: the mixture bound of both sides, `bounds.value_interval`.

    >>> MixtureInterval().guarantee
    'finite-sample'
    """

    name: ClassVar[str] = "mixture"
    anytime: ClassVar[bool] = True
    certifies: ClassVar[bool] = True
    remark: str | None = None

    @property
    def note(self) -> str | None:
        """Why it was not a narrower method, where one was asked for."""
        return self.remark

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval; without an upper end of the rewards it has none either."""
        bets = evidence.state.bets
        return bounds.value_interval(
            bets.value,
            bets.loss if evidence.bounded else None,
            evidence.rows,
            evidence.log_inv_delta,
            horizon=evidence.horizon,
        )

    def value_lower(self, evidence: Evidence) -> float:
        """Return `bounds.value_lower`."""
        bets = evidence.state.bets.value
        return bounds.value_lower(
            bets, evidence.rows, evidence.log_inv_delta, horizon=evidence.horizon
        )
