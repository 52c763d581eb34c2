"""D10: the doubly robust estimate with all of its terms."""

import numpy as np
import pytest

import piwo
from piwo.estimators import direct_method, doubly_robust

LOG = {"action": [1], "reward": [1], "propensity": [0.5], "actions": [0, 1]}
PI, Q = [[0.25, 0.75]], [[0.2, 0.6]]


@pytest.mark.parametrize(("gamma", "value"), [(0.0, 1.1), (0.1, 1.0)])
def test_the_value(gamma: float, value: float) -> None:
    found = doubly_robust(piwo.Log.from_arrays(**LOG), PI, Q, gamma)
    assert found.value == pytest.approx(
        value, abs=1e-12
    )  # not 1.3 (no pi), not 1.2 (q of the logged action)
    assert found.direct == pytest.approx(0.5, abs=1e-12)
    assert found.standard_error is None


def test_rows_that_do_not_match_still_count() -> None:
    # pi gives the logged action probability 0: the model's average stays.
    found = doubly_robust(piwo.Log.from_arrays(**LOG), [[1.0, 0.0]], Q)
    assert found.value == pytest.approx(0.2)


def test_a_model_equal_to_the_reward_is_the_direct_method_for_every_propensity() -> None:
    rng = np.random.default_rng(0)
    action, reward, q = rng.integers(0, 3, 200), rng.random(200), rng.random((200, 3))
    q[np.arange(200), action] = reward
    pi = rng.dirichlet(np.ones(3), 200)
    for low in (1e-6, 0.01, 0.5):
        log = piwo.Log.from_arrays(
            action=action, reward=reward, propensity=rng.uniform(low, 1, 200), actions=range(3)
        )
        assert doubly_robust(log, pi, q).value == pytest.approx(
            direct_method(log, pi, q).value, rel=1e-9
        )
