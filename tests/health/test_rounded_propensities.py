"""Propensities that were rounded when they were written are no finding; those off by 1 % are."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.evaluation.low_weights import far_below
from piwo.intervals.weight_sums import weight_z, z_score

ALARMS = {"propensity-mismatch", "sorted"}


def uniform_log(digits: int, *, changing: bool, most: int = 4, factor: float = 1.0) -> piwo.Log:
    """10,000 rows of a uniform logger over 2 to 4 of 6 actions, or over all of some."""
    rng, n = np.random.default_rng(0), 10_000
    many = rng.integers(2, most + 1, n) if changing else np.full(n, most)
    could = [(rng.permutation(6)[:m] if changing else np.arange(m)).tolist() for m in many]
    columns: dict[str, Any] = {
        "action": [x[rng.integers(len(x))] for x in could],
        "reward": (rng.random(n) < 0.3) * 1.0,
        "propensity": np.round(factor / many, digits),
        "position": rng.integers(1, 3, n),
        "time": np.arange(n),
    }
    named: dict[str, Any] = {}
    if changing:
        columns["could"] = could
        named = {"eligible": "could"}
    return piwo.read(pa.table(columns), position="position", time="time", logger="fixed", **named)


@pytest.mark.parametrize("digits", [4, 6, 8])
@pytest.mark.parametrize(("changing", "most"), [(True, 4), (True, 3), (False, 3), (False, 6)])
def test_rounding_is_no_finding(digits: int, changing: bool, most: int) -> None:
    log = uniform_log(digits, changing=changing, most=most)
    health = piwo.check(log)
    assert (health.verdict, health.findings) == ("fit", ())
    assert health.mean_weight != 1.0
    assert abs(health.mean_weight_z or 0.0) < 4.0
    for row in health.by_size:
        assert abs(row.z or 0.0) < 4.0
    for place in health.by_position:
        assert abs(place.weight_z or 0.0) < 4.0
    text = str(health)
    assert "standard errors" not in text
    made = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    assert not ALARMS & {note.kind for note in made.notes}
    assert made.mean_weight_z is None
    assert json.loads(json.dumps(made.to_dict()))["mean_weight_z"] is None


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("digits", [6, 16])
def test_an_error_of_one_percent_is_found(digits: int, changing: bool) -> None:
    small = uniform_log(digits, changing=changing, factor=0.99)
    assert "propensities-too-small" in {x.kind for x in piwo.check(small).findings}
    uniform = piwo.policies.Uniform(small.actions)
    assert "propensity-mismatch" in {x.kind for x in piwo.evaluate(small, uniform).notes}
    large = uniform_log(digits, changing=changing, factor=1.01)
    assert "policy-not-in-log" in {x.kind for x in piwo.check(large).findings}
    assert "propensity-mismatch" in {x.kind for x in piwo.evaluate(large, uniform).notes}


def test_sizes_that_are_off_by_one_percent_are_found() -> None:
    # 0.99/3 has two digits; 0.2475 and 0.495 have four
    for factor, said in ((0.99, "propensities seem to be of other"), (1.01, "did not turn up")):
        log = uniform_log(4, changing=True, factor=factor)
        found = [x.text for x in piwo.check(log).findings if x.kind == "eligible"]
        assert found
        assert all(said in text for text in found)


def test_rewards_in_the_order_of_the_file_are_still_seen() -> None:
    n = 10_000
    first = np.arange(n) < 30
    log = piwo.Log.from_arrays(
        action=np.arange(n) % 3, reward=first * 1.0, propensity=np.full(n, 0.3333), logger="fixed"
    )
    made = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    assert "sorted" in {note.kind for note in made.notes}


def test_the_limit_by_hand() -> None:
    assert z_score(1.0009, 1e-5) is None
    assert z_score(0.9991, 1e-5) is None
    assert z_score(1.0011, 1e-5) == pytest.approx(110.0)
    # fewer than 4 standard errors are no alarm and stay
    assert z_score(1.0009, 3e-4) == pytest.approx(3.0)
    # relative to what is expected
    assert z_score(0.10009, 1e-6, 0.1) is None
    assert z_score(0.1002, 1e-6, 0.1) == pytest.approx(200.0)
    for error in (0.0, 1e-13, np.inf, np.nan):
        assert z_score(2.0, error) is None
    # 5,000 weights of 1.0001 and as many of 1.0005: mean 1.0003, s = 0.0002 / 100, z = 150
    weights = np.repeat([1.0001, 1.0005], 5000)
    assert weight_z(weights.sum(), (weights**2).sum(), 10_000) is None
    weights = weights + 0.001
    assert weight_z(weights.sum(), (weights**2).sum(), 10_000) == pytest.approx(650.0, rel=1e-4)
    assert not far_below(0.9991, None, 100)
    assert far_below(0.9989, None, 100)
    # 0.3 of the policy was never logged, which leaves 0.0009
    assert not far_below(0.6991, None, 100, 0.3)
