"""The direct oracle models the reward of every action, and ignores propensities."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import piwo


def make_log(n=1200, seed=0, actions=(0, 1, 2)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + [0.0, 300.0]
    A = rng.integers(0, 3, n)
    R = (
        rng.random(n)
        < 0.5
        + 0.4
        * np.stack([np.tanh(X[:, 0]), -np.tanh(X[:, 0]), np.full(n, -0.2)], axis=1)[np.arange(n), A]
    )
    log = piwo.Log.from_arrays(
        context=X, action=A, reward=R.astype(float), propensity=np.full(n, 1 / 3), actions=actions
    )
    return log, X, A, R.astype(float)


def test_by_hand():
    # no context to speak of: action 0 earned 2 of 2, action 1 earned 1 of 4; m = 1/2; alpha = 2
    # halves
    log = piwo.Log.from_arrays(
        context=np.zeros((6, 1)),
        action=[0, 0, 1, 1, 1, 1],
        reward=[1, 1, 1, 0, 0, 0],
        propensity=[0.5] * 6,
    )
    policy = piwo.oracles.Direct(alpha=2.0).solve(log, piwo.IW())
    # over each action: the sum of R - m, shared out over n_a + alpha rows
    assert policy.intercept == pytest.approx([1.0 / 4.0, -1.0 / 6.0])


def test_it_is_a_penalized_regression_an_action():
    log, X, A, R = make_log()
    policy = piwo.oracles.Direct(alpha=3.0).solve(log, piwo.IW())
    Z = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    scores = X @ policy.coef.T + policy.intercept
    for a in range(3):
        own = Z[a == A]
        twin = np.linalg.solve(own.T @ own + 3.0 * np.eye(3), own.T @ (R[a == A] - R.mean()))
        assert np.allclose(scores[:, a], Z @ twin, atol=1e-9)


@pytest.mark.parametrize("model", [None, DecisionTreeRegressor(max_depth=2, random_state=0)])
def test_it_learns_and_is_saved(model, tmp_path):
    log, X, *_ = make_log(actions=(0, 1, 2, 3))
    policy = piwo.oracles.Direct(10.0, model).solve(log, piwo.IW())
    taken = policy.act(X).actions
    assert (taken == np.where(X[:, 0] > 0, 0, 1)).mean() > 0.85
    assert 3 not in taken  # never logged
    policy.save(tmp_path / "p.piwo")
    assert (piwo.load(tmp_path / "p.piwo").act(X).actions == taken).all()


def test_few_rows_of_an_action_count_little():
    X = np.zeros((60, 1))
    action, reward = [0] * 57 + [1] * 3, [1] * 40 + [0] * 17 + [1] * 3
    log = piwo.Log.from_arrays(context=X, action=action, reward=reward, propensity=[0.5] * 60)
    model = DecisionTreeRegressor()
    bold, careful = (piwo.oracles.Direct(x, model).solve(log, piwo.IW()) for x in (1e-3, 1e3))
    assert bold.act(X[:1]).actions.tolist() == [1]  # 3 of 3 beat 40 of 57
    # (3 + alpha m)/(3 + alpha) and (40 + alpha m)/(57 + alpha), m = 43/60, by hand
    m = 43 / 60
    assert careful.offset[1] == pytest.approx((3 + 1000 * m) / 1003)
    assert careful.offset[0] + careful.scale[0] * 40 / 57 == pytest.approx((40 + 1000 * m) / 1057)


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf])
def test_bad_arguments(alpha):
    with pytest.raises(piwo.UsageError, match=r"alpha is .*expected a finite number above 0"):
        piwo.oracles.Direct(alpha)
    with pytest.raises(piwo.UsageError, match="expected a scikit-learn regressor"):
        piwo.oracles.Direct(model="trees")
