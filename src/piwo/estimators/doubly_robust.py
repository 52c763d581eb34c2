"""Doubly robust: a reward model, corrected by weighted residuals of the logged rewards."""

from __future__ import annotations

from typing import Any

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.estimators.reward_model import Correction, ModelEstimate, estimate_with_model
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.scores import IX, Score
from piwo.scores.score import check_parameter

__all__ = ["doubly_robust"]


def doubly_robust(
    log: Log,
    policy: Any,
    q: Any,
    gamma: float = 0.0,
    *,
    weights: Score | None = None,
    self_normalized: bool = False,
    delta: float = 0.05,
    name: str | None = None,
) -> ModelEstimate:
    """Return the doubly robust value: unbiased if the propensities or the model are correct.

    It has less variance than importance weighting if the model is good. Its interval is asymptotic;
    `piwo.evaluate` has finite-sample intervals, with the model as control variate or without. No
    variant has a finite-sample guarantee: `Switch` uses the model alone in rows with large weights
    (SWITCH-DR), `Shrinkage` shrinks large weights (DRos), and self-normalization keeps the
    correction within the range of the residuals (SNDR). With any of these the estimate is biased if
    the model is wrong.

    Formula: with u_t = pi(A_t|X_t) / (mu(A_t|X_t) + gamma), or the weights of a score,

        V = (1/n) sum_t [ sum_a pi(a|X_t) q(X_t, a) + u_t (R_t - q(X_t, A_t)) ];

    self-normalized: the mean of the first part plus sum_t u_t (R_t - q(X_t, A_t)) / sum_t u_t.

    Args:
        log: the logged decisions.
        policy: see `piwo.evaluate`; it must give full vectors.
        q: predicted rewards, in the reward's own unit (minus the cost for costs), made from other
            rows than these: an (n, K) array with columns in the order of the log's explicit action
            list; or a data frame with one column per action, matched by name; or a function of the
            (m, d) context matrix, or a fitted object with `predict`, that returns (m, K) in the
            order of `log.actions`; or the result of `piwo.cross_fit` on this log. If the log has
            `eligible=`, also: n lists with a number for each eligible action of the row, in its
            order (as lists, arrays, a column of a data frame, or Arrow); "predictions", such a
            column of the log itself (`predictions=`), which is read as the rows are; or a function
            f(X, labels) of the contexts, (m, d), and labels, (m,), of m pairs of a row and an
            eligible action, that returns (m,). A plain list of n lists, or an array with another
            number of columns than K, counts as lists.
        gamma: 0 for plain weights; above 0, those of implicit exploration, at most 1 / gamma, which
            are biased.
        weights: a score with a numeric parameter, whose credit at reward 1 is the weight u,
            such as `Switch(10.0)` or `Shrinkage(100.0)`; None: weights by `gamma`.
        self_normalized: see the formula.
        delta: nominal error probability of the normal interval.
        name: the name of the policy in the result.

    Returns:
        A `ModelEstimate`. Nothing is clipped: values may lie outside the reward range.

    Raises:
        UsageError: for a model or a policy that does not give one number per action, a negative
            gamma, or both a gamma and weights.
        DataError: for rows that break a rule, and for predictions that are NaN or infinite.

    >>> log = Log.from_arrays(action=["b"], reward=[1], propensity=[0.5], actions=["a", "b"])
    >>> round(doubly_robust(log, [[0.25, 0.75]], [[0.2, 0.6]]).value, 12)
    1.1

    Source: Dudik, Langford, Li 2011 (arXiv 1103.4601), Eq. (2); weights: Wang, Agarwal, Dudik 2017
    (arXiv 1612.01205); Su, Dimakopoulou, Krishnamurthy, Dudik 2020 (arXiv 1907.09623).
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    check_parameter("gamma", gamma, positive=False)
    if weights is not None and gamma:
        raise UsageError(
            f"got {argument('gamma', gamma)} and weights={weights!r}, expected one of "
            "the two; gamma is weights=IX(gamma)"
        )
    if weights is not None and not isinstance(weights, Score):
        raise UsageError(
            f"{argument('weights')} is {weights!r:.80}, expected a Score of "
            "piwo.scores, such as Switch(10.0)"
        )
    chosen = IX(float(gamma)) if gamma else weights
    if chosen is not None and chosen.parameter is not None:
        # raises if the parameter is not a number
        _ = chosen.number
    return estimate_with_model(log, policy, q, Correction(chosen, self_normalized), delta, name)
