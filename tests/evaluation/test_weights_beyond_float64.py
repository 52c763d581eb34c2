"""A row that earns 0 counts 0 in the value, even if its weight is beyond float64."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import piwo
from piwo.intervals import bootstrap
from piwo.intervals.point import ESTIMATORS
from piwo.policies import Constant, EpsilonGreedy, Uniform

TINY = 1e-310
ALWAYS = Constant(0, [0, 1])


def log_of(reward: list[float], propensity: list[float], **more: Any) -> piwo.Log:
    n = len(reward)
    given = {"action": [0] * n, "reward": reward, "propensity": propensity, "actions": [0, 1]}
    return piwo.Log.from_arrays(**given, **more)


def test_the_row_counts_zero() -> None:
    found = piwo.evaluate(log_of([1, 0], [0.5, TINY]), ALWAYS)
    assert found.value == 1.0
    assert found.standard_error == 1.0
    # what depends on the weight itself says so
    assert found.mean_weight == np.inf
    assert found.max_weight == np.inf
    assert found.ess is None
    assert found.mean_weight_z is None
    assert found.to_dict()["mean_weight"] is None


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_every_score(estimator: str) -> None:
    if estimator in {"snips", "cressie-read"}:
        pytest.skip("these divide by the weights")
    gamma: Any = 0.1 if ESTIMATORS[estimator].smoothed else "auto"
    both = piwo.evaluate(log_of([1, 0], [0.5, TINY]), ALWAYS, estimator=estimator, gamma=gamma)
    one = piwo.evaluate(log_of([1], [0.5]), ALWAYS, estimator=estimator, gamma=gamma)
    assert both.value == pytest.approx(one.value / 2)


def test_self_normalized_estimates_need_the_weight() -> None:
    log = log_of([1, 0], [0.5, TINY])
    # sum w R / sum w is less than any positive float64
    assert piwo.evaluate(log, ALWAYS, estimator="snips").value == 0.0
    assert piwo.evaluate(log, ALWAYS, estimator="cressie-read").value is None


@pytest.mark.parametrize("reward_range", [(-1, 1), (-3, 5), (0, np.inf), (-2, np.inf)])
def test_zero_in_the_unit_of_the_reward(reward_range: tuple[float, float]) -> None:
    log = log_of([1, 0], [0.5, TINY], reward_range=reward_range)
    assert piwo.evaluate(log, ALWAYS).value == pytest.approx(1.0)


def test_a_cost_of_zero() -> None:
    rows = pd.DataFrame({"action": [0, 0], "c": [1.0, 0.0], "p": [0.5, TINY]})
    log = piwo.read(rows, cost="c", propensity="p", actions=[0, 1], reward_range=(-1, 0))
    assert piwo.evaluate(log, ALWAYS).value == pytest.approx(-1.0)


@pytest.mark.parametrize("reward_range", [(0, 1), (-1, 1)])
def test_a_row_that_earns_something_is_beyond_float64(reward_range: tuple[float, float]) -> None:
    log = log_of([0, 1], [0.5, TINY], reward_range=reward_range)
    assert piwo.evaluate(log, ALWAYS).value is None
    mixed = log_of([-1, 1], [TINY, TINY], reward_range=(-1, 1))
    assert piwo.evaluate(mixed, ALWAYS).value is None


def test_by_unit_and_as_a_baseline_and_drawn_again() -> None:
    log = log_of([1, 0, 1, 1], [0.5, TINY, 0.5, 0.5], unit=["u", "u", "v", "w"])
    assert piwo.evaluate(log, ALWAYS).value == pytest.approx((1.0 + 2.0 + 2.0) / 3)
    plain = log_of([1, 0], [0.5, TINY], reward_range=(-1, 1))
    found = piwo.evaluate(plain, Uniform([0, 1]), baseline=ALWAYS)
    assert (found.value, found.baseline_value) == (pytest.approx(0.5), pytest.approx(1.0))
    half = EpsilonGreedy(ALWAYS, 1.0)
    many = log_of([1, 0] * 50, [0.5, *[0.5] * 98, TINY])
    again = bootstrap(many, half, "iw", replicates=20)
    assert again.value == pytest.approx(0.5)


def test_the_lower_bound_holds_and_a_monitor_agrees(tmp_path: Any) -> None:
    log = log_of([1.0, 0.0] * 2000, [0.5] * 3999 + [TINY])
    monitor = piwo.Monitor(ALWAYS).update(log)
    assert monitor.look().value == pytest.approx(1.0)
    monitor.save(tmp_path / "m.json")
    assert piwo.Monitor.load(tmp_path / "m.json", ALWAYS).look().value == pytest.approx(1.0)
