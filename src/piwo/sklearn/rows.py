"""Rows as scikit-learn has them, X, y and metadata, as a log; and the policy to evaluate on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.errors import UsageError
from piwo.logs.actions import Label
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy, RowWise
from piwo.sources.frames import is_frame, same_index

__all__ = ["Metadata", "context_of", "innermost", "judged", "labels_of", "routing"]


@dataclass(frozen=True)
class Metadata:
    """What was logged of each row besides X and y, as `fit`, `score` and scorers are given it.

    Args:
        reward: (n,) rewards.
        propensity: (n,) probability with which the logger took the action of each row.
        propensities: (n, K) probabilities of all actions, in place of it or in addition to it.
        unit: (n,) such as users, if rows of one unit depend on each other.
    """

    reward: Any = None
    propensity: Any = None
    propensities: Any = None
    unit: Any = None

    @property
    def empty(self) -> bool:
        """Whether there are neither rewards nor propensities."""
        return self.reward is None and self.propensity is None and self.propensities is None

    def require(self, caller: str, advice: str = "") -> None:
        """Raise unless there are rewards and propensities.

        Args:
            caller: what was called.
            advice: the end of the message, what else the user may do.

        Raises:
            UsageError: naming what is missing.
        """
        lacking = []
        if self.reward is None:
            lacking.append("reward=")
        if self.propensity is None and self.propensities is None:
            lacking.append("propensity=")
        if lacking:
            raise UsageError(
                f"{caller} got no {' and no '.join(lacking)}, expected both for logged decisions; "
                f"pass them{advice}"
            )

    def require_one_index(self, X: Any, y: Any) -> None:
        """Raise if pandas objects have different indexes.

        Raises:
            DataError: naming them.
        """
        present = {"X": X, "y": y, **vars(self)}
        same_index({name: values for name, values in present.items() if values is not None})

    def log(
        self,
        y: Any,
        actions: Any = None,
        *,
        labels: tuple[Label, ...] = (),
        context: Any = None,
        reward_range: Any = (0.0, 1.0),
    ) -> Log:
        """Return the rows as a log.

        Args:
            y: (n,) the logged actions.
            actions: the columns of `propensities`, in order; None: the labels.
            labels: the action list, if it is known; labels in y that it lacks are added.
            context: see `Log.from_arrays`.
            reward_range: the declared (lo, hi).
        """
        taken = labels_of(y)
        listed = tuple(dict.fromkeys([*labels, *taken]))
        vectors = self.propensities
        if vectors is not None and not is_frame(vectors):
            vectors = _in_order(vectors, listed, actions)
        return Log.from_arrays(
            context=context,
            action=np.array(taken, object),
            reward=self.reward,
            propensity=self.propensity,
            propensities=vectors,
            unit=self.unit,
            actions=list(listed),
            reward_range=reward_range,
        )


def _in_order(vectors: Any, listed: tuple[Label, ...], actions: Any) -> npt.NDArray[Any]:
    """Return propensity vectors with their columns in the order of the action list."""
    columns = listed
    if actions is not None:
        columns = labels_of(actions)
    found = np.asarray(vectors)
    if found.ndim != 2 or found.shape[1] != len(columns) or set(columns) != set(listed):
        raise UsageError(
            f"{argument('propensities')} has the shape {found.shape} and the rows have the "
            f"{len(listed)} actions {', '.join(map(repr, listed[:5]))}; expected one column an "
            f"action, in the order of {argument('actions', '[...]')} of the OffPolicyClassifier, "
            "which names all of them"
        )
    places = [columns.index(label) for label in listed]
    return found[:, places]


def routing(method: str) -> str:
    """Return how metadata reaches a method through scikit-learn's own estimators, in words.

    Args:
        method: "fit" or "score".

    >>> routing("fit")[-65:]
    'set_fit_request(reward=True, propensity=True) requests them again'
    """
    return (
        ", through a pipeline, a search or cross-validation after "
        "sklearn.set_config(enable_metadata_routing=True): they are requested unless that was "
        f"changed, and set_{method}_request(reward=True, propensity=True) requests them again"
    )


def labels_of(values: Any) -> tuple[Label, ...]:
    """Return labels of scikit-learn as those of piwo: text, or whole numbers.

    >>> labels_of(np.array([1.0, 2.0])), labels_of(["b", "a"]), labels_of([True])
    ((1, 2), ('b', 'a'), ('True',))
    """
    found = np.asarray(values)
    kind = found.dtype.kind
    if kind in "iu":
        return tuple(found.tolist())
    # scikit-learn takes 1.0 for a class; other fractions it refuses as classes
    if kind == "f" and (found == np.floor(found)).all():
        return tuple(found.astype(np.int64).tolist())
    if kind == "O" and all(isinstance(x, int) and not isinstance(x, bool) for x in found):
        return tuple(map(int, found))
    return tuple(map(str, found))


def context_of(matrix: npt.NDArray[np.float64], names: Any) -> Any:
    """Return a context for `Log.from_arrays`: named columns, if there are names."""
    if names is None:
        return matrix
    columns = [np.ascontiguousarray(column) for column in matrix.T]
    return pa.table(columns, names=[str(x) for x in names])


def innermost(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the fitted OffPolicyClassifier that an estimator ends in, and X as it sees it.

    Searches and pipelines are looked into; None in place of the classifier for other estimators.
    """
    while not hasattr(estimator, "learned_from_"):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            before = estimator[:-1]
            if len(before):
                X = before.transform(X)
            estimator = estimator[-1]
        else:
            return None, X
    return estimator, X


def judged(
    estimator: Any, X: Any, y: Any, given: Metadata, reward_range: Any, response_method: str
) -> tuple[Log, Policy]:
    """Return the rows as a log, and the policy that a fitted estimator is.

    An OffPolicyClassifier, alone or at the end of a pipeline or a search, knows which rows it was
    learned from. Of any other classifier the class probabilities are the policy, known on these
    rows alone.

    Args:
        estimator: fitted.
        X: the contexts.
        y: the logged actions.
        given: what else was logged.
        reward_range: the declared (lo, hi); None: that of the classifier, or (0, 1).
        response_method: of other classifiers: "predict_proba" or "predict".
    """
    given.require_one_index(X, y)
    ours, seen = innermost(estimator, X)
    if ours is not None:
        if reward_range is None:
            reward_range = ours.reward_range
        log = given.log(
            y,
            ours.actions,
            labels=labels_of(ours.classes_),
            context=ours.context(seen),
            reward_range=reward_range,
        )
        return log, ours.policy_
    table, classes = _responses(estimator, X, response_method)
    log = given.log(y, labels=labels_of(classes), reward_range=reward_range or (0.0, 1.0))
    # actions that the classifier never saw are at the end of the list, and never taken
    wide = np.zeros((len(table), len(log.actions)))
    wide[:, : table.shape[1]] = table
    return log, RowWise(wide, log.actions)


def _responses(estimator: Any, X: Any, response_method: str) -> tuple[npt.NDArray[Any], Any]:
    """Return the probability of each class in each row, (n, K), and the classes."""
    if response_method not in ("predict_proba", "predict"):
        raise UsageError(
            f"{argument('response_method')} is {response_method!r}, expected 'predict_proba' or "
            "'predict'"
        )
    if not hasattr(estimator, response_method):
        raise UsageError(
            f"{type(estimator).__name__} has no {response_method}, expected a classifier; give "
            f"{argument('response_method', 'predict')} for one without probabilities"
        )
    responses = np.asarray(getattr(estimator, response_method)(X))
    classes = np.asarray(estimator.classes_)
    if response_method == "predict_proba":
        return responses, classes
    return (responses[:, None] == classes).astype(np.float64), classes
