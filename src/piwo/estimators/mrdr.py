"""MRDR: a reward model that minimizes the variance of the doubly robust estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo.checks import check_kind
from piwo.errors import DataError, UsageError
from piwo.intervals.matching import matched
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.reductions import Reduction, State
from piwo.reductions.large_contexts import check_products, check_squares
from piwo.reductions.reduce import reduce
from piwo.scores.ratio import importance_weights
from piwo.scores.score import check_parameter

__all__ = ["LinearRewards", "mrdr_model"]


@dataclass(frozen=True)
class LinearRewards:
    """Rewards that are linear in the context, action by action.

    >>> LinearRewards(np.array([[1.0], [2.0]]), np.array([0.0, 0.5])).predict(
    ...     [[1.0], [3.0]]
    ... ).tolist()
    [[1.0, 2.5], [3.0, 6.5]]
    """

    coef: Floats
    """(K, d)."""
    intercept: Floats
    """(K,)."""

    def predict(self, context: Any) -> Floats:
        """Return the (m, K) predicted rewards of (m, d) contexts, in the reward's own unit."""
        return np.asarray(np.asarray(context, np.float64) @ self.coef.T + self.intercept)


@dataclass(frozen=True)
class SquaresState(State):
    """Weighted sums by action, with x = (context, 1).

    >>> SquaresState(np.zeros((2, 1, 1)), np.zeros((2, 1)), np.zeros(2)).weight.tolist()
    [0.0, 0.0]
    """

    xx: Floats
    """(K, d + 1, d + 1) sum w x x'."""
    xr: Floats
    """(K, d + 1) sum w x R."""
    weight: Floats
    """(K,) sum w."""


@dataclass(frozen=True)
class WeightedSquares(Reduction[SquaresState]):
    """Reduction: weighted least squares of the reward, on rows whose action the policy takes.

    Args:
        policy: over the log's action list; it must be deterministic.
        width: d.
        count: K.

    >>> import piwo
    >>> WeightedSquares(piwo.policies.Constant(0, [0, 1]), 3, 2).empty().xx.shape
    (2, 4, 4)
    """

    policy: Policy
    width: int
    count: int

    def __post_init__(self) -> None:
        check_products(self.count, self.width, (self.width + 1) * (self.width + 1))

    @property
    def context(self) -> bool:
        """True: the reward is regressed on the context."""
        return True

    def empty(self) -> SquaresState:
        """Return the sums of no rows."""
        k, d = self.count, self.width + 1
        return SquaresState(np.zeros((k, d, d)), np.zeros((k, d)), np.zeros(k))

    def update(self, state: SquaresState, batch: Batch) -> SquaresState:
        """Return the sums with a batch added."""
        pi = self.policy.logged(batch)
        if ((pi > 0) & (pi < 1)).any():
            raise UsageError(
                "the policy draws its actions, and these weights are for "
                "deterministic policies; fit a model without them, or make the policy "
                "deterministic"
            )
        part = batch.take(np.flatnonzero(pi > 0))
        assert part.context is not None
        check_squares(part.context)
        w = importance_weights(part, np.ones(len(part))).w
        # w (w - 1) = (1 - mu) / mu^2, times the sampling weight
        weight = part.sampled(w * (w - 1.0))
        if not np.isfinite(weight).all():
            raise DataError(
                "a weight (1 - mu)/mu^2 is beyond float64; leave rows with such "
                "propensities out of the fit"
            )
        x = np.column_stack([part.context, np.ones(len(part))])
        made = self.empty()
        for action in np.unique(part.action).tolist():
            rows = part.action == action
            # sum w x x', sum w x R and sum w over the rows of this action
            weighted = x[rows] * weight[rows, None]
            made.xx[action] += weighted.T @ x[rows]
            made.xr[action] += weighted.T @ part.reward[rows]
            made.weight[action] += weight[rows].sum()
        return state.merge(made)


def mrdr_model(log: Log, policy: Any, alpha: float = 1e-3) -> LinearRewards:
    """Return a reward model that minimizes the variance of `doubly_robust`, for one policy.

    An ordinary regression fits best on actions that the logger took often; this one on actions that
    the policy takes and the logger took rarely, which cause most of the variance. The policy must
    be deterministic. Fit the model on other rows than those that are evaluated: `log.split()`. It
    has no guarantee; `piwo.evaluate` has finite-sample intervals.

    Formula: the minimum over linear q, with W_a the sum of the weights of action a, of

        sum_t 1{A_t = pi(X_t)} (1 - mu_t)/mu_t^2 (R_t - q(X_t, A_t))^2 + alpha sum_a W_a |coef_a|^2.

    The expectation of the first sum is, up to a constant, n times the variance of the doubly robust
    credits given the contexts.

    Args:
        log: rows to fit on, with context.
        policy: the policy that will be evaluated; see `piwo.evaluate`.
        alpha: ridge penalty of the coefficients, not of the intercept; above 0.

    Returns:
        The model, for the argument q. Actions without such rows get the mean reward of the others.

    Raises:
        DataError: if the policy takes none of the logged actions, or a weight is beyond float64.
        UsageError: for a log without context, and for policies that draw their actions.

    >>> import piwo
    >>> rng = np.random.default_rng(0)
    >>> x, a = rng.normal(size=(900, 1)), rng.integers(0, 2, 900)
    >>> log = piwo.Log.from_arrays(
    ...     context=x, action=a, reward=(0.5 + 0.1 * x[:, 0]).clip(0, 1), propensity=[0.5] * 900
    ... )
    >>> mrdr_model(log, piwo.policies.Constant(1, log.actions)).coef[1].round(2).tolist()
    [0.1]

    Source: Farajtabar, Chow, Ghavamzadeh 2018 (arXiv 1802.03493).
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    check_parameter("alpha", alpha)
    if log.features is None:
        raise UsageError(
            f"a reward model needs the context; read the log with {argument('context', '[...]')}"
        )
    log, ready = matched(log, {"policy": policy})
    assert log.features is not None
    sums = reduce(log, WeightedSquares(ready["policy"], log.features.width, len(log.actions)))
    total = float(sums.weight.sum())
    if total == 0:
        raise DataError(
            "the policy takes none of the logged actions that have a propensity below "
            "1, so there is nothing to fit; give a log with more of its actions"
        )
    mean = float(sums.xr[:, -1].sum()) / total
    fitted = np.zeros((len(log.actions), log.features.width + 1))
    fitted[:, -1] = mean
    penalty = np.diag([*[float(alpha)] * log.features.width, 0.0])
    # Without data an action keeps the mean. Dividing by W_a does not move the minimum.
    for action in np.flatnonzero(sums.weight > 0):
        one = sums.weight[action]
        # argmin sum w (R - q)^2 / W_a + alpha |coef|^2
        squares, moments = sums.xx[action] / one + penalty, sums.xr[action] / one
        fitted[action] = np.linalg.lstsq(squares, moments, rcond=None)[0]
    low, span = log.reward_range[0], log.span
    return LinearRewards(span * fitted[:, :-1], low + span * fitted[:, -1])
