"""What code of users returns is checked in one place, whatever kind of object it belongs to."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from sklearn.dummy import DummyClassifier

import piwo
from piwo.logs.foreign import RowError, distributions
from piwo.policies import (
    Classifier,
    Constant,
    DeterministicPolicy,
    EpsilonGreedy,
    Function,
    Mixture,
    Policy,
    Uniform,
)

N, LABELS = 60, ["a", "b", "c"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))


def made(**more: Any) -> piwo.Log:
    rng = np.random.default_rng(1)
    given = {
        "context": X,
        "action": np.array(LABELS)[rng.integers(0, 3, N)],
        "reward": rng.integers(0, 2, N),
        "propensity": np.full(N, 1 / 3),
        "actions": LABELS,
    }
    given.update(more)
    return piwo.Log.from_arrays(**{k: v for k, v in given.items() if v is not None})


class Model(DummyClassifier):
    """A classifier that returns what it is told to."""

    def __init__(self, gives: Callable[[int], Any] | None = None):
        super().__init__()
        self.gives = gives

    def predict_proba(self, X: Any) -> Any:
        return self.gives(len(X))

    def predict(self, X: Any) -> Any:
        return self.gives(len(X))


class Mine(Policy):
    """A subclass that defines `distribution` alone."""

    width: ClassVar[int | None] = None

    def __init__(self, gives: Callable[[int], Any]):
        self.listed = LABELS
        self.gives = gives

    def distribution(self, context: Any, n: int) -> Any:
        return self.gives(n)


def model(gives: Callable[[int], Any]) -> Model:
    fitted = Model().fit(X, np.array(LABELS)[np.arange(N) % 3])
    return fitted.set_params(gives=gives)


WRONG: dict[str, tuple[Callable[[int], Any], str]] = {
    "outside of [0, 1]": (lambda n: np.tile([3.0, -1.0, -1.0], (n, 1)), r"gave \[3, -1, -1\]"),
    "one row for all": (lambda n: np.full((1, 3), 1 / 3), r"gave the shape \(1, 3\)"),
    "a row too many": (lambda n: np.full((n + 1, 3), 1 / 3), r"gave the shape \(61, 3\)"),
    "one column": (lambda n: np.ones((n, 1)), r"gave the shape \(60, 1\)"),
    "no columns": (lambda n: np.ones(n), r"gave the shape \(60,\)"),
    "None": (lambda n: None, "gave None"),
    "text": (lambda n: [["a"] * 3] * n, "gave what is not numbers"),
    "rows of different lengths": (
        lambda n: [[1.0, 0, 0]] * (n - 1) + [[1.0]],
        "gave what is not numbers",
    ),
    "NaN": (lambda n: np.full((n, 3), np.nan), r"gave \[nan, nan, nan\]"),
    "sums": (lambda n: np.full((n, 3), 0.3), r"gave \[0.3, 0.3, 0.3\]"),
}


@pytest.mark.parametrize("kind", ["classifier", "subclass", "function"])
@pytest.mark.parametrize("name", WRONG)
def test_probability_vectors_of_users(kind: str, name: str) -> None:
    gives, message = WRONG[name]
    policy: Policy
    if kind == "classifier":
        policy, giver = Classifier(model(gives), LABELS, greedy=False), "Model.predict_proba"
    elif kind == "subclass":
        policy, giver = Mine(gives), "Mine.distribution"
    else:
        policy, giver = Function(lambda x: gives(len(x)), LABELS), "the function <lambda>"
    log = made()
    inside = Mixture([policy, Uniform(LABELS)], [0.5, 0.5])
    for use in (
        lambda: piwo.evaluate(log, policy),
        lambda: piwo.evaluate(log, inside),
        lambda: piwo.certify(log, {"new": EpsilonGreedy(policy, 0.1)}),
        lambda: policy.probabilities(X),
        lambda: policy.probability(X, np.zeros(N, np.int32)),
        lambda: policy.act(X, 0),
    ):
        with pytest.raises(piwo.DataError, match=f"{giver} {message}"):
            use()


@pytest.mark.parametrize("name", WRONG)
def test_the_behavior_policy(name: str) -> None:
    gives, message = WRONG[name]

    class Logger:
        def probabilities(self, X: Any) -> Any:
            return gives(len(X))

    for behavior in (Logger(), Mine(gives)):
        log = made(propensity=None, behavior=behavior)
        with pytest.raises(piwo.DataError, match=f"{message}|sum to 1|negative|missing"):
            piwo.evaluate(log, Uniform(LABELS))


def test_errors_name_the_first_rows_of_the_log() -> None:
    def bad_later(x: Any) -> Any:
        table = np.full((len(x), 3), 1 / 3)
        table[x[:, 0] > 100] = [2.0, -1.0, 0.0]
        return table

    context = X.copy()
    context[[7, 20, 33, 34, 35, 36, 59]] = 1000.0
    log = made(context=context)
    rows = "row numbers from 0: 7, 20, 33, 34, 35, ...: the function bad_later gave"
    with pytest.raises(piwo.DataError, match=rows):
        piwo.evaluate(log, Function(bad_later, LABELS))
    halves = log.split(0.5, seed=3)
    for side in (halves.train, halves.test):
        kept = [row for b in side.each_batch() for row in b.row_numbers if context[row, 0] > 100]
        with pytest.raises(piwo.DataError, match=f"{kept[0]}"):
            piwo.evaluate(side, Function(bad_later, LABELS))


def test_an_error_of_rows_survives_processes() -> None:
    error = pickle.loads(pickle.dumps(RowError("no", [3, 4], 9)))
    assert str(error) == "row numbers from 0: 3, 4, ...: no"


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda codes: np.full(len(codes), 5.0), "Mine.chances gave 5"),
        (lambda codes: np.full(len(codes), np.nan), "gave nan"),
        (lambda codes: 0.5, r"gave the shape \(\)"),
        (lambda codes: np.full((len(codes), 3), 0.2), r"gave the shape \(60, 3\)"),
    ],
)
def test_chances_of_a_subclass(gives: Any, message: str) -> None:
    class Chances(Mine):
        def chances(self, context: Any, codes: Any) -> Any:
            return gives(codes)

    Chances.__name__ = "Mine"
    with pytest.raises(piwo.DataError, match=message):
        piwo.evaluate(made(), Chances(lambda n: np.full((n, 3), 1 / 3)), interval="mixture")


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda n: np.full(n, 3), "Rule.decide gave 3, expected the code of an action, 0..2"),
        (lambda n: np.full(n, -1), "gave -1"),
        (lambda n: np.full(n, 0.5), "gave 0.5"),
        (lambda n: np.zeros(1), r"gave the shape \(1,\)"),
        (lambda n: ["a"] * n, "not numbers"),
    ],
)
def test_decisions_of_a_subclass(gives: Any, message: str) -> None:
    class Rule(DeterministicPolicy):
        def __init__(self) -> None:
            self.listed = LABELS

        def decide(self, context: Any, n: int) -> Any:
            return gives(n)

    for use in (lambda: piwo.evaluate(made(), Rule()), lambda: Rule().act(n=N)):
        with pytest.raises(piwo.DataError, match=message):
            use()


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda n: np.array(["a"]), r"Model.predict gave the shape \(1,\)"),
        (lambda n: np.array(["a"] * (n + 1)), r"gave the shape \(61,\)"),
        (lambda n: None, r"gave the shape \(\)"),
    ],
)
def test_classes_of_a_classifier(gives: Any, message: str) -> None:
    with pytest.raises(piwo.DataError, match=message):
        piwo.evaluate(made(), Classifier(model(gives), LABELS))


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda n: np.zeros(1), r"gave the shape \(1,\)"),
        (lambda n: np.full(n, np.inf), "gave inf, expected a finite number"),
        (lambda n: None, "gave None"),
    ],
)
def test_predictions_of_reward_models(gives: Any, message: str) -> None:
    class Regressor:
        n_features_in_ = 2

        def predict(self, X: Any) -> Any:
            return gives(len(X))

    policy = piwo.policies.RewardModels([Regressor(), None, None], [1, 0, 0], [0, 0, 0], LABELS)
    with pytest.raises(piwo.DataError, match=f"Regressor.predict {message}"):
        piwo.evaluate(made(), policy)


def test_estimated_propensities_are_checked() -> None:
    class Wrong(DummyClassifier):
        def predict_proba(self, X: Any) -> Any:
            return np.tile([3.0, -1.0, -1.0], (len(X), 1))

    frame = {"x": X[:, 0], "action": np.array(LABELS)[np.arange(N) % 3], "reward": np.ones(N)}
    with pytest.raises(piwo.DataError, match=r"Wrong.predict_proba gave \[3, -1, -1\]"):
        piwo.estimate_propensities(frame, context="x", model=Wrong())


def test_a_subclass_with_distribution_alone_is_used_like_any_other(tmp_path: Any) -> None:
    log = made()
    mine = Mine(lambda n: np.tile([0.5, 0.25, 0.25], (n, 1)))
    twin = piwo.policies.Tabular([0.5, 0.25, 0.25], LABELS)
    found, expected = piwo.evaluate(log, mine), piwo.evaluate(log, twin)
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert found.lower == pytest.approx(expected.lower, abs=1e-12)
    both = piwo.compare(log, {"mine": mine, "twin": twin}, baseline=mine)
    assert both["mine"].improvement_lower == 0.0
    assert piwo.certify(log, {"mine": mine})["mine"].value_lower is not None
    with pytest.raises(piwo.UsageError, match="a Mine policy cannot be saved: its class is not"):
        mine.save(tmp_path / "p.piwo")
    with pytest.raises(piwo.UsageError, match="cannot be saved"):
        Mixture([mine, twin], [0.5, 0.5]).save(tmp_path / "p.piwo")
    assert not (tmp_path / "p.piwo").exists()


def test_a_subclass_says_what_else_it_must_define() -> None:
    class NoActions(Policy):
        def distribution(self, context: Any, n: int) -> Any:
            return np.ones((n, 1))

    class NoWidth(Policy):
        def __init__(self) -> None:
            self.listed = LABELS

        def distribution(self, context: Any, n: int) -> Any:
            return np.eye(3)[(context[:, 0] > 0).astype(int)]

    with pytest.raises(piwo.UsageError, match=r"NoActions has no action list; set self.listed"):
        piwo.evaluate(made(), NoActions())
    with pytest.raises(
        piwo.UsageError, match=r"NoWidth.distribution failed without a cont.*width = None"
    ):
        piwo.evaluate(made(), NoWidth())


def test_float32_rows_are_divided_by_their_sum() -> None:
    rows = RNG.dirichlet(np.ones(3), N).astype(np.float32)
    policy = Function(lambda x: rows[: len(x)], LABELS)
    assert np.abs(policy.probabilities(X).sum(axis=1) - 1.0).max() < 1e-15
    exact = np.full((4, 3), 1 / 3)
    assert distributions(exact, 4, 3, "f") is exact


def test_a_frame_is_matched_by_name() -> None:
    policy = Function(
        lambda x: pa.table({"c": np.ones(len(x)), "a": np.zeros(len(x)), "b": np.zeros(len(x))}),
        LABELS,
    )
    assert policy.act(X).actions.tolist() == ["c"] * N
    with pytest.raises(piwo.DataError, match="missing"):
        Function(lambda x: {"a": np.ones(len(x))}, LABELS).probabilities(X)


def test_a_function_cannot_write_into_the_context() -> None:
    def writes(x: Any) -> Any:
        x[:] = 0.0
        return np.full((len(x), 3), 1 / 3)

    with pytest.raises(ValueError, match="read-only"):
        piwo.evaluate(made(), Function(writes, LABELS))
    with pytest.raises(piwo.UsageError, match="expected a function"):
        Function([0.5, 0.5], LABELS)  # type: ignore[arg-type]


# --- behavior= on a log without context


def test_behavior_without_context() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1], reward=[1, 0], actions=[0, 1], behavior=Uniform([0, 1])
    )
    assert piwo.evaluate(log, Uniform([0, 1])).value == 0.5
    assert piwo.evaluate(log, Constant(0, [0, 1])).value == 1.0
    assert piwo.check(log).rows == 2


def test_behavior_without_context_of_any_class() -> None:
    class Logger:
        def probabilities(self, X: Any) -> Any:
            return np.tile([0.25, 0.75], (len(X), 1))

    log = piwo.Log.from_arrays(action=[0, 1], reward=[1, 0], actions=[0, 1], behavior=Logger())
    assert piwo.evaluate(log, Constant(0, [0, 1])).value == 2.0


def test_behavior_that_needs_the_context_says_so() -> None:
    soft = piwo.policies.LinearSoftmax([[0.0], [1.0]], [0.0, 0.0], [0, 1])
    log = piwo.Log.from_arrays(action=[0, 1], reward=[1, 0], actions=[0, 1], behavior=soft)
    with pytest.raises(piwo.DataError, match="behavior policy needs the context"):
        piwo.evaluate(log, Uniform([0, 1]))


def test_behavior_with_its_actions_in_another_order() -> None:
    behavior = piwo.policies.Tabular([0.9, 0.1], ["b", "a"])
    log = piwo.Log.from_arrays(
        action=["a", "b"], reward=[1, 0], actions=["a", "b"], behavior=behavior
    )
    assert piwo.evaluate(log, Constant("a", ["a", "b"])).value == pytest.approx(5.0)


def test_a_wrong_output_names_the_policy_and_its_class() -> None:
    class Mine(Policy):
        width = None

        def __init__(self, sums_to: float) -> None:
            self.listed = ["a", "b"]
            self.sums_to = sums_to

        def distribution(self, context: Any, n: int) -> Any:
            return np.full((n, 2), self.sums_to / 2)

    log = piwo.Log.from_arrays(
        action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5], context=[[0.0], [1.0]]
    )
    good, bad = Mine(1.0), Mine(3.0)
    explored = piwo.policies.EpsilonGreedy(bad, 0.5)
    gave = "row numbers from 0: 0, 1: Mine.distribution gave [1.5, 1.5]"
    for ask, name in (
        (lambda: piwo.compare(log, {"old": good, "new": bad}), "policy 'new': "),
        (lambda: piwo.compare(log, {"old": good, "new": explored}), "policy 'new': "),
        (lambda: piwo.certify(log, {"old": good, "new": bad}), "policy 'new': "),
        (lambda: piwo.evaluate(log, good, baseline=bad), "the baseline Mine: "),
        (lambda: piwo.evaluate(log, bad), ""),
    ):
        with pytest.raises(piwo.DataError) as wrong:
            ask()
        assert str(wrong.value).startswith(name + gave)
