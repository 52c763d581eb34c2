"""A fitted scikit-learn classifier as a policy."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.checks import check_flag, check_kind, shown
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.logs.foreign import RowError, distributions
from piwo.messages import argument
from piwo.policies.blocks import Codes, row_blocks
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.policies.restricted import highest, taken
from piwo.policies.state import State

__all__ = ["Classifier"]

# Each call of scikit-learn has a fixed cost, so blocks are larger than for our matrix products.
_BLOCK_BYTES = 2**24


@final
class Classifier(Policy):
    """pi(x) = model.predict(x), or pi(a | x) = model.predict_proba(x).

    Columns are matched to actions by the model's `classes_`, never by position: an action that the
    model never saw gets probability 0. Context columns are matched by name if both the model and
    the policy have names.

    Args:
        model: a fitted classifier: `classes_`, and `predict` (greedy) or `predict_proba`.
        actions: the K labels, the model's classes among them.
        features: how data frames become the context matrix. None: numeric columns, by the names
            that the model was fitted with, if it has any.
        greedy: True: the predicted class with probability 1 (the model breaks ties); False: its
            class probabilities.
        classes: the labels of `model.classes_`, for a model fitted on codes; None: `classes_`
            holds the labels.

    Raises:
        UsageError: for a model that is not fitted, has classes that are not actions, or was fitted
            on other columns.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = DecisionTreeClassifier().fit([[0.0], [1.0]], ["a", "c"])
    >>> Classifier(model, ["a", "b", "c"]).probabilities([[1.0]]).tolist()
    [[0.0, 0.0, 1.0]]
    """

    kind: ClassVar[str] = "classifier"

    def __init__(
        self,
        model: Any,
        actions: ActionList,
        features: Features | None = None,
        greedy: bool = True,
        classes: Any = None,
    ) -> None:
        self.listed = action_list(actions)
        self.model = model
        check_flag("greedy", greedy)
        check_kind("features", features, (Features, type(None)))
        self.greedy = bool(greedy)
        wanted = "predict" if self.greedy else "predict_proba"
        if not hasattr(model, wanted):
            message = f"{type(model).__name__} has no {wanted}"
            if not self.greedy:
                greedily = argument("greedy", value=True)
                message += f"; pass {greedily}, or a classifier with probabilities"
            raise UsageError(message)
        self.classes = classes
        self.places = _places(model, classes, self.listed)
        names = getattr(model, "feature_names_in_", None)
        if names is not None:
            names = tuple(str(x) for x in names)
        self.names: tuple[str, ...] | None = names
        if features is None and self.names is not None:
            features = Features.numeric(self.names)
        self.features = features
        self.width, self.order = _columns(model, self.features, self.names)

    def __repr__(self) -> str:
        return f"Classifier({type(self.model).__name__}, {len(self.actions)} actions)"

    def _matrix(self, context: Floats) -> Any:
        """Return the context in the model's column order, named if it was fitted with names."""
        if self.order is not None:
            context = context[:, self.order]
        if self.names is None:
            return context
        columns = [np.ascontiguousarray(column) for column in context.T]
        table = pa.table(columns, names=list(self.names))
        # before 1.7, scikit-learn picks columns by name from pandas frames only
        return table.to_pandas() if _before_arrow() else table

    def _decided(self, context: Floats) -> Codes:
        predicted = np.asarray(self.model.predict(self._matrix(context)))
        if predicted.shape != (len(context),):
            raise DataError(
                f"{type(self.model).__name__}.predict gave the shape {predicted.shape}, expected "
                f"one class for each of {len(context):,} rows"
            )
        classes = np.asarray(self.model.classes_)
        order = np.argsort(classes)
        # A label after the last class has no place; the check below finds such labels.
        found = np.searchsorted(classes, predicted, sorter=order)
        place = order[np.minimum(found, len(classes) - 1)]
        strange = classes[place] != predicted
        if strange.any():
            raise UsageError(
                f"the model predicted {predicted[strange][0]!r}, which is not one of its classes_"
            )
        return self.places[place]

    def _block(self, context: Floats, start: int) -> Floats:
        table = np.zeros((len(context), len(self.actions)))
        if self.greedy:
            table[np.arange(len(context)), self._decided(context)] = 1.0
            return table
        found = self.model.predict_proba(self._matrix(context))
        giver = f"{type(self.model).__name__}.predict_proba"
        try:
            checked = distributions(found, len(context), len(self.places), giver)
        except RowError as wrong:
            raise wrong.after(start) from None
        table[:, self.places] = checked
        return table

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return the probabilities of eligible actions, (m,), divided by their sum.

        A greedy policy takes the predicted class if it is eligible, else the eligible action with
        the highest probability, if the model gives probabilities.
        """
        if not self.greedy:
            return super().within(context, eligible)
        assert context is not None
        codes = np.empty(len(eligible), np.int32)
        for block in row_blocks(len(eligible), len(self.actions), _BLOCK_BYTES):
            codes[block] = self._decided(context[block])
        other = np.flatnonzero(eligible.places(codes) < 0)
        if len(other) and hasattr(self.model, "predict_proba"):
            drawing = Classifier(
                self.model, self.actions, self.features, greedy=False, classes=self.classes
            )
            some = eligible.take(other)
            codes[other] = highest(drawing.within(context[other], some), some)
        return taken(codes, eligible)

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return the model's probabilities in the order of the actions, (n, K)."""
        assert context is not None
        table = np.empty((n, len(self.actions)))
        for block in row_blocks(n, len(self.actions), _BLOCK_BYTES):
            table[block] = self._block(context[block], block.start)
        return table

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the model's probability of one action per row, (n,)."""
        assert context is not None
        found = np.empty(len(codes))
        for block in row_blocks(len(codes), len(self.actions), _BLOCK_BYTES):
            some = codes[block]
            if self.greedy:
                found[block] = self._decided(context[block]) == some
            else:
                found[block] = self._block(context[block], block.start)[np.arange(len(some)), some]
        return found

    def state(self) -> State:
        """Return the model and the action of each of its classes."""
        classes = [self.actions.labels[x] for x in self.places]
        parameters = {"greedy": self.greedy, "classes": [str(x) for x in classes]}
        return State(self.actions, self.features, parameters, model=self.model)

    @classmethod
    def from_state(cls, state: State) -> Classifier:
        """Return the policy of a state."""
        greedy, classes = state.parameters["greedy"], state.parameters["classes"]
        return cls(state.model, state.known(), state.features, greedy, classes)


def _listed(classes: Any) -> Any:
    if not isinstance(classes, list | tuple | np.ndarray):
        raise UsageError(
            f"{argument('classes')} is {shown(classes)}, expected a list of labels, "
            "the action of each class"
        )
    return classes


def _places(model: Any, classes: Any, actions: Actions) -> npt.NDArray[np.int32]:
    """Return the action code of each of the model's classes."""
    from sklearn.base import is_regressor

    if hasattr(model, "__sklearn_tags__") and is_regressor(model):
        raise UsageError(
            f"{type(model).__name__} is a regressor, expected a classifier; for "
            "rewards use RewardModels"
        )
    own = getattr(model, "classes_", None)
    if own is None or isinstance(own, list):
        raise UsageError(
            f"{type(model).__name__} has no classes_, expected a fitted classifier "
            "with one output; call fit first"
        )
    labels = own if classes is None else _listed(classes)
    if len(labels) != len(own):
        raise UsageError(f"got {len(labels)} classes, the model has {len(own)}")
    places = actions.codes(labels, "the model's classes")
    if (places < 0).any():
        unknown = labels[int(np.flatnonzero(places < 0)[0])]
        named = argument("classes", "[...]")
        raise UsageError(
            f"the model's class {unknown!s:.80} is not one of the {len(actions)} "
            f"actions ({actions.preview()}); fit it on the log's labels, or name the "
            f"label of each class: {named}"
        )
    if len(set(places.tolist())) != len(places):
        raise UsageError("two of the model's classes are the same action; give each its own label")
    return places


def _columns(
    model: Any, features: Features | None, names: tuple[str, ...] | None
) -> tuple[int | None, npt.NDArray[np.intp] | None]:
    """Return the context's width, and the positions of the model's columns (None: in order)."""
    count = getattr(model, "n_features_in_", None)
    width = features.width if features is not None else count
    if count is not None and width != count:
        raise UsageError(f"the model was fitted on {count} columns, the features make {width}")
    if features is None or names is None or features.names == names:
        return width, None
    missing = [x for x in names if x not in features.names]
    if missing:
        raise UsageError(
            f"the model was fitted on columns that the features lack: {missing[:5]}; "
            f"they make {', '.join(features.names[:8])}"
        )
    return width, np.array([features.names.index(x) for x in names], np.intp)


def _before_arrow() -> bool:
    """Whether the installed scikit-learn does not take Arrow tables."""
    import sklearn

    major, minor = (int(part) for part in sklearn.__version__.split(".")[:2])
    return (major, minor) < (1, 7)
