"""Doubly robust: a reward model, corrected by the weighted residuals of what was logged."""

from __future__ import annotations

from typing import Any

from piwo.estimators.reward_model import ModelEstimate, estimate_with_model
from piwo.logs.log import Log
from piwo.scores.score import check_parameter

__all__ = ["doubly_robust"]


def doubly_robust(
    log: Log, policy: Any, q: Any, gamma: float = 0.0, *, delta: float = 0.05, name: str | None = None
) -> ModelEstimate:
    """Return the doubly robust value of a policy: right on average if the propensities or the model are.

    Less variance than importance weighting where the model is good. The interval is asymptotic;
    `piwo.evaluate` has one that holds.

    Formula: V = (1/n) sum_t [ sum_a pi(a|X_t) q(X_t, a) + pi(A_t|X_t) / (mu(A_t|X_t) + gamma) (R_t - q(X_t,
    A_t)) ].

    Args:
        log: the logged decisions.
        policy: see `piwo.evaluate`; it must give full vectors.
        q: predicted rewards, in the reward's own unit (minus the cost for costs), made from other rows than
            these: an (n, K) array with columns in the order of the log's explicit action list; or a data
                frame with one column
            an action, matched by name; or a function of the (m, d) context matrix, or a fitted object with
            `predict`, that gives (m, K) in the order of `log.actions`.
        gamma: 0 for plain weights; above 0, those of implicit exploration, at most 1 / gamma, at the price of
            a bias.
        delta: nominal chance of error of the normal interval.
        name: what to call the policy in the result.

    Returns:
        A `ModelEstimate`. Nothing is clipped: single rows and values may lie outside the reward range.

    Raises:
        UsageError: for a model or a policy that does not give one number an action, or a negative gamma.
        DataError: for rows that break a rule, and for predictions that are NaN or infinite.

    >>> log = Log.from_arrays(action=["b"], reward=[1], propensity=[0.5], actions=["a", "b"])
    >>> round(doubly_robust(log, [[0.25, 0.75]], [[0.2, 0.6]]).value, 12)
    1.1

    Source: Dudik, Langford, Li 2011 (arXiv 1103.4601), Eq. (2).
    """
    check_parameter("gamma", gamma, positive=False)
    return estimate_with_model(log, policy, q, float(gamma), delta, name)
