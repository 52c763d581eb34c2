"""Scorers: a policy's value on logged rows, for `scoring=` of searches and `cross_validate`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from sklearn.base import BaseEstimator

from piwo.errors import UsageError
from piwo.evaluation.evaluate import evaluate
from piwo.messages import argument
from piwo.sklearn.rows import Metadata, judged, routing

__all__ = ["PolicyScorer", "improvement_lcb", "ips", "ix", "lcb", "snips"]

_BOUNDS = ("lcb", "improvement_lcb")


class PolicyScorer(BaseEstimator):
    """Scores a fitted classifier as a policy, on logged rows: X, y = actions, and metadata.

    `piwo.sklearn.ips`, `snips`, `ix`, `lcb` and `improvement_lcb` are ready-made ones. Metadata is
    requested, so that searches pass it on after `sklearn.set_config(enable_metadata_routing=True)`.

    The policy is that of an `OffPolicyClassifier`, alone or at the end of a pipeline or a search;
    of any other classifier it is what `response_method` returns.

    Args:
        measure: "ips" (or "iw"), "snips", "ix", or another estimator of `piwo.evaluate`: a point
            estimate of the value; "lcb": the lower bound of the value; "improvement_lcb": that of
            the improvement over the logging policy.
        gamma: of ix and the like; see `piwo.evaluate`.
        delta: error probability of the bounds. An lcb is that of a two-sided interval.
        reward_range: the declared (lo, hi); None: that of the classifier, or (0, 1).
        response_method: of other classifiers: "predict_proba", the policy draws from the class
            probabilities; "predict", it takes the predicted class.

    A bound is valid for one policy on rows that no part of it has seen. The best of several, and
    the mean over folds, choose well but certify nothing: certify the choice on new rows.

    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> X, A, half = np.zeros((100, 1)), np.arange(100) % 2, np.full(100, 0.5)
    >>> ones = DummyClassifier(strategy="constant", constant=1).fit(X, A)
    >>> ips(ones, X, A, reward=A, propensity=half), lcb(ones, X, A, reward=A, propensity=half) > 0.7
    (1.0, True)
    """

    __metadata_request__score: ClassVar[dict[str, bool]] = {
        "reward": True,
        "propensity": True,
        "propensities": True,
        "unit": True,
    }

    def __init__(
        self,
        measure: str = "ix",
        *,
        gamma: float | str = "auto",
        delta: float = 0.05,
        reward_range: tuple[float, float] | None = None,
        response_method: Literal["predict_proba", "predict"] = "predict_proba",
    ) -> None:
        self.measure = measure
        self.gamma = gamma
        self.delta = delta
        self.reward_range = reward_range
        self.response_method = response_method

    def score(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        reward: Any = None,
        propensity: Any = None,
        propensities: Any = None,
        unit: Any = None,
    ) -> float:
        """Return the measure of a fitted classifier, in the reward's own unit; higher is better.

        Args:
            estimator: fitted.
            X: (n, d) contexts.
            y: (n,) logged actions.
            reward: (n,) rewards of the logged actions.
            propensity: (n,) probability with which the logger took the action of each row.
            propensities: (n, K) probabilities of all actions; see `OffPolicyClassifier.fit`.
            unit: (n,) such as users, if rows of one unit depend on each other.

        Raises:
            UsageError: without reward or propensity (the message has the routing call), and if
                there is no such bound, for example on rows that the policy was learned from.
        """
        given = Metadata(reward, propensity, propensities, unit)
        given.require("score", routing("score"))
        log, policy = judged(estimator, X, y, given, self.reward_range, self.response_method)
        if self.measure not in _BOUNDS:
            name = "iw" if self.measure == "ips" else self.measure
            # normal intervals take no bets, and the interval is not looked at
            made = evaluate(log, policy, estimator=name, gamma=self.gamma, interval="normal")
            found = made.value
        else:
            made = evaluate(log, policy, delta=self.delta)
            found = made.lower if self.measure == "lcb" else made.improvement_lower
        if found is None:
            why = made.no_interval or "it is not defined on these rows"
            raise UsageError(f"{argument('measure', self.measure)} has no value: {why}")
        return float(found)

    # scikit-learn calls a scorer, and asks its method `score` for the metadata that it wants
    __call__ = score


ips = PolicyScorer("ips")
"""The importance-weighted estimate of the value, the mean of w R; unbiased."""
snips = PolicyScorer("snips")
"""Its self-normalized form, sum w R / sum w."""
ix = PolicyScorer("ix")
"""The implicit-exploration estimate: on average at most the value, and less noisy."""
lcb = PolicyScorer("lcb")
"""The lower end of the 95 % interval of the value."""
improvement_lcb = PolicyScorer("improvement_lcb")
"""The lower bound on the improvement over the logging policy, at 95 %."""
