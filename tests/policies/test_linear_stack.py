"""A stack of linear policies takes exactly the actions that its policies take."""

import numpy as np
import pytest

import piwo
from piwo.policies import LinearGreedy, LinearStack


def stack(P=7, K=5, d=17, seed=0, **kw):
    rng = np.random.default_rng(seed)
    size = kw.get("size", 1.0)
    return [
        LinearGreedy(rng.normal(size=(K, d)) * size, rng.normal(size=K) * size, range(K))
        for _ in range(P)
    ]


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 3000])
@pytest.mark.parametrize("d", [1, 8, 17])
def test_the_choices_are_those_of_the_policies(n, d):
    policies = stack(d=d)
    X = np.random.default_rng(1).normal(size=(n, d))
    found = LinearStack(policies).choose(X)
    assert found.shape == (7, n)
    for codes, policy in zip(found, policies, strict=True):
        assert (codes == policy.choose(X)).all()


@pytest.mark.parametrize("size", [1e-200, 1e-8, 1e8, 1e200])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_no_scale_is_too_large_or_too_small_for_single_precision(size, offset):
    policies = stack(size=size)
    X = np.random.default_rng(2).normal(size=(2000, 17)) * np.logspace(-3, 3, 17) + offset
    for codes, policy in zip(LinearStack(policies).choose(X), policies, strict=True):
        assert (codes == policy.choose(X)).all()


def test_near_ties_are_decided_in_double_precision():
    coef = np.array([[1.0], [1.0 + 1e-12]])  # one number in single precision
    policy = LinearGreedy(coef, [0.0, 0.0], ["a", "b"])
    X = np.array([[1.0], [-1.0], [3.0]])
    assert LinearStack([policy]).choose(X)[0].tolist() == [1, 0, 1]


def test_exact_ties_and_unavailable_actions():
    tied = LinearGreedy(np.zeros((3, 2)), np.zeros(3), range(3))
    barred = LinearGreedy(np.zeros((3, 2)), [-np.inf, 0.0, -1.0], range(3))
    assert LinearStack([tied, barred]).choose(np.ones((4, 2))).tolist() == [[0] * 4, [1] * 4]


def test_policies_of_different_logs_are_refused():
    with pytest.raises(piwo.UsageError, match="differ"):
        LinearStack([stack(P=1)[0], stack(P=1, K=4)[0]])
    with pytest.raises(piwo.UsageError, match="at least one"):
        LinearStack([])
