"""The pool of candidates that `Auto` chooses from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from piwo.checks import check_kind, check_positive, check_seed
from piwo.errors import UsageError
from piwo.learners.hyper_parameters import with_fitted_model
from piwo.logs.items import has_items
from piwo.logs.log import Log
from piwo.oracles import (
    Boosting,
    Classifier,
    ConditionalLogit,
    Direct,
    DirectBoosting,
    JointBoosting,
    JointDirect,
    JointRidge,
    Oracle,
    Ridge,
    Softmax,
)
from piwo.oracles.joint_features import WIDEST, joint_width
from piwo.oracles.oracle import check_used
from piwo.scores import IW, IX, DoublyRobustLS, Score
from piwo.scores.doubly_robust_ls import FORWARD

__all__ = ["Candidate", "candidates", "default_pool", "for_full_vectors", "for_items", "in_paths"]

_SCORES: tuple[Score, ...] = (IX(1.0), IX(0.1), IX(1e-6))
"""From the most to the least cautious: gamma = 1 hardly corrects for the logger; 1e-6 corrects
except for weights beyond a million, with which nothing can be fitted."""

_OF_ITEMS = IX(0.01)
"""Among 20 eligible items propensities are about 0.05, so gamma = 0.1 would hardly correct for the
logger; `benchmarks/items.py --gamma` compares their values."""
_RANK = 16
"""Of the conditional logit, if all products of context and item are too many."""

_UNUSED = IW()
"""Passed to oracles that do not use a score."""


@dataclass(frozen=True)
class Candidate:
    """One way to learn a policy: an oracle, usually with a score, and a name.

    Args:
        name: shown in tables.
        oracle: learns the policy.
        score: credits rows; None for an oracle that uses no score, such as `Direct`.
        weight: its certificate's share of delta, relative to 1 for others; more for candidates that
            are likely to be good.

    >>> Candidate("ridge", Ridge(), IX(0.1)).label
    'ridge, IX gamma=0.1'
    >>> Candidate("direct", Direct()).label
    'direct'
    """

    name: str
    oracle: Oracle
    score: Score | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_kind("oracle", self.oracle, Oracle, " of piwo.oracles")
        check_used(self.score, self.oracle)
        if self.score is None and self.oracle.uses_score:
            raise UsageError(
                f"the {self.oracle.name} oracle needs a score; give one, such as IX(0.1)"
            )
        check_positive("weight", self.weight)

    @property
    def label(self) -> str:
        """The name with the score."""
        if self.score is None:
            return self.name
        given = ""
        if self.score.value is not None:
            given = f" {self.score.parameter}={self.score.value:g}"
        return f"{self.name}, {self.score.label}{given}"

    def credit(self, log: Log) -> Score:
        """Return the score for the oracle, with its reward model, if any, fitted to these rows."""
        if self.score is None:
            return _UNUSED
        return with_fitted_model(self.score, log)[0]


def default_pool(random_state: int = 0) -> tuple[Candidate, ...]:
    """Return the default pool: linear and boosted learners, with and without propensities.

    It is small because each candidate makes all bounds wider.

    Args:
        random_state: seed of the boosted trees.

    >>> len(default_pool())
    6
    """
    check_seed("random_state", random_state)
    cautious, middle, _ = _SCORES
    return (
        Candidate("logistic", Classifier(), cautious, weight=4.0),
        Candidate("ridge", Ridge(standardize=True), middle),
        Candidate("softmax", Softmax(), middle, weight=4.0),
        Candidate("boosted trees", Boosting(random_state=random_state), cautious),
        Candidate("direct ridge", Direct(30.0)),
        Candidate("direct boosted trees", DirectBoosting()),
    )


def for_full_vectors(log: Log) -> tuple[Candidate, ...]:
    """Return what is tried besides if the log has the propensity of every action.

    A ridge on doubly robust gains, with a reward model fitted forward. It credits actions that were
    not taken by what the model predicts for them. It pays as little as the least of the others.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 0], propensities=[[0.5, 0.5]] * 2, actions=["a", "b"]
    ... )
    >>> [one.label for one in for_full_vectors(log)]
    ['ridge, DR-LS lam=0.1']
    """
    # The model needs independent rows in an order of its own, and each gain a positive propensity.
    plain = log.columns.unit is None and log.columns.weight is None and not log.in_cluster
    if not (log.gives_full_distribution and plain):
        return ()
    return (Candidate("ridge", Ridge(standardize=True), DoublyRobustLS(0.1, FORWARD)),)


def for_items(log: Log, random_state: int = 0) -> tuple[Candidate, ...]:
    """Return what is tried on a log with features of the actions: models of context and item.

    One model serves all items, so its policy acts on items never seen in training. If there are
    more products of context and item than a regression takes, the conditional logit of low rank
    remains.

    Args:
        log: the log.
        random_state: seed of the boosted trees.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0], [1.0]],
    ...     action=["a", "b"],
    ...     reward=[1, 0],
    ...     propensity=[0.5] * 2,
    ...     items={"action": ["a", "b"], "price": [1.0, 2.0]},
    ... )
    >>> [one.name for one in for_items(log)]
    ['joint direct', 'joint ridge', 'conditional logit', 'joint boosted trees']
    """
    if not (has_items(log) and log.has_context):
        return ()
    if joint_width(log) > WIDEST:
        return (Candidate("conditional logit", ConditionalLogit(rank=_RANK), _OF_ITEMS),)
    cautious, _, _ = _SCORES
    return (
        Candidate("joint direct", JointDirect()),
        Candidate("joint ridge", JointRidge(), _OF_ITEMS),
        Candidate("conditional logit", ConditionalLogit(), _OF_ITEMS),
        Candidate("joint boosted trees", JointBoosting(random_state=random_state), cautious),
    )


def in_paths(pool: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return runs of candidates with one oracle, which are learned together.

    >>> [len(path) for path in in_paths(default_pool())]
    [1, 1, 1, 1, 1, 1]
    """
    return [list(path) for _, path in groupby(pool, key=lambda one: id(one.oracle))]


def candidates(given: Sequence[Any], what: str) -> tuple[Candidate, ...]:
    """Return candidates from candidates, oracles and classifiers, the latter two with all scores.

    Args:
        given: candidates, oracles, and scikit-learn classifiers whose `fit` takes `sample_weight`.
        what: name of the argument.

    Raises:
        UsageError: for anything else.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> [one.label for one in candidates([DecisionTreeClassifier()], "extra")]  # doctest: +ELLIPSIS
    ['DecisionTreeClassifier, IX gamma=1', ...]
    """
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise UsageError(
            f"{what} is {given!r:.80}, expected a list of classifiers, oracles or candidates"
        )
    made: list[Candidate] = []
    for one in given:
        if isinstance(one, Candidate):
            made.append(one)
        elif isinstance(one, Oracle) and not one.uses_score:
            made.append(Candidate(one.name, one))
        elif isinstance(one, Oracle):
            made += [Candidate(one.name, one, score) for score in _SCORES]
        elif hasattr(one, "fit"):
            oracle = Classifier(one)
            made += [Candidate(type(one).__name__, oracle, score) for score in _SCORES]
        else:
            raise UsageError(
                f"{what} holds {one!r:.80}, expected a scikit-learn classifier, an "
                "oracle or a candidate"
            )
    return tuple(made)
