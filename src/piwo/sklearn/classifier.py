"""OffPolicyClassifier: learns a policy from logged decisions, as a scikit-learn classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from piwo.checks import check_positive
from piwo.errors import UsageError
from piwo.learners.piwo import PIWO
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Classifier, Oracle
from piwo.policies import Policy
from piwo.policies.blocks import row_blocks
from piwo.policies.provenance import Provenance
from piwo.scores import IX, Score
from piwo.sklearn.rows import Metadata, context_of, labels_of, routing
from piwo.sklearn.scorers import PolicyScorer, ix

__all__ = ["OffPolicyClassifier"]


class OffPolicyClassifier(ClassifierMixin, BaseEstimator):
    """Learn a policy from logged decisions: X the contexts, y the logged actions.

    Answers: which action to take in which context, learned inside of scikit-learn's pipelines and
    searches? The learner is `piwo.PIWO`. All rows are learned from and nothing is certified:
    `piwo.sklearn.certify` does that, for a whole pipeline, on rows that no part of it has seen.

    What was logged besides X and y is metadata: `reward`, `propensity`, `propensities`, `unit`.
    `fit` and `score` request all four, so that pipelines, searches and `cross_validate` pass them
    on after `sklearn.set_config(enable_metadata_routing=True)`.

    Formula: policy = argmax over the oracle's class of sum_t sum_a pi(a|X_t) G[t, a], G the gains
    of the credit; by default G[t, A_t] = R_t / (mu_t + gamma), and 0 for other actions.
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Sections 3-4.

    Args:
        gamma: of IX, or what corresponds to it for another credit (lam = 2 gamma for LSLinear);
            "auto": what `piwo.PIWO` takes, or the number that the credit has.
        credit: the score that credits logged rows, of `piwo.scores`; None: IX. The log API calls
            it `score`, which here is the method.
        oracle: an oracle of `piwo.oracles`, or a scikit-learn classifier whose `fit` takes
            `sample_weight` (its parameters are `oracle__...`); None: logistic regression.
        actions: all actions that the logger could take, in the order of the columns of
            `propensities`; None: those in y. Needed with `propensities` if rows that are learned
            from, such as a fold, may lack an action.
        reward_range: the declared (lo, hi) of rewards.
        missing_reward: what `fit(X, y)` and `score(X, y)` without a reward mean. "refuse": they are
            mistakes, and raise. "labels": y holds the best action of each row, not a logged one:
            it has reward 1, every other action 0, and `score` is the accuracy. `check_estimator`
            runs with this.

    Attributes:
        policy_: the learned policy, whose columns of probabilities are in the order of `classes_`;
            `policy_.save` writes it, and its file recognizes the rows that it was learned from.
        classes_: the actions, sorted.
        credit_: the score with the hyper-parameter that was used; None with an oracle that uses
            none.
        rule_: how that was chosen, in words.
        learned_from_: hashes of some rows, by which the rows that were learned from are recognized.
        context_moments_: (3, d) rows, means and variances of the columns that were learned from.
        n_features_in_, feature_names_in_: as for every estimator.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> R = (A == (X[:, 0] > 0)) * 1.0
    >>> model = OffPolicyClassifier().fit(X, A, reward=R, propensity=np.full(400, 0.5))
    >>> model.predict([[-2.0], [2.0]]).tolist(), model.predict_proba([[2.0]]).tolist()
    ([0, 1], [[0.0, 1.0]])
    >>> model.score(X, A, reward=R, propensity=np.full(400, 0.5)) > 0.8
    True
    """

    _REQUESTED: ClassVar[dict[str, bool]] = {
        "reward": True,
        "propensity": True,
        "propensities": True,
        "unit": True,
    }
    # scikit-learn reads these names; without them a user would have to call set_fit_request
    __metadata_request__fit = _REQUESTED
    # Pipeline.score hands on a sample_weight, None by default, which something must know
    __metadata_request__score: ClassVar[dict[str, bool | None]] = {
        **_REQUESTED,
        "sample_weight": None,
    }

    policy_: Policy

    if TYPE_CHECKING:
        # scikit-learn makes these methods when the class is made, where type checkers do not look
        def set_fit_request(
            self,
            *,
            reward: bool | str | None = "$UNCHANGED$",
            propensity: bool | str | None = "$UNCHANGED$",
            propensities: bool | str | None = "$UNCHANGED$",
            unit: bool | str | None = "$UNCHANGED$",
        ) -> Self:
            """Choose which metadata pipelines and searches pass on to `fit`."""
            ...

        def set_score_request(
            self,
            *,
            reward: bool | str | None = "$UNCHANGED$",
            propensity: bool | str | None = "$UNCHANGED$",
            propensities: bool | str | None = "$UNCHANGED$",
            unit: bool | str | None = "$UNCHANGED$",
            sample_weight: bool | str | None = "$UNCHANGED$",
        ) -> Self:
            """Choose which metadata pipelines and searches pass on to `score`."""
            ...

    def __init__(
        self,
        gamma: float | Literal["auto"] = "auto",
        credit: Score | None = None,
        oracle: Any = None,
        *,
        actions: Any = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        missing_reward: Literal["refuse", "labels"] = "refuse",
    ) -> None:
        self.gamma = gamma
        self.credit = credit
        self.oracle = oracle
        self.actions = actions
        self.reward_range = reward_range
        self.missing_reward = missing_reward

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        reward: Any = None,
        propensity: Any = None,
        propensities: Any = None,
        unit: Any = None,
    ) -> Self:
        """Learn a policy from all rows.

        Args:
            X: (n, d) contexts, numbers.
            y: (n,) logged actions.
            reward: (n,) rewards of the logged actions.
            propensity: (n,) probability with which the logger took the action of each row.
            propensities: (n, K) probabilities of all actions, in the order of `actions`, or a data
                frame with the labels as names; in place of `propensity`, or in addition.
            unit: (n,) such as users, if rows of one unit depend on each other.

        Returns:
            The classifier itself.

        Raises:
            UsageError: without reward or propensity; the message has the routing call.
            DataError: for rows that break a rule, and rows without a reward above the lowest.
            ValueError: for X and y that no classifier takes; for sparse matrices and NaN it says
                what goes into the pipeline.
        """
        given = self._given("fit", Metadata(reward, propensity, propensities, unit), y)
        given.require_one_index(X, y)
        matrix, y = self._checked(X, y)
        self.classes_ = self._classes(y)
        # labels, not codes, so that the policy acts in the user's words
        log = given.log(
            y,
            self.actions,
            labels=labels_of(self.classes_),
            context=context_of(matrix, getattr(self, "feature_names_in_", None)),
            reward_range=self.reward_range,
        )
        self._learn(log)
        moments = (np.full(matrix.shape[1], len(matrix)), matrix.mean(axis=0), matrix.var(axis=0))
        self.context_moments_ = np.stack(moments)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable action in each row, (n,)."""
        matrix = self._contexts(X)
        found = np.empty(len(matrix), np.int64)
        for block in row_blocks(len(matrix), len(self.classes_)):
            found[block] = self.policy_.probabilities(matrix[block]).argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[found]
        return labels

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return pi(a | x), (n, K), columns in the order of `classes_`.

        It is the probability with which the policy takes each action: 0 or 1 for the policies of
        most oracles. It is not a probability that an action is the best one.
        """
        matrix = self._contexts(X)
        return self.policy_.probabilities(matrix)

    def score(
        self,
        X: Any,
        y: Any,
        *,
        reward: Any = None,
        propensity: Any = None,
        propensities: Any = None,
        unit: Any = None,
    ) -> float:
        """Return the IX estimate of the policy's value on logged rows, in the reward's own unit.

        The gamma of the estimate is that of `piwo.evaluate`, sqrt(log(2/delta)/n), whatever the
        classifier's: so scores of several gammas can be compared. On average IX is at most the
        value. `piwo.sklearn.ips`, `snips`, `lcb` and `improvement_lcb` are other scorers.

        Args:
            X: see `fit`.
            y: see `fit`.
            reward: see `fit`.
            propensity: see `fit`.
            propensities: see `fit`.
            unit: see `fit`.

        Returns:
            The estimate; with `missing_reward="labels"` and no reward the accuracy.

        Raises:
            UsageError: without reward or propensity; the message has the routing call.
        """
        check_is_fitted(self, "policy_")
        asked = Metadata(reward, propensity, propensities, unit)
        given = self._given("score", asked, y)
        scorer = ix
        if asked.empty:
            # nothing was drawn, so nothing is smoothed: the mean of pi(y|x) is the accuracy
            scorer = PolicyScorer("iw")
        return scorer(
            self,
            X,
            y,
            reward=given.reward,
            propensity=given.propensity,
            propensities=given.propensities,
            unit=given.unit,
        )

    def context(self, X: Any) -> Any:
        """Return contexts for a log, (n, d), named if the classifier was fitted with names."""
        return context_of(self._contexts(X), getattr(self, "feature_names_in_", None))

    def __setstate__(self, state: Any) -> None:
        """Restore the classifier; its policy knows again which rows it was learned from."""
        super().__setstate__(state)
        if hasattr(self, "policy_"):
            self.policy_ = _known(self.policy_, self.learned_from_)

    def _learn(self, log: Log) -> None:
        """Learn from a log, and keep what recognizes its rows, but not the rows."""
        oracle = self.oracle
        if oracle is not None and not isinstance(oracle, Oracle):
            oracle = Classifier(oracle)
        learner = PIWO(self._score(oracle), oracle, certificate=None).fit(log)
        learned = learner.policy_
        self.learned_from_ = learned.provenances[0].of_rows
        self.policy_ = _known(learned.original or learned, self.learned_from_)
        self.credit_, self.rule_ = learner.score_, learner.rule_

    def _score(self, oracle: Oracle | None) -> Score | None:
        """Return the score to learn with; None for an oracle that uses none.

        Raises:
            UsageError: for a gamma that nothing uses, or that is not one number above 0.
        """
        by_itself = isinstance(self.gamma, str) and self.gamma == "auto"
        if oracle is not None and not oracle.uses_score and self.credit is None and by_itself:
            return None
        credit = self.credit
        if credit is None:
            credit = IX()
        if by_itself:
            return credit
        if isinstance(self.gamma, list | tuple | np.ndarray):
            raise UsageError(
                f"{argument('gamma')} is {self.gamma!r:.60}, expected one number or 'auto'; "
                "GridSearchCV(..., {'gamma': [...]}) chooses among several"
            )
        check_positive("gamma", self.gamma)
        return credit.at_gamma(float(self.gamma))

    def _given(self, method: str, given: Metadata, y: Any) -> Metadata:
        """Return what was logged; with "labels", and neither reward nor propensity, ones.

        Raises:
            UsageError: if something is missing; see `Metadata.require`.
        """
        if self.missing_reward not in ("refuse", "labels"):
            raise UsageError(
                f"{argument('missing_reward')} is {self.missing_reward!r}, expected 'refuse' or "
                "'labels'"
            )
        if given.empty and self.missing_reward == "labels" and y is not None:
            # full information: the reward of y is 1, and those of all other actions are known to
            # be 0, so the gains are those of importance weighting with propensity 1
            ones = np.ones(len(np.asarray(y)))
            return Metadata(ones, ones, None, given.unit)
        if y is not None:
            labels = argument("missing_reward", "labels")
            advice = f"; if y holds the best action of each row, declare {labels}"
            given.require(method, routing(method) + advice)
        return given

    def _classes(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the actions, sorted: the declared ones, or those in y."""
        found = np.unique(y)
        if self.actions is None:
            return found
        declared = np.unique(np.asarray(self.actions))
        unknown = np.setdiff1d(found, declared)
        if len(unknown):
            raise UsageError(
                f"y holds {unknown[0]!r}, which is not one of {argument('actions', '[...]')}; name "
                "all actions that the logger could take"
            )
        return declared

    def _checked(self, X: Any, y: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
        """Return X and y for `fit`, as scikit-learn checks them."""
        matrix, y = _validated(self, X, y, reset=True)
        check_classification_targets(y)
        return matrix, y

    def _contexts(self, X: Any) -> npt.NDArray[np.float64]:
        """Return X for all methods but `fit`, as scikit-learn checks it."""
        check_is_fitted(self, "policy_")
        matrix: npt.NDArray[np.float64] = _validated(self, X, reset=False)
        return matrix


def _known(policy: Policy, facts: dict[str, Any]) -> Policy:
    """Return a policy that knows which rows it was learned from."""
    return policy.with_provenance(Provenance(lambda: facts))


def _validated(estimator: BaseEstimator, *arrays: Any, reset: bool) -> Any:
    """Return arrays as scikit-learn checks them; before 1.6 that was a method.

    Raises:
        UsageError: for sparse matrices and for NaN, saying what goes into the pipeline.
        ValueError: of scikit-learn, for what else no classifier takes.
    """
    if issparse(arrays[0]):
        raise UsageError(
            f"X is a sparse matrix of shape {arrays[0].shape}, expected a dense one: piwo learns "
            "from dense rows; give OneHotEncoder sparse_output=False and ColumnTransformer "
            "sparse_threshold=0, or put TruncatedSVD before the classifier if it would not fit"
        )
    try:
        try:
            from sklearn.utils.validation import validate_data
        except ImportError:
            check = estimator._validate_data  # noqa: SLF001
            return check(*arrays, reset=reset, dtype=np.float64)
        return validate_data(estimator, *arrays, reset=reset, dtype=np.float64)
    except ValueError as cause:
        if not str(cause).startswith("Input X contains NaN"):
            raise
        raise UsageError(
            "X contains NaN, expected numbers, also if the oracle's model takes NaN; put "
            "SimpleImputer(add_indicator=True) before the classifier in the pipeline"
        ) from None
