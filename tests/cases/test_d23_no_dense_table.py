"""D23: 200 000 rows and 20 000 actions, without the 32 GB table of both."""

import tracemalloc
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
