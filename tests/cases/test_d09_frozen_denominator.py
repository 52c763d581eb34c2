"""D09: the interval of a self-normalized estimate, its denominator drawn anew in each replicate."""

import numpy as np
import pytest

import piwo
from piwo.intervals import bootstrap

MU = [0.2, 0.5, 0.8, 0.8, 0.5, 0.5]
PI = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
WEIGHTS = np.array([5, 0, 1.25, 1.25, 0, 2])


def log_of(reward: list[float]) -> piwo.Log:
    return piwo.Log.from_arrays(action=[0, 1, 0, 0, 1, 0], reward=reward, propensity=MU)


def test_the_estimate_and_its_delta_method_error() -> None:
    log = log_of([1, 1, 0, 1, 0, 0])
    result = piwo.evaluate(log, PI, estimator="snips", interval="normal")
    assert result.value == pytest.approx(0.657895, abs=1e-6)
    assert result.standard_error == pytest.approx(0.247231, abs=1e-6)
    frozen = WEIGHTS * np.array([1, 1, 0, 1, 0, 0]) / WEIGHTS.mean()
    assert frozen.std(ddof=1) / np.sqrt(6) == pytest.approx(
        0.516353, abs=1e-6
    )  # what must not be reported


def test_equal_rewards_have_no_error_at_all() -> None:
    log = log_of([1.0] * 6)
    result = piwo.evaluate(log, PI, estimator="snips", interval="normal")
    assert (result.value, result.standard_error, result.lower, result.upper) == (1.0, 0.0, 1.0, 1.0)
    found = bootstrap(log, PI, "snips")
    assert (found.value, found.lower, found.upper) == (1.0, 1.0, 1.0)


def test_replicates_without_weight_are_counted() -> None:
    # (1/3)^6 = 0.14 % of the replicates draw only rows of weight 0.
    found = bootstrap(log_of([1, 1, 0, 1, 0, 0]), PI, "snips", replicates=20_000)
    assert 10 <= found.empty_replicates <= 60
    assert found.lower is not None
    assert found.upper is not None
    assert 0.0 <= found.lower < 0.657895 < found.upper <= 1.0
    assert bootstrap(log_of([1, 1, 0, 1, 0, 0]), PI, "iw", replicates=2000).empty_replicates == 0
