"""D13: a classifier that never saw an action has fewer columns; reading them by position takes
another action's."""

import numpy as np
import pytest

import piwo


class Fitted:
    """A fitted classifier that saw two of three actions."""

    def __init__(self, classes):
        self.classes_ = np.array(classes)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.tile([0.3, 0.7], (len(X), 1))


@pytest.mark.parametrize(
    ("classes", "actions"), [([0, 2], [0, 1, 2]), (["a", "c"], ["a", "b", "c"])]
)
def test_columns_are_matched_by_label(classes, actions):
    policy = piwo.policies.Classifier(
        Fitted(classes), actions, piwo.Features.numeric(1), greedy=False
    )
    assert policy.probabilities([[0.0]]).tolist() == [
        [0.3, 0.0, 0.7]
    ]  # by position: [0.3, 0.7, 0.0]


def test_an_action_logged_once_cannot_be_on_both_sides_of_a_split():
    log = piwo.Log.from_arrays(action=["a"] * 40 + ["rare"], reward=[1] * 41, propensity=[0.5] * 41)
    with pytest.warns(piwo.PiwoWarning, match="'rare' .1..*logged too rarely to be on both sides"):
        parts = log.split(seed=0)
    assert parts.notes
