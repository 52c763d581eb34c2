"""Classifiers as policies: classes and columns by name (D13, D19), no warnings that leak."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from piwo.errors import DataError, UsageError
from piwo.logs.features import Features
from piwo.policies import Classifier


class Fixed(ClassifierMixin, BaseEstimator):
    """A fitted classifier that says [0.3, 0.7] of everything."""

    def __init__(self, classes: object = (0, 2)) -> None:
        self.classes = classes
        self.classes_ = np.asarray(classes)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile([0.3, 0.7], (len(x), 1))

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.repeat(self.classes_[1], len(x))


def test_d13_a_class_never_seen_has_probability_0() -> None:
    x = np.zeros((1, 1))
    assert Classifier(Fixed(), [0, 1, 2], greedy=False).probabilities(x).tolist() == [
        [0.3, 0.0, 0.7]
    ]
    assert Classifier(Fixed(), [0, 1, 2]).probabilities(x).tolist() == [[0.0, 0.0, 1.0]]
    texts = Classifier(Fixed(("10", "2")), ["2", "9", "10"], greedy=False)
    assert texts.probabilities(x).tolist() == [[0.7, 0.0, 0.3]]
    assert Classifier(Fixed((0, 2)), ["0", "1", "2"], greedy=False).probabilities(x).tolist() == [
        [0.3, 0.0, 0.7]
    ]
    unsorted = Classifier(Fixed(("b", "a")), ["a", "b"])
    assert unsorted.probabilities(x).tolist() == [[1.0, 0.0]]


def test_classes_that_are_codes_are_given_their_labels() -> None:
    policy = Classifier(Fixed(), ["x", "y", "z"], greedy=False, classes=["x", "z"])
    assert policy.probabilities(np.zeros((1, 1))).tolist() == [[0.3, 0.0, 0.7]]
    with pytest.raises(UsageError, match="class 0 is not one of"):
        Classifier(Fixed(), ["x", "y", "z"])
    with pytest.raises(UsageError, match="got 1 classes"):
        Classifier(Fixed(), ["x", "y", "z"], classes=["x"])
    with pytest.raises(UsageError, match="same action"):
        Classifier(Fixed(), ["x", "y", "z"], classes=["x", "x"])


def test_the_greedy_choice_is_what_the_model_predicts(contexts: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 2)), rng.choice(["a", "c"], 200)
    for model in (
        LogisticRegression().fit(x, y),
        LinearSVC().fit(x, y),
        DecisionTreeClassifier().fit(x, y),
    ):
        policy = Classifier(model, ["c", "b", "a"])
        assert policy.act(contexts).actions.tolist() == model.predict(contexts).tolist()
    with pytest.raises(UsageError, match="LinearSVC has no predict_proba; pass greedy=True"):
        Classifier(LinearSVC().fit(x, y), ["a", "c"], greedy=False)


def frame(**columns: list[float]) -> object:
    import pandas as pd

    return pd.DataFrame(columns)


@pytest.fixture
def named() -> LogisticRegression:
    """Fitted on columns a, b: class "go" where 3 a - 2 b > 0."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300))
    return LogisticRegression().fit(frame(a=a, b=b), np.where(3 * a - 2 * b > 0, "go", "stay"))


def test_d19_columns_are_matched_by_name_and_no_warning_leaks(named: LogisticRegression) -> None:
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_model = Classifier(named, ["go", "stay"])
        by_other_order = Classifier(named, ["go", "stay"], Features.numeric(["b", "a"]))
        for policy in (by_model, by_other_order):
            for make in (frame, lambda **columns: pl.DataFrame(columns), dict):
                assert policy.act(make(b=[0.0], a=[1.0])).actions.tolist() == ["go"]
                assert policy.act(make(b=[1.0], a=[0.0])).actions.tolist() == ["stay"]
        # Plain matrices are in the features' order.
        assert by_model.act([[1.0, 0.0]]).actions.tolist() == ["go"]
        assert by_other_order.act([[0.0, 1.0]]).actions.tolist() == ["go"]
        assert by_other_order.act(np.array([[0.0, 1.0]])).propensities.tolist() == [1.0]


def test_d19_other_columns_are_refused(named: LogisticRegression) -> None:
    with pytest.raises(UsageError, match=r"features lack: \['a'\]"):
        Classifier(named, ["go", "stay"], Features.numeric(["b", "c"]))
    with pytest.raises(UsageError, match="fitted on 2 columns, the features make 3"):
        Classifier(named, ["go", "stay"], Features.numeric(["a", "b", "c"]))
    with pytest.raises(DataError, match="no column 'a'"):
        Classifier(named, ["go", "stay"]).act({"b": [0.0], "c": [1.0]})
    with pytest.raises(DataError, match=r"shape \(1, 3\)"):
        Classifier(named, ["go", "stay"]).act(np.zeros((1, 3)))


def test_pipelines_that_pick_columns_by_name() -> None:
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = frame(a=[0.0, 1.0, 2.0, 3.0], b=[1.0, 1.0, 2.0, 2.0])
    model = make_pipeline(make_column_transformer((StandardScaler(), ["b"])), LogisticRegression())
    policy = Classifier(model.fit(x, ["p", "p", "q", "q"]), ["p", "q"])
    assert policy.act({"b": [2.0, 1.0], "a": [9.0, 9.0]}).actions.tolist() == ["q", "p"]


def test_what_cannot_be_a_classifier_policy() -> None:
    with pytest.raises(UsageError, match="call fit"):
        Classifier(LogisticRegression(), ["a"])
    with pytest.raises(UsageError, match="has no predict"):
        Classifier(object(), ["a"])
    with pytest.raises(DataError, match="floating-point"):
        Classifier(Fixed((0.0, 2.0)), [0, 2])
    with pytest.raises(DataError, match="row 1"):
        Classifier(DecisionTreeClassifier().fit([[0.0], [1.0]], ["a", "b"]), ["a", "b"]).act(
            [[0.0], [np.nan]]
        )


def test_probabilities_that_do_not_sum_to_one_name_the_row() -> None:
    class Broken(Fixed):
        def predict_proba(self, x: np.ndarray) -> np.ndarray:
            return np.where(np.arange(len(x))[:, None] == 2, np.nan, [0.5, 0.5])

    with pytest.raises(DataError, match="row 2: "):
        Classifier(Broken(), [0, 2], greedy=False).probabilities(np.zeros((4, 1)))
