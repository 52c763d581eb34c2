"""Doubly robust and direct: a naive twin, the ways to give a model, and its limits."""

import json
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.estimators import direct_method, doubly_robust

K = 3


def made(n: int = 300, seed: int = 0, **options: Any) -> tuple[piwo.Log, Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    data = {
        "action": rng.integers(0, K, n),
        "reward": rng.random(n),
        "propensity": rng.uniform(0.1, 0.9, n),
        "context": rng.normal(size=(n, 2)),
    }
    log = piwo.Log.from_arrays(**data, actions=range(K), **options)
    return log, rng.dirichlet(np.ones(K), n), rng.uniform(-0.5, 1.5, (n, K)), data


def naive(pi: Any, q: Any, data: dict[str, Any], gamma: float) -> Any:
    rows = np.arange(len(q))
    weight = pi[rows, data["action"]] / (data["propensity"] + gamma)
    return (pi * q).sum(axis=1) + weight * (data["reward"] - q[rows, data["action"]])


@pytest.mark.parametrize("gamma", [0.0, 0.2])
def test_against_the_naive_formula(gamma: float) -> None:
    log, pi, q, data = made()
    credited = naive(pi, q, data, gamma)
    found = doubly_robust(log, pi, q, gamma)
    assert found.value == pytest.approx(credited.mean(), rel=1e-12)
    assert found.standard_error == pytest.approx(credited.std(ddof=1) / np.sqrt(300), rel=1e-9)
    assert found.direct == pytest.approx((pi * q).sum(axis=1).mean(), rel=1e-12)
    assert found.correction == pytest.approx(found.value - found.direct, rel=1e-9)
    assert found.lower is not None
    assert found.upper is not None
    assert found.upper - found.value == pytest.approx(found.value - found.lower)
    assert found.standard_error is not None
    assert found.upper - found.value == pytest.approx(1.959964 * found.standard_error, rel=1e-6)
    assert found.guarantee == "asymptotic"


def test_the_direct_method_is_the_model_alone() -> None:
    log, pi, q, _ = made()
    found = direct_method(log, pi, q)
    assert found.value == pytest.approx((pi * q).sum(axis=1).mean(), rel=1e-12)
    assert (found.estimator, found.gamma, found.correction) == ("dm", None, None)
    assert found.value == found.direct


def test_a_model_that_is_right_on_the_logged_actions_is_not_corrected() -> None:
    log, pi, q, data = made()
    q[np.arange(300), data["action"]] = data["reward"]
    for gamma in (0.0, 0.1, 3.0):
        assert doubly_robust(log, pi, q, gamma).value == pytest.approx(
            direct_method(log, pi, q).value
        )


def test_a_constant_zero_model_is_importance_weighting() -> None:
    log, pi, q, _ = made()
    assert doubly_robust(log, pi, 0 * q).value == pytest.approx(piwo.evaluate(log, pi).value)
    ix = piwo.evaluate(log, pi, estimator="ix", gamma=0.3)
    assert doubly_robust(log, pi, 0 * q, 0.3).value == pytest.approx(ix.value)


def test_the_reward_s_own_unit_and_the_prediction_s_are_the_same() -> None:
    log, pi, q, data = made()
    options = {k: v for k, v in data.items() if k != "reward"}
    wide = piwo.Log.from_arrays(
        **options, reward=8 * data["reward"] - 2, reward_range=(-2, 6), actions=range(K)
    )
    one, other = doubly_robust(log, pi, q), doubly_robust(wide, pi, 8 * q - 2)
    assert other.value == pytest.approx(8 * one.value - 2)
    assert one.standard_error is not None
    assert other.standard_error == pytest.approx(8 * one.standard_error)


def test_values_outside_the_range_are_not_clipped() -> None:
    log = piwo.Log.from_arrays(action=[0], reward=[0], propensity=[0.2], actions=[0, 1])
    found = doubly_robust(log, [[1.0, 0.0]], [[0.9, 0.3]])
    assert found.value == pytest.approx(-3.6)
    assert (found.standard_error, found.lower) == (None, None)
    json.dumps(found.to_dict(), allow_nan=False)


def test_functions_fitted_objects_and_frames_are_models_too() -> None:
    from sklearn.linear_model import LinearRegression

    log, pi, q, data = made()
    fitted = LinearRegression().fit(data["context"], q)
    table = fitted.predict(data["context"])
    expected = doubly_robust(log, pi, table).value
    assert doubly_robust(log, pi, fitted).value == pytest.approx(expected)
    assert doubly_robust(log, pi, fitted.predict).value == pytest.approx(expected)
    frame = {str(a): table[:, a] for a in (2, 0, 1)}
    assert doubly_robust(log, pi, frame).value == pytest.approx(expected)


def test_policies_that_need_no_rows_work_too() -> None:
    log, _, q, _ = made()
    uniform = piwo.policies.Uniform(log.actions)
    assert direct_method(log, uniform, q).value == pytest.approx(q.mean())


def test_sampling_weights_weigh_both_sides() -> None:
    log, pi, q, data = made(weight=np.linspace(1, 4, 300))
    s = np.linspace(1, 4, 300)
    credited = naive(pi, q, data, 0.0)
    assert doubly_robust(log, pi, q).value == pytest.approx((s * credited).sum() / s.sum())


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (np.zeros((300, K + 1)), "shape"),
        (np.zeros((299, K)), "299 rows, the log has 300"),
        (np.zeros(300), "expected an"),
        ("model", "expected an"),
    ],
)
def test_models_of_another_shape(q: Any, message: str) -> None:
    log, pi, _, _ = made()
    with pytest.raises(piwo.UsageError, match=message):
        doubly_robust(log, pi, q)


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (lambda x: np.zeros(len(x)), r"gave the shape \(300,\), expected the shape \(300, 3\)"),
        (lambda _: np.zeros((1, K)), r"gave the shape \(1, 3\)"),
        (lambda _: None, "gave None"),
        (lambda x: np.full((len(x), K), "a"), "not numbers"),
        (lambda x: np.full((len(x), K), np.nan), "row numbers from 0: 0, 1, 2, 3, 4, ...: .* nan"),
    ],
)
def test_what_a_reward_model_gives_is_checked(q: Any, message: str) -> None:
    log, pi, _, _ = made()
    with pytest.raises(piwo.DataError, match=message):
        doubly_robust(log, pi, q)


def test_what_cannot_be_used() -> None:
    log, pi, q, data = made()
    q[7, 1] = np.nan
    with pytest.raises(piwo.DataError, match="row 7"):
        doubly_robust(log, pi, q)
    with pytest.raises(piwo.UsageError, match="full vectors"):
        doubly_robust(log, np.full(300, 0.5), np.zeros((300, K)))
    with pytest.raises(piwo.UsageError, match="gamma"):
        doubly_robust(log, pi, np.zeros((300, K)), -0.1)
    plain = {k: v for k, v in data.items() if k != "context"}
    with pytest.raises(piwo.UsageError, match="context"):
        doubly_robust(piwo.Log.from_arrays(**plain, actions=range(K)), pi, lambda x: x)
    with pytest.raises(piwo.UsageError, match=r"actions=\[\.\.\.\]"):
        doubly_robust(
            piwo.Log.from_arrays(**plain), piwo.policies.Uniform(range(K)), np.zeros((300, K))
        )


def test_weights_beyond_float64_ask_for_gamma() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1], reward=[1, 1], log_propensity=[-2000.0, -1.0], actions=[0, 1]
    )
    policy, q = piwo.policies.Uniform(log.actions), np.zeros((2, 2))
    with pytest.raises(piwo.DataError, match="gamma > 0"):
        doubly_robust(log, policy, q)
    assert doubly_robust(log, policy, q, 0.1).value > 0
