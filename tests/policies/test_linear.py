"""Linear scores: values worked by hand, a naive twin, large and impossible scores (D22)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo.errors import DataError, UsageError
from piwo.logs.batch import Batch
from piwo.logs.features import Feature, Features
from piwo.policies import LinearGreedy, LinearSoftmax


def scores(*rows: list[float], temperature: float = 1.0) -> np.ndarray:
    """Probabilities of a softmax policy whose scores are these rows: one context column a row."""
    policy = LinearSoftmax(
        np.transpose(rows), np.zeros(len(rows[0])), range(len(rows[0])), temperature
    )
    return policy.probabilities(np.eye(len(rows)))


def test_greedy_by_hand() -> None:
    # Scores at (1, 2): 2, 1.5, 2.5 - the third wins; at (0, 0): intercepts 0, 0.5, -0.5 - the
    # second.
    policy = LinearGreedy([[0, 1], [1, 0], [1, 1]], [0, 0.5, -0.5], ["x", "y", "z"])
    assert policy.choose([[1.0, 2.0], [0.0, 0.0]]).tolist() == [2, 1]
    assert policy.probabilities([[1.0, 2.0]]).tolist() == [[0.0, 0.0, 1.0]]
    assert policy.choose([[1.0, 2.0]]).dtype == np.int32


def test_of_equal_scores_the_lowest_code_wins() -> None:
    policy = LinearGreedy([[0.0], [1.0], [1.0], [1.0]], [5, 0, 0, 0], ["a", "b", "c", "d"])
    assert policy.choose([[5.0], [6.0]]).tolist() == [0, 1]


@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 5), st.integers(1, 700))
def test_greedy_is_its_naive_twin(seed: int, actions: int, width: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    coef, intercept = rng.integers(-3, 4, (actions, width)), rng.integers(-3, 4, actions)
    x = rng.integers(-3, 4, (rows, width)).astype(float)
    naive = []
    for row in x:
        values = [sum(c * v for c, v in zip(line, row, strict=True)) for line in coef]
        naive.append(max(range(actions), key=lambda a: (values[a] + intercept[a], -a)))
    assert LinearGreedy(coef, intercept, range(actions)).choose(x).tolist() == naive


@given(st.integers(0, 2**31), st.floats(0.05, 20))
def test_softmax_is_its_naive_twin(seed: int, temperature: float) -> None:
    rng = np.random.default_rng(seed)
    coef, intercept, x = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=(50, 3))
    policy = LinearSoftmax(coef, intercept, range(4), temperature)
    weights = [
        [math.exp(float(c @ row + b) / temperature) for c, b in zip(coef, intercept, strict=True)]
        for row in x
    ]
    np.testing.assert_allclose(
        policy.probabilities(x), [[v / sum(w) for v in w] for w in weights], rtol=1e-10
    )


@given(st.integers(0, 2**31), st.permutations(list(range(5))))
def test_the_order_of_the_actions_means_nothing(seed: int, order: list[int]) -> None:
    rng = np.random.default_rng(seed)
    coef, intercept, x = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(40, 3))
    labels = np.array(["b", "a", "10", "2", "01"])
    taken = rng.choice(labels, 40)
    for kind in (LinearGreedy, LinearSoftmax):
        one = kind(coef, intercept, labels.tolist())
        other = kind(coef[order], intercept[order], labels[order].tolist())
        first = one.probability(x, one.actions.codes(taken))
        second = other.probability(x, other.actions.codes(taken))
        np.testing.assert_allclose(second, first, rtol=1e-12)


def test_d22_large_scores() -> None:
    np.testing.assert_allclose(scores([1000, 999, 0]), [[0.731059, 0.268941, 0]], atol=1e-6)
    np.testing.assert_allclose(scores([-1000, -1001]), [[0.731059, 0.268941]], atol=1e-6)
    assert scores([3, 2], temperature=1e-320).tolist() == [[1.0, 0.0]]
    assert scores([3, 3], temperature=1e-320).tolist() == [[0.5, 0.5]]
    assert scores([1e300, -1e300]).tolist() == [[1.0, 0.0]]


def test_d22_not_available() -> None:
    policy = LinearSoftmax([[1.0], [1.0], [1.0]], [0, -np.inf, 0], ["a", "b", "c"])
    assert policy.probabilities([[3.0]]).tolist() == [[0.5, 0.0, 0.5]]
    assert policy.log_probabilities([[3.0]])[0, 1] == -np.inf
    assert "b" not in policy.act(np.zeros((500, 1)), 0).actions.tolist()
    assert LinearGreedy([[0.0], [9.0]], [0, -np.inf], ["a", "b"]).choose([[1.0]]).tolist() == [0]


@pytest.mark.parametrize("kind", [LinearGreedy, LinearSoftmax])
def test_d22_impossible_scores_name_the_row(kind: type[LinearGreedy] | type[LinearSoftmax]) -> None:
    x = np.zeros((2000, 1))
    # Row 1500 lies in a later block than the first.
    policy = kind(np.full((100, 1), 1e200), np.zeros(100), range(100))
    for value, seen in (
        (np.nan, "nan"),
        (np.inf, "inf"),
        (1e200, "inf"),
        (-1e200, "every score is -inf"),
    ):
        x[1500] = value
        with pytest.raises(DataError, match=rf"row 1500: .*{seen}"):
            policy.probability(x, np.zeros(2000, np.int32))
        batch = Batch(7, np.zeros(2000, np.int32), np.zeros(2000), np.ones(2000), context=x)
        for ask in (policy.logged, policy.log_logged):
            with pytest.raises(DataError, match="row 1507: "):
                ask(batch)


def test_d22_logarithms_where_probabilities_underflow(batch: Batch) -> None:
    policy = LinearSoftmax([[0.0], [-2000.0]], [0, 0], ["a", "b"])
    assert policy.probabilities([[1.0]]).tolist() == [[1.0, 0.0]]
    assert policy.log_probabilities([[1.0]]).tolist() == [[0.0, -2000.0]]
    rows = Batch(0, np.ones(1, np.int32), np.ones(1), np.ones(1), context=np.ones((1, 1)))
    assert policy.logged(rows).tolist() == [0.0]
    assert policy.log_logged(rows).tolist() == [-2000.0]


def test_d19_a_frame_is_matched_by_name() -> None:
    import pandas as pd
    import polars as pl

    # Reward 3 a - 2 b for "go", 0 for "stay": at a = 1, b = 0 go, never stay.
    policy = LinearGreedy(
        [[3.0, -2.0], [0, 0]], [0, 0], ["go", "stay"], Features.numeric(["a", "b"])
    )
    for frame in (pd.DataFrame, pl.DataFrame, dict):
        assert policy.act(frame({"b": [0.0], "a": [1.0]})).actions.tolist() == ["go"]
    with pytest.raises(DataError, match="'a'"):
        policy.act({"b": [0.0], "aa": [1.0]})


def test_text_contexts_are_encoded() -> None:
    features = Features((Feature("color", "levels", ("blue", "red")),))
    policy = LinearGreedy([[1.0, 0.0], [0.0, 1.0]], [0, 0], ["B", "R"], features)
    assert policy.act({"color": ["red", "blue"]}).actions.tolist() == ["R", "B"]


def test_what_cannot_be_a_linear_policy() -> None:
    good = {"coef": [[1.0], [2.0]], "intercept": [0.0, 0.0], "actions": ["a", "b"]}
    bad = [
        ({"coef": [[1.0]]}, "coef has shape"),
        ({"coef": [1.0, 2.0]}, "coef has shape"),
        ({"intercept": [0.0]}, "intercept has shape"),
        ({"coef": [[1.0], [np.nan]]}, "coef holds NaN"),
        ({"coef": [[1.0], [-np.inf]]}, "coef holds NaN"),
        ({"intercept": [0.0, np.nan]}, "intercept holds NaN"),
        ({"intercept": [0.0, np.inf]}, "intercept holds NaN"),
        ({"intercept": [-np.inf, -np.inf]}, "no action is available"),
        ({"features": Features.numeric(2)}, "the features make 2"),
    ]
    for change, message in bad:
        with pytest.raises(UsageError, match=message):
            LinearGreedy(**(good | change))
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(UsageError, match="temperature"):
            LinearSoftmax(**good, temperature=temperature)


def test_contexts_of_another_shape() -> None:
    policy = LinearGreedy([[1.0, 2.0]], [0.0], ["a"])
    for x in (np.zeros((3, 1)), np.zeros(2), np.zeros((1, 3))):
        with pytest.raises(DataError, match="expected"):
            policy.choose(x)
    with pytest.raises(UsageError, match="without features,"):
        policy.choose({"x0": [1.0], "x1": [1.0]})
    with pytest.raises(DataError, match="text"):
        policy.choose([["a", "b"]])
    with pytest.raises(DataError, match="row 1"):
        policy.choose([[0, 0], [0, np.nan]])


def test_nobody_can_change_the_coefficients() -> None:
    coef = np.ones((2, 1))
    policy = LinearGreedy(coef, [0, 0], ["a", "b"])
    coef[1] = 5.0
    assert policy.choose([[1.0]]).tolist() == [0]
    with pytest.raises(ValueError, match="read-only"):
        policy.coef[0] = 1.0
