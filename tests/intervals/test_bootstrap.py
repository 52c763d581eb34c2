"""The bootstrap: a naive twin, and what it does with rows that leave nothing to measure."""

import math
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.intervals import bootstrap


def rows(n: int = 400, seed: int = 3) -> tuple[piwo.Log, Any]:
    rng = np.random.default_rng(seed)
    mu = rng.choice([0.2, 0.5, 0.8], n)
    log = piwo.Log.from_arrays(
        action=rng.integers(0, 2, n), reward=rng.random(n), propensity=mu, actions=[0, 1]
    )
    # weights of .83 on average: the rows do not contradict their propensities
    return log, 0.6 * rng.random(n)


def test_the_interval_is_near_the_normal_one_where_that_is_right() -> None:
    log, pi = rows(4000)
    for estimator in ("iw", "snips"):
        found = bootstrap(log, pi, estimator, replicates=1000)
        normal = piwo.evaluate(log, pi, estimator=estimator, interval="normal")
        assert found.value == pytest.approx(normal.value, rel=1e-12)
        assert normal.standard_error is not None
        width = 3.92 * normal.standard_error
        assert found.lower == pytest.approx(normal.lower, abs=0.1 * width)
        assert found.upper == pytest.approx(normal.upper, abs=0.1 * width)


def test_evaluate_and_bootstrap_give_the_same_interval() -> None:
    log, pi = rows()
    result = piwo.evaluate(log, pi, estimator="ix", gamma=0.1, interval="bootstrap", random_state=5)
    found = bootstrap(log, pi, "ix", 0.1, random_state=5)
    assert (found.lower, found.upper) == (result.lower, result.upper)
    assert found.value == pytest.approx(result.value, rel=1e-12)
    assert (found.gamma, found.guarantee, found.empty_replicates) == (0.1, "asymptotic", 0)


def test_more_rows_give_a_narrower_interval_and_more_confidence_a_wider_one() -> None:
    def width(n: int, delta: float) -> float:
        found = bootstrap(*rows(n), "iw", delta=delta)
        assert found.lower is not None
        assert found.upper is not None
        return found.upper - found.lower

    assert width(4000, 0.05) < width(400, 0.05) < width(400, 0.001)


def test_values_are_in_the_reward_s_own_unit() -> None:
    rng = np.random.default_rng(0)
    action, r = rng.integers(0, 2, 300), rng.random(300)
    common = {"action": action, "propensity": [0.5] * 300}
    one = piwo.Log.from_arrays(reward=r, **common)
    other = piwo.Log.from_arrays(reward=20 * r - 5, reward_range=(-5, 15), **common)
    uniform = piwo.policies.Uniform(one.actions)
    first, second = bootstrap(one, uniform), bootstrap(other, uniform)
    for a, b in (
        (first.value, second.value),
        (first.lower, second.lower),
        (first.upper, second.upper),
    ):
        assert a is not None
        assert b == pytest.approx(20 * a - 5)


def test_how_the_log_is_cut_does_not_matter(tmp_path: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "action": rng.integers(0, 2, 90_000),
            "reward": rng.random(90_000),
            "propensity": [0.5] * 90_000,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    whole, cut = piwo.read(table), piwo.read(tmp_path / "a.parquet")
    uniform = piwo.policies.Uniform([0, 1])
    assert bootstrap(whole, uniform, replicates=10) == bootstrap(cut, uniform, replicates=10)


def test_nothing_to_measure_gives_no_interval() -> None:
    one = piwo.Log.from_arrays(action=[0], reward=[1], propensity=[0.5])
    found = bootstrap(one, [1.0], "iw")
    assert (found.value, found.lower, found.upper) == (2.0, None, None)
    never = piwo.Log.from_arrays(action=[0, 0], reward=[1, 1], propensity=[0.5, 0.5])
    found = bootstrap(never, [0.0, 0.0])
    assert (found.value, found.lower, found.empty_replicates) == (None, None, 400)
    beyond = piwo.Log.from_arrays(
        action=[0] * 50, reward=[1] * 50, log_propensity=[-2000.0] + [-1.0] * 49
    )
    found = bootstrap(beyond, [1.0] * 50, "iw")
    assert (found.value, found.lower, found.upper) == (None, None, None)
    smooth = bootstrap(beyond, [1.0] * 50, "ls", 0.1)
    assert smooth.lower is not None
    assert math.isfinite(smooth.lower)


def test_sampling_weights_count() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1] * 100, reward=[0, 1] * 100, propensity=[0.5] * 200, weight=[1.0, 10.0] * 100
    )
    found = bootstrap(log, piwo.policies.Logging(), "iw")
    assert found.value == pytest.approx(10 / 11)
    assert found.lower is not None
    assert found.upper is not None
    assert 0.8 < found.lower < 10 / 11 < found.upper < 1


@pytest.mark.parametrize(
    "wrong", [{"replicates": 1}, {"replicates": 2.5}, {"delta": 2}, {"random_state": "x"}]
)
def test_arguments_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(piwo.UsageError):
        bootstrap(*rows(), **wrong)


def test_the_cressie_read_estimate_is_drawn_again_from_all_its_sums() -> None:
    rng = np.random.default_rng(1)
    action = rng.integers(0, 2, 2000)
    log = piwo.Log.from_arrays(
        action=action, reward=rng.random(2000), propensity=np.full(2000, 0.5), actions=[0, 1]
    )
    policy = piwo.policies.Constant(1, [0, 1])
    found = bootstrap(log, policy, "cressie-read", replicates=500)
    plain = piwo.evaluate(log, policy, estimator="cressie-read", interval="normal")
    assert found.value == pytest.approx(plain.value, rel=1e-12)
    assert plain.standard_error is not None
    assert found.upper - found.lower == pytest.approx(3.92 * plain.standard_error, rel=0.15)
    assert found.lower < found.value < found.upper
