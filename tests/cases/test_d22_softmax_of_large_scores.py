"""D22: softmax of scores whose exponentials overflow or underflow."""

import numpy as np
import pytest

import piwo
from piwo.policies import LinearSoftmax


def softmax(scores, temperature=1.0):
    k = len(scores)
    return LinearSoftmax(np.zeros((k, 1)), scores, range(k), temperature).probabilities([[0.0]])[0]


@pytest.mark.parametrize(
    ("scores", "temperature", "right"),
    [
        ([1000.0, 999.0, 0.0], 1.0, [0.731059, 0.268941, 0.0]),
        ([-1000.0, -1001.0], 1.0, [0.731059, 0.268941]),
        ([3.0, 2.0], 1e-320, [1.0, 0.0]),
        ([-np.inf, 2.0], 1.0, [0.0, 1.0]),
    ],
)
def test_no_nan(scores, temperature, right):
    assert softmax(scores, temperature) == pytest.approx(right, abs=1e-6)


def test_logarithms_survive_where_probabilities_do_not():
    policy = LinearSoftmax(np.zeros((2, 1)), [0.0, -2000.0], ["a", "b"])
    assert policy.probabilities([[0.0]])[0, 1] == 0.0
    assert policy.log_probabilities([[0.0]])[0, 1] == pytest.approx(-2000.0)


def test_nothing_available_and_scores_that_are_none():
    with pytest.raises(piwo.UsageError, match="no action is available"):
        softmax([-np.inf, -np.inf])
    with pytest.raises(piwo.PiwoError, match=r"row 1|\(row 1\)"):
        LinearSoftmax([[1e308], [-1e308]], [0.0, 0.0], ["a", "b"]).probabilities([[1.0], [1e10]])
