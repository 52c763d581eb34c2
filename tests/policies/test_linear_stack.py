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


@pytest.mark.parametrize("step", [1e-10, 1e-7, 1e-4, 1e-2, 0.3])
def test_what_is_taken_over_from_a_neighbor_on_a_path_is_its_own_choice(step):
    # Some rows keep the neighbor's action, some are gathered, some tiles are computed whole.
    rng = np.random.default_rng(3)
    coef, intercept = rng.normal(size=(6, 5)), rng.normal(size=6)
    policies = []
    for i in range(40):
        coef = coef + step * rng.normal(size=(6, 5))
        if i % 7 == 3:  # two actions that always tie, and one that is not available
            coef[2], intercept[2] = coef[1], intercept[1]
        barred = np.where(np.arange(6) == (5 if i % 5 == 4 else -1), -np.inf, intercept)
        policies.append(LinearGreedy(coef, barred, range(6)))
    X = rng.normal(size=(700, 5))
    for codes, policy in zip(LinearStack(policies).choose(X), policies, strict=True):
        assert (codes == policy.choose(X)).all()


def test_one_policy_many_times_is_decided_once_and_credited_each_time():
    one, other = stack(P=2)
    X = np.random.default_rng(4).normal(size=(300, 17))
    found = LinearStack([one, other, one, one])
    assert (found.choose(X) == [p.choose(X) for p in (one, other, one, one)]).all()
    rewards = np.arange(5.0)[None]
    means = found.mean_rewards(X, np.zeros(300, np.int32), rewards)
    assert means.tolist() == pytest.approx([p.choose(X).mean() for p in (one, other, one, one)])


def test_policies_without_the_same_action_take_over_from_each_other():
    one = stack(P=1, d=3)[0]
    barred = np.array([0.0, -np.inf, 0.0, 0.0, 0.0])
    near = [
        LinearGreedy(one.coef * (1 + s), one.intercept + barred, range(5)) for s in (0, 1e-9, 1e-3)
    ]
    X = np.random.default_rng(5).normal(size=(1000, 3))
    for codes, policy in zip(LinearStack(near).choose(X), near, strict=True):
        assert (codes == policy.choose(X)).all()


def test_a_context_that_is_no_number_is_refused_by_its_row():
    X = np.random.default_rng(6).normal(size=(700, 17))
    for wrong in (np.nan, np.inf):
        X[613, 3] = wrong
        with pytest.raises(piwo.DataError, match="row 613: a score is"):
            LinearStack(stack(P=3000, K=2)).choose(X)


def test_policies_without_context_are_decided_by_their_intercepts():
    policies = [LinearGreedy(np.zeros((2, 0)), b, ["a", "b"]) for b in ([0, 1], [1, 0])]
    assert LinearStack(policies).choose(np.zeros((3, 0))).tolist() == [[1] * 3, [0] * 3]


@pytest.mark.filterwarnings("error")
def test_scores_beyond_the_largest_number_are_those_of_the_policies():
    # the mean score of the second action overflows, that of a row with 0 does not
    policies = [
        LinearGreedy([[0.0], [-1e10 * sign]], [-1.0, 0.0], ["a", "b"]) for sign in (1, 1 + 1e-9)
    ]
    X = np.array([[1e300], [0.0], [1e290]])
    found = LinearStack(policies).choose(X)
    assert found.tolist() == [policy.choose(X).tolist() for policy in policies]
    assert found[0].tolist() == [0, 1, 0]
    with pytest.raises(piwo.DataError, match="row 0: a score is inf"):
        LinearStack([LinearGreedy([[0.0], [1e10]], [0.0, 0.0], ["a", "b"])]).choose(X)
