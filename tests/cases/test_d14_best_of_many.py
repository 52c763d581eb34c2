"""D14: the best of many policies, scored on the log that it was chosen on. `compare` pays for all
of them."""

import math
from typing import Any

import numpy as np
import pytest

import piwo
from piwo import bounds

pytestmark = pytest.mark.statistics


def noise(seed: int = 0, count: int = 1000) -> tuple[piwo.Log, dict[str, Any]]:
    r = np.random.default_rng(seed)
    n = 500
    action = r.integers(0, 10, n)
    reward = r.integers(0, 2, n)
    policy = r.integers(0, 10, (count, n))
    log = piwo.Log.from_arrays(action=action, reward=reward, propensity=[0.1] * n)
    return log, {str(k): (policy[k] == action).astype(float) for k in range(count)}


def test_the_winner_of_a_thousand_guesses() -> None:
    log, policies = noise()
    results = piwo.compare(log, policies, estimator="ix", gamma=0.02, interval="ix")
    best = max(results, key=lambda k: results[k].value or 0.0)
    winner = results[best]
    assert winner.value == pytest.approx(0.716667, abs=1e-6)
    assert piwo.evaluate(log, policies[best]).value == pytest.approx(0.86)
    # the one-sided linear forms that the case states
    assert bounds.ix_linear_lower(winner.value, 500, 0.02, math.log(20)) == pytest.approx(
        0.566880, abs=1e-6
    )
    union = bounds.log_inv_delta(0.05, log_class_size=math.log(1000))
    assert bounds.ix_linear_lower(winner.value, 500, 0.02, union) == pytest.approx(
        0.221492, abs=1e-6
    )
    # what users get: alone it claims more than the truth, .5; among all it does not
    alone = piwo.evaluate(log, policies[best], estimator="ix", gamma=0.02, interval="ix")
    assert alone.lower is not None
    assert alone.lower > 0.5
    assert winner.simultaneous == 1000
    assert winner.lower == pytest.approx(
        bounds.ix_lower(winner.value, 500, 0.02, math.log(1000 * 2 / 0.05)), rel=1e-9
    )
    assert winner.lower is not None
    assert winner.lower < 0.5


def test_no_interval_of_any_policy_misses_the_truth() -> None:
    for seed in range(3):
        log, policies = noise(seed, 100)
        for result in piwo.compare(log, policies).values():
            assert result.lower is not None
            assert result.upper is not None
            assert result.lower <= 0.5 <= result.upper
