"""Intervals that come from the very score of the point estimate, at its one bet size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.intervals.point import Estimator
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy

__all__ = ["IXInterval", "LSInterval", "ScoreInterval"]


@dataclass(frozen=True)
class ScoreInterval(IntervalMethod):
    """Interval method: the fixed-bet bound on the credits of the estimator's own score, `bounds.score_interval`.

    Any pessimistic score will do whose bound needs no upper end of the rewards.

    >>> from piwo.intervals.point import estimator_named
    >>> [ScoreInterval().goes_with(estimator_named(name)) for name in ("log-clip", "clip", "ix")]
    [True, False, False]
    """

    name: ClassVar[str] = "score"
    fixed_bet: ClassVar[bool] = True
    anytime: ClassVar[bool] = True

    def goes_with(self, estimator: Estimator) -> bool:
        """Whether the score of this point estimate is such a score."""
        score = estimator.score(1.0)
        return score.pessimistic and not score.needs_upper_end

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval; without an upper end of the rewards it has none either."""
        return _of_score(evidence)


@dataclass(frozen=True)
class LSInterval(IntervalMethod):
    """Interval method: the same for LS credits of rewards and of losses alone.

    >>> LSInterval().estimators
    ('ls', 'ls-linear')
    """

    name: ClassVar[str] = "ls"
    estimators: ClassVar[tuple[str, ...]] = ("ls", "ls-linear")
    fixed_bet: ClassVar[bool] = True
    anytime: ClassVar[bool] = True

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval; without an upper end of the rewards it has none either."""
        return _of_score(evidence)


@dataclass(frozen=True)
class IXInterval(IntervalMethod):
    """Interval method: the same for IX credits of rewards and of losses; it needs rewards in [0, 1].

    >>> IXInterval().estimators
    ('ix',)
    """

    name: ClassVar[str] = "ix"
    estimators: ClassVar[tuple[str, ...]] = ("ix",)
    fixed_bet: ClassVar[bool] = True
    anytime: ClassVar[bool] = True

    def settled(self, log: Log, policy: Policy) -> IntervalMethod:  # noqa: ARG002
        """Return this method.

        Raises:
            UsageError: for rewards without an upper end.
        """
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                f"IX intervals need rewards with an upper end; use {argument('interval', 'mixture')}, or 'ls' "
                "with its scores"
            )
        return self

    def finish(self, evidence: Evidence) -> bounds.Interval:
        """Return the interval."""
        return _of_score(evidence)


def _of_score(evidence: Evidence) -> bounds.Interval:
    sums, n, bet, penalty = (
        evidence.state.moments,
        evidence.rows,
        evidence.score.bet,
        evidence.log_inv_delta,
    )
    assert bet is not None
    if not evidence.bounded:
        return bounds.Interval(bounds.score_lower(sums.rho / n, n, bet, penalty), None)
    return bounds.score_interval([sums.rho / n], [sums.loss_rho / n], [bet], n, penalty)
