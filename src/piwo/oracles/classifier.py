"""Classifier oracle: weighted classification of the logged actions by any classifier."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from piwo.checks import check_positive
from piwo.engines.native_threads import native_threads
from piwo.errors import UsageError, warn
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.examples import Examples, check_sparse, rewarded, standardized
from piwo.oracles.oracle import Oracle, shared_by_neighbors
from piwo.policies import Classifier as ClassifierPolicy
from piwo.policies import Constant, LinearGreedy, Policy
from piwo.policies.models import check_takes_weights, weighted_model
from piwo.scores import Score

__all__ = ["Classifier"]


@dataclass(frozen=True)
class Classifier(Oracle):
    """Policies by weighted classification: label A_t, weight G[t, A_t].

    Answers: which policy, of any class that a classifier can learn? With non-negative sparse gains,
    maximizing sum_t pi(A_t|X_t) G[t, A_t] IS weighted classification; the classifier is a surrogate
    for it. Weights are scaled to mean 1, so that the result does not depend on the unit of the
    reward; rows without reward have weight 0 and are left out. Only rewarded rows are held in
    memory.

    Without a model: multinomial logistic regression on standardized columns, returned as a linear
    policy. Along a path every fit starts at the result of the previous one: gains of neighbors
    differ little, and so do their optima.

    Formula: min over classifiers of sum_t G[t, A_t] loss(A_t, f(X_t)).
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Section 4 (oracle); docs/theory.md,
    section "Oracles".

    Args:
        model: any scikit-learn classifier whose `fit` takes `sample_weight`, or hands it to its
            parts: pipelines, nested ones too, searches such as GridSearchCV, voting, stacking
            (the last two with pipelines as parts since scikit-learn 1.7).
        C: of the logistic regression, as in scikit-learn: smaller values regularize more. Not used
            with a model.

    Raises:
        UsageError: for a model whose `fit` takes no sample weights, and for a C that is not above
            0.

    >>> import numpy as np, piwo
    >>> X = np.array([[0.0], [1.0]] * 50)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=[0, 1] * 50, reward=[1, 1] * 50, propensity=[0.5] * 100
    ... )
    >>> Classifier().solve(log, piwo.IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    model: Any = None
    C: float = 1.0
    name: ClassVar[str] = "classifier"

    def __post_init__(self) -> None:
        if self.model is not None:
            check_takes_weights(self.model)
        check_positive("C", self.C)
        if not 1e-300 <= self.C <= 1e300:
            raise UsageError(
                f"{argument('C')} is {self.C!r}, expected a number from 1e-300 to 1e300: its "
                "inverse, or its product with weights, is beyond float64"
            )

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return one policy for each score; the log is read once.

        Neighbors with proportional gains share a policy.
        """
        self.fit_for(log)
        check_sparse(scores)
        from sklearn.linear_model import LogisticRegression

        examples = rewarded(log, scores)
        default = LogisticRegression(C=self.C, max_iter=1000, warm_start=True)
        # with one propensity and one reward the weights, scaled to mean 1, do not depend on the
        # score
        weights = (gains * (len(gains) / gains.sum()) for gains in examples.gains)
        return shared_by_neighbors(
            weights,
            lambda _, weight: self._fitted(examples, weight, log, default),
            rtol=1e-12,
        )

    def _fitted(self, examples: Examples, weight: Floats, log: Log, default: Any) -> Policy:
        classes = np.unique(examples.action)
        if len(classes) == 1:
            return Constant(log.actions.labels[int(classes[0])], log.actions)
        if self.model is None:
            return _logistic(examples, weight, log, default)
        model = weighted_model(self.model, examples.context, examples.action, weight)
        return ClassifierPolicy(
            model,
            log.actions,
            log.features,
            classes=[log.actions.labels[int(c)] for c in model.classes_],
        )


def _logistic(examples: Examples, weight: Floats, log: Log, model: Any) -> LinearGreedy:
    """Return weighted multinomial logistic regression as a linear policy on unscaled columns.

    The model keeps its coefficients, from which the next fit starts.
    """
    from sklearn.exceptions import ConvergenceWarning

    context, center, scale = standardized(examples.context)
    # steps are short: threads of BLAS and OpenMP would mostly wait for each other, and spin
    with native_threads(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(context, examples.action, sample_weight=weight)
    if any(issubclass(x.category, ConvergenceWarning) for x in caught):
        warn("the logistic regression stopped after 1000 steps, short of its optimum")
    coef, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        # scikit-learn has one row of coefficients for two classes: their difference
        coef = np.vstack([-coef, coef]) / 2.0
        intercept = np.concatenate([-intercept, intercept]) / 2.0
    full = np.zeros((len(log.actions), len(center)))
    # an action that was never rewarded is never played
    offset = np.full(len(log.actions), -np.inf)
    # c'(x - center)/scale + b = (c/scale)'x + b - (c/scale)'center
    full[model.classes_] = coef / scale
    offset[model.classes_] = intercept - (coef / scale) @ center
    return LinearGreedy(full, offset, log.actions, log.features)
