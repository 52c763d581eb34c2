"""D23: 200 000 rows and 20 000 actions, without the 32 GB table of both."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import piwo

N, K = 200_000, 20_000


def made() -> tuple[piwo.Log, piwo.policies.Policy]:
    rows = np.arange(N)
    log = piwo.Log.from_arrays(
        action=rows % K,
        reward=np.ones(N),
        propensity=np.full(N, 1 / K),
        context=rows.reshape(-1, 1).astype(float),
        actions=range(K),
    )

    def rule(x: Any) -> Any:
        row = x[:, 0].astype(np.int64)
        return (row + row % 2) % K  # the logged action in even rows, the next one in odd rows

    greedy = piwo.policies.Deterministic(rule, log.actions)
    return log, piwo.policies.EpsilonGreedy(greedy, 0.1)


def test_a_rule_is_valued_without_a_table() -> None:
    log, policy = made()
    piwo.evaluate(log, policy)  # compiled code and imports are not counted below
    tracemalloc.start()
    try:
        plain = piwo.evaluate(log, policy)
        smooth = piwo.evaluate(log, policy, estimator="ix", gamma=1 / K)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert plain.value == pytest.approx(9000.1, rel=1e-9)
    assert smooth.value == pytest.approx(4500.05, rel=1e-9)
    assert peak < 100e6


def test_check_of_many_actions_stays_small_too() -> None:
    log, _ = made()
    tracemalloc.start()
    try:
        health = piwo.check(log)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert health.verdict == "fit with care"
    assert "every reward is 1" in health.findings[0].text
    assert peak < 100e6


def test_a_dense_table_is_refused_before_it_is_made() -> None:
    policy = piwo.policies.Uniform(range(50_000))
    with pytest.raises(piwo.UsageError, match=r"400\.0 GB.*probability"):
        policy.probabilities(n=1_000_000)


# --- learning


def peak(work: Callable[[], Any]) -> tuple[Any, float]:
    """What work returns, and the most memory that it held at one time, in bytes."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def few() -> piwo.Log:
    """Rows on which imports and compiled code are paid for, so that they are not counted."""
    context = np.arange(80.0).reshape(40, 2)
    return piwo.Log.from_arrays(
        action=[0, 1] * 20, reward=[0, 1] * 20, propensity=[0.5] * 40, context=context
    )


def test_ridge_over_1000_actions_and_100_columns_holds_sums_alone() -> None:
    rng, n, actions, width, planted = np.random.default_rng(0), 20_000, 1000, 100, 7
    context, action = rng.normal(size=(n, width)), rng.integers(0, actions, n)
    action[::10] = planted
    mu = np.where(action == planted, 0.1 + 0.9 / actions, 0.9 / actions)
    reward = np.where((action == planted) == (context[:, 0] > 0), 1.0, 0.0)
    log = piwo.Log.from_arrays(
        action=action, reward=reward, propensity=mu, context=context, actions=range(actions)
    )
    ridge = piwo.oracles.Ridge(alpha=10.0)
    ridge.solve(few(), piwo.IX(0.1))
    policy, most = peak(lambda: ridge.solve(log, piwo.IX(0.001)))
    assert (
        most < 60e6
    )  # a table of rows x actions has 160 MB, and 1.6 GB for the log that is ten times as long
    # the same coefficients from the normal equations, for one action
    gain = np.where(action == planted, reward / (mu + 0.001), 0.0)
    centered = context - context.mean(axis=0)
    expected = np.linalg.solve(centered.T @ centered + 10.0 * np.eye(width), centered.T @ gain)
    assert policy.coef[planted] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    # it is played where it pays: to the right
    taken = policy.act(np.eye(width)[[0, 0]] * [[3.0], [-3.0]]).actions
    assert taken[0] == planted != taken[1]


def test_20000_hostile_labels_from_learning_to_a_report() -> None:
    from piwo.report import page, summarize

    rng, n = np.random.default_rng(0), 20_000
    marks = [
        "</script><img src=x onerror=alert(1)>",
        "a\0b",
        "Łódź",
        "x" * 500,
        "=1+1",
        "\n",
        "a,b",
        '"',
    ]
    labels = [f"{marks[i % len(marks)]}{i}" for i in range(K)]
    log = piwo.Log.from_arrays(
        action=np.array(labels, object)[np.arange(n) % K],
        reward=rng.integers(0, 2, n),
        propensity=np.full(n, 1 / K),
        context=rng.normal(size=(n, 1)),
        actions=labels,
    )
    first = few()
    learner = piwo.PIWO(piwo.IX(1 / K), oracle=piwo.oracles.Ridge())
    learner.fit(first)
    uniform = piwo.policies.Uniform(log.actions)
    page(
        summarize(
            first, [piwo.evaluate(first, piwo.policies.Uniform(first.actions))], piwo.check(first)
        )
    )
    with pytest.warns(
        piwo.errors.PiwoWarning, match=r"(held-out|learn from)"
    ):  # many actions are on one side alone
        fitted, most = peak(lambda: learner.fit(log))
    assert most < 100e6
    assert fitted.policy_.act([[0.5]]).actions[0] in labels
    text, most = peak(lambda: page(summarize(log, [piwo.evaluate(log, uniform)], piwo.check(log))))
    assert most < 100e6
    assert "<img src=x" not in text
    assert len(text) < 1e6
