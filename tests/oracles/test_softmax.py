"""The softmax oracle climbs the gains themselves."""

import numpy as np
import pytest

import piwo
from piwo.oracles.softmax import SoftmaxObjective


def make_log(n=1500, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, 0.0]
    best = np.digitize(X[:, 0], [-0.5, 0.5])
    mu = np.array([0.6, 0.3, 0.1])
    A = rng.choice(3, n, p=mu)
    R = ((best == A) | (rng.random(n) < 0.1)) * scale
    log = piwo.Log.from_arrays(
        context=X, action=A, reward=R, propensity=mu[A], reward_range=(0.0, scale)
    )
    return log, X, best


def objective(rng, penalty=0.7, ridge=0.1, m=40, n=60):
    x, action = rng.normal(size=(m, 2)), rng.integers(0, 3, m)
    gains = rng.random(m) * 4.0
    return SoftmaxObjective(x, action, gains * n / gains.sum(), n, penalty, ridge)


def test_a_value_by_hand():
    # one row, two actions, W = 0: pi = 1/2, V = G/2 = 1/2 of a single row, no variance
    one = SoftmaxObjective(np.zeros((1, 1)), np.zeros(1, int), np.ones(1), 1, 0.0, 0.0)
    value, gradient = one(np.zeros(4))
    assert value == -0.5
    assert gradient.tolist() == [0.0, -0.25, 0.0, 0.25]  # d pi_0 / d b_0 = pi_0 (1 - pi_0)


def test_the_objective_is_the_obvious_one():
    rng = np.random.default_rng(0)
    some, weights = objective(rng), rng.normal(size=(3, 3))
    scores = some.context @ weights[:, :-1].T + weights[:, -1]
    pi = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    credit = np.zeros(some.rows)  # rows without reward count
    credit[: len(pi)] = pi[np.arange(len(pi)), some.action] * some.gains
    size = 0.1 * (weights[:, :-1] ** 2).sum() / 2.0
    wanted = credit.mean() - 0.7 * credit.std() / np.sqrt(some.rows) - size
    assert -some(weights.ravel())[0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("penalty", "ridge"), [(0.0, 0.0), (0.7, 0.1), (3.0, 0.0)])
def test_the_gradient_is_that_of_differences(penalty, ridge):
    rng = np.random.default_rng(1)
    some, at = objective(rng, penalty, ridge), rng.normal(size=9)
    gradient = some(at)[1]
    step = 1e-6 * np.eye(9)
    differences = [(some(at + one)[0] - some(at - one)[0]) / 2e-6 for one in step]
    assert np.allclose(gradient, differences, rtol=1e-5, atol=1e-8)


def test_it_learns_whatever_the_unit_of_the_reward():
    log, X, best = make_log()
    policy = piwo.oracles.Softmax().solve(log, piwo.IX(0.01))
    assert (policy.act(X).actions == best).mean() > 0.85
    other = piwo.oracles.Softmax().solve(make_log(scale=50.0)[0], piwo.IX(0.01))
    assert (other.act(X).actions == policy.act(X).actions).all()


def test_a_variance_penalty_avoids_the_rare_action():
    # action 1 was logged once in a hundred times and rewarded 3 of 4 times there: worth more, if
    # one believes it
    action = np.array([0] * 396 + [1] * 4)
    reward = np.array([1.0, 0.0] * 198 + [1.0, 1.0, 1.0, 0.0])
    log = piwo.Log.from_arrays(
        context=np.zeros((400, 1)),
        action=action,
        reward=reward,
        propensity=np.where(action == 0, 0.99, 0.01),
    )
    bold, careful = (piwo.oracles.Softmax(penalty=x).solve(log, piwo.IW()) for x in (0.0, 2.0))
    assert bold.act([[0.0]]).actions.tolist() == [1]
    assert careful.act([[0.0]]).actions.tolist() == [0]


def test_proportional_gains_share_a_policy():
    log = piwo.Log.from_arrays(
        context=[[0.0], [1.0]] * 20, action=[0, 1] * 20, reward=[1, 1] * 20, propensity=[0.5] * 40
    )
    one, two = piwo.oracles.Softmax().solve_path(log, [piwo.IX(0.1), piwo.IX(1.0)])
    assert one is two


@pytest.mark.parametrize("arguments", [{"penalty": -1.0}, {"ridge": np.nan}, {"steps": 0}])
def test_bad_arguments(arguments):
    with pytest.raises(piwo.UsageError, match=rf"{next(iter(arguments))} is .*expected"):
        piwo.oracles.Softmax(**arguments)
