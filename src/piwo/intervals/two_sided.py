"""Two-sided intervals: a lower bound on E[w R], and one minus a lower bound on E[w (1 - R)]."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.logs.batch import Floats
from piwo.messages import argument

__all__ = ["Side", "TwoSided", "require_equal_weights"]


@dataclass(frozen=True)
class Side:
    """Sums over rows of one quantity Y >= 0, from which its mean is bounded from below.

    Y is w R for the lower end of an interval and w (1 - R) for the upper end.

    >>> from piwo.reductions.bets import bet_sums
    >>> y = [0.0, 2.0, 1.0, 1.0]
    >>> side = Side(4, sum(y), 6.0, bet_sums(y), sum(y), None, 2.0, 2.0, 3.0, None)
    >>> side.mean, side.variance
    (1.0, 0.6666666666666666)
    """

    rows: int
    """The number of rows, n."""
    total: float
    """Sum of Y."""
    squares: float
    """Sum of Y^2; infinity if it is beyond float64."""
    bet_sums: Floats
    """(48,) sums of log(1 + lambda_j Y)."""
    credits: float
    """Sum of the score's credits of Y."""
    bet: float | None
    """The score's bet size lambda, if it has one."""
    max_weight: float
    """The largest weight that can occur, as declared; infinity: not declared."""
    largest_weight: float
    """The largest weight in the log."""
    log_inv_delta: float
    """log(1/delta) of the bound on this side."""
    horizon: bounds.Horizon

    @property
    def mean(self) -> float:
        """Mean of Y."""
        return self.total / self.rows

    @property
    def variance(self) -> float:
        """Sample variance of Y, with n - 1 in the denominator."""
        # (sum Y^2 - n mean^2) / (n - 1); rounding may take the difference below 0
        mean = self.mean
        if not math.isfinite(self.squares):
            return math.inf
        return max(0.0, self.squares - self.rows * mean * mean) / (self.rows - 1)

    @classmethod
    def of_rewards(cls, evidence: Evidence, log_inv_delta: float) -> Side:
        """Return the sums of Y = w R."""
        sums = evidence.state.moments
        return cls(
            rows=evidence.rows,
            total=sums.wr,
            squares=sums.w2r2,
            bet_sums=evidence.state.bets.value,
            credits=sums.rho,
            bet=evidence.score.bet,
            max_weight=evidence.max_weight,
            largest_weight=sums.max_weight,
            log_inv_delta=log_inv_delta,
            horizon=evidence.horizon,
        )

    @classmethod
    def of_losses(cls, evidence: Evidence, log_inv_delta: float) -> Side:
        """Return the sums of Y = w (1 - R); only for rewards in [0, 1]."""
        sums = evidence.state.moments
        squares = math.inf
        if math.isfinite(sums.w2):
            # (w - w R)^2 = w^2 - 2 w^2 R + w^2 R^2, which rounding may take below 0
            squares = max(0.0, sums.w2 - 2.0 * sums.w2r + sums.w2r2)
        return cls(
            rows=evidence.rows,
            total=max(0.0, sums.w - sums.wr),
            squares=squares,
            bet_sums=evidence.state.bets.loss,
            credits=sums.loss_rho,
            bet=evidence.score.bet,
            max_weight=evidence.max_weight,
            largest_weight=sums.max_weight,
            log_inv_delta=log_inv_delta,
            horizon=evidence.horizon,
        )


def _require_nothing(evidence: Evidence) -> None:
    """Accept all rows."""


@dataclass(frozen=True, kw_only=True)
class TwoSided(IntervalMethod):
    """An interval method that is a lower bound on a mean, applied to w R and to w (1 - R).

    Each side has half of delta. Without an upper end of the rewards there are no losses and no
    upper end, and the lower end has all of delta.
    """

    lower: Callable[[Side], float]
    """Makes the lower bound on E Y from the sums of Y >= 0."""
    require: Callable[[Evidence], None] = _require_nothing
    """Raises an error if the rows are not of the kind that the bound needs."""

    def interval(self, evidence: Evidence) -> bounds.Interval:
        """Return [LB(E w R), 1 - LB(E w (1 - R))]."""
        self.require(evidence)
        if not evidence.bounded:
            return bounds.Interval(self.value_lower(evidence), None, self.guarantee)
        # delta / 2 for each side
        half = evidence.log_inv_delta + math.log(2.0)
        lower = self.lower(Side.of_rewards(evidence, half))
        missed = self.lower(Side.of_losses(evidence, half))
        # v <= 1 - E[w (1 - R)], because the policy's probabilities sum to 1
        return bounds.Interval(lower, 1.0 - missed, self.guarantee)

    def value_lower(self, evidence: Evidence) -> float:
        """Return the raw lower bound on the value, at all of delta."""
        return self.lower(Side.of_rewards(evidence, evidence.log_inv_delta))


def require_equal_weights(evidence: Evidence) -> None:
    """Demand rewards of 0 and 1, and weights of 0 and one other number, as Clopper-Pearson does.

    This checks the rows in the log. That no other weight can occur is for the user to know.

    Raises:
        UsageError: if rewards or weights are of another kind.
    """
    sums = evidence.state.moments
    c = sums.max_weight
    # sums of w^2 R (1 - R) and of w (c - w), whose terms are >= 0: they are 0 only if every row is
    # of this kind
    binary = evidence.bounded and math.isclose(sums.w2r, sums.w2r2, rel_tol=1e-9)
    alike = 0 < c < math.inf and math.isclose(c * sums.w, sums.w2, rel_tol=1e-9)
    if not (binary and alike):
        raise UsageError(
            f"{argument('interval', 'clopper-pearson')} needs rewards of 0 and 1, and "
            "weights of 0 and one other number (the logger's own policy, or a deterministic one on "
            f"a uniform logger); use {argument('interval', 'mixture')}"
        )
