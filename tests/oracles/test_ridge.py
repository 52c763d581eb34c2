"""The ridge oracle gives scikit-learn's answer on dense gains, without ever forming them."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

import piwo
from piwo.oracles.ridge import ridge_solution
from piwo.reductions import Gram, reduce


def make_log(n=3000, d=6, k=5, seed=0, offset=0.0, full=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 3.0, d) + offset
    mu = rng.dirichlet(np.ones(k), n)
    A = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)
    R = np.where(rng.random(n) < 0.6, rng.random(n), 0.0)
    roles = {"propensities": mu} if full else {"propensity": mu[np.arange(n), A]}
    log = piwo.Log.from_arrays(context=X, action=A, reward=R, actions=range(k), **roles)
    return log, X, A, R, mu


def dense_gains(score, A, R, mu):
    """The obvious way: an n x K table."""
    rows = np.arange(len(A))
    p = mu[rows, A]
    table = np.zeros(mu.shape)
    match score:
        case piwo.IW():
            table[rows, A] = R / p
        case piwo.IX(gamma=g):
            table[rows, A] = R / (p + g)
        case piwo.Clip(gamma=g):
            table[rows, A] = R / np.maximum(p, g)
        case piwo.LSLinear(lam=lam):
            table[rows, A] = np.log1p(lam * R / p) / lam
        case piwo.PseudoLoss(beta=beta):
            table[rows, A] = R / p
            table -= beta / mu
        case piwo.DoublyRobustLS(lam=lam, q=q, k=k):
            b = np.minimum(q, k * mu)
            y = b + k
            y[rows, A] += (R - b[rows, A]) / p
            table = np.log1p(lam * y) / lam
        case piwo.BaselineRelative(lam=lam):
            y = mu + 1 - R[:, None]
            y[rows, A] = (1 - p) * R / p + p
            table = np.log1p(lam * y) / lam
    return table


SPARSE = [piwo.IW(), piwo.IX(0.05), piwo.IX(1.0), piwo.Clip(0.1), piwo.LSLinear(0.2)]


@pytest.mark.parametrize("alpha", [1.0, 0.01, 1e4])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_path_equals_dense_ridge(alpha, intercept, offset):
    log, X, A, R, mu = make_log(offset=offset)
    oracle = piwo.oracles.Ridge(alpha=alpha, intercept=intercept)
    for score, policy in zip(SPARSE, oracle.solve_path(log, SPARSE), strict=True):
        twin = SklearnRidge(alpha=alpha, fit_intercept=intercept).fit(
            X, dense_gains(score, A, R, mu)
        )
        scale = np.abs(twin.coef_).max()
        assert np.abs(policy.coef - twin.coef_).max() <= 1e-8 * scale
        fitted = X @ policy.coef.T + policy.intercept
        assert np.abs(fitted - twin.predict(X)).max() <= 1e-8 * np.abs(twin.predict(X)).max()


def test_dense_gains_are_never_formed_for_the_whole_log():
    log, X, A, R, mu = make_log(full=True)
    losses = [piwo.PseudoLoss(0.0), piwo.PseudoLoss(0.003), piwo.PseudoLoss(0.5)]
    doubly = [piwo.DoublyRobustLS(0.1, q=0.5, k=2.0), piwo.DoublyRobustLS(0.3, q=0.0, k=1.0)]
    scores = [*losses, piwo.IX(0.1), *doubly, piwo.BaselineRelative(0.2)]
    for score, policy in zip(scores, piwo.oracles.Ridge().solve_path(log, scores), strict=True):
        twin = SklearnRidge().fit(X, dense_gains(score, A, R, mu))
        assert np.allclose(policy.coef, twin.coef_, rtol=1e-8, atol=1e-8 * np.abs(twin.coef_).max())
        assert np.allclose(
            policy.intercept, twin.intercept_, rtol=1e-8, atol=1e-8 * np.abs(twin.intercept_).max()
        )


def test_pseudo_loss_needs_full_vectors_and_full_support():
    log, *_ = make_log()
    with pytest.raises(piwo.UsageError, match="full propensity vector"):
        piwo.oracles.Ridge().solve(log, piwo.PseudoLoss(0.1))
    zero = piwo.Log.from_arrays(
        context=[[1.0], [2.0]],
        action=[0, 0],
        reward=[1, 1],
        propensities=[[1.0, 0.0], [1.0, 0.0]],
        actions=[0, 1],
    )
    with pytest.raises(piwo.UsageError, match="positive propensity for every action"):
        piwo.oracles.Ridge().solve(zero, piwo.PseudoLoss(0.1))


def test_standardize_equals_ridge_on_standardized_columns():
    log, X, A, R, mu = make_log(offset=5.0)
    policy = piwo.oracles.Ridge(standardize=True).solve(log, piwo.IX(0.1))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    twin = SklearnRidge().fit(Z, dense_gains(piwo.IX(0.1), A, R, mu))
    assert np.allclose(policy.coef * X.std(axis=0), twin.coef_, rtol=1e-8, atol=1e-10)


def test_folds_are_merged_states():
    _, X, A, R, mu = make_log()
    gram = Gram((piwo.IX(0.1),), 5, X.mean(axis=0))
    parts = [np.arange(len(A)) % 3 == fold for fold in range(3)]
    states = [
        reduce(
            piwo.Log.from_arrays(
                context=X[p],
                action=A[p],
                reward=R[p],
                propensity=mu[np.arange(len(A)), A][p],
                actions=range(5),
            ),
            gram,
        )
        for p in parts
    ]
    merged = ridge_solution(states[0].merge(states[2]), gram.scores, gram.shift)
    rest = ~parts[1]
    twin = SklearnRidge().fit(X[rest], dense_gains(piwo.IX(0.1), A[rest], R[rest], mu[rest]))
    assert np.allclose(merged.coef[0], twin.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("alpha", "intercept", "offset"), [(1.0, True, 1000.0), (0.01, False, 0.0), (0.0, True, 5.0)]
)
def test_proportional_policies_are_one(alpha, intercept, offset):
    """With one propensity and rewards of 0 or 1, IX only scales the gains: a path has one policy,
    and counts one."""
    _, X, A, R, _ = make_log(offset=offset)
    oracle, path = (
        piwo.oracles.Ridge(alpha, intercept),
        [piwo.IX(1.0), piwo.IX(0.1), piwo.LSLinear(0.3)],
    )
    constant = {
        "context": X,
        "action": A,
        "reward": np.ceil(R),
        "propensity": np.full(len(A), 0.2),
        "actions": range(5),
    }
    one = oracle.solve_path(piwo.Log.from_arrays(**constant), path)
    assert one[0] is one[1] is one[2]
    made = piwo.certify(piwo.Log.from_arrays(**constant), dict(enumerate(one)))
    assert made[0].candidates == 1
    # a single row with another propensity makes them three
    propensity = np.where(np.arange(len(A)) == np.argmax(R), 0.19, 0.2)
    assert (
        len(
            set(
                map(
                    id,
                    oracle.solve_path(
                        piwo.Log.from_arrays(**(constant | {"propensity": propensity})), path
                    ),
                )
            )
        )
        == 3
    )


def test_collinear_columns_without_penalty_give_the_minimum_norm_answer():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    log = piwo.Log.from_arrays(
        context=np.column_stack([x, x]),
        action=[0, 1] * 250,
        reward=np.ones(500),
        propensity=[0.5] * 500,
    )
    coef = piwo.oracles.Ridge(alpha=0.0).solve(log, piwo.IX(0.1)).coef
    assert np.isfinite(coef).all()
    assert np.allclose(coef[:, 0], coef[:, 1], atol=1e-6)


def test_no_context_is_one_clear_line():
    log = piwo.Log.from_arrays(action=[0, 1], reward=[1, 0], propensity=[0.5, 0.5])
    with pytest.raises(piwo.DataError, match="read it with context="):
        piwo.oracles.Ridge().solve(log, piwo.IX(0.1))


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_alpha_out_of_range(alpha):
    with pytest.raises(piwo.UsageError, match="alpha"):
        piwo.oracles.Ridge(alpha=alpha)


@pytest.mark.parametrize(
    ("size", "propensity", "told"),
    [(1e160, 0.5, "column 1 of the context"), (1e10, 1e-300, "gains times context leave float64")],
)
def test_sums_beyond_float64_are_told(size, propensity, told):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * [1.0, size]
    log = piwo.Log.from_arrays(
        context=X,
        action=rng.integers(0, 2, 200),
        reward=np.ones(200),
        propensity=np.full(200, propensity),
        actions=range(2),
    )
    with pytest.raises(piwo.DataError, match=told):
        piwo.oracles.Ridge().solve(log, piwo.IW())
    if propensity < 0.1:
        assert np.isfinite(piwo.oracles.Ridge().solve(log, piwo.IX(0.1)).coef).all()
