"""Real logs of the Open Bandit sample: numbers computed independently, and the truth inside the
interval."""

from pathlib import Path
from typing import Any

import pytest

import piwo


def log_of(folder: Path, name: str) -> piwo.Log:
    return piwo.read(
        folder / f"{name}.parquet", action="item_id", reward="click", propensity="propensity_score"
    )


TABLE: dict[str, dict[str, Any]] = {
    "obd_bts_all": {
        "iw": 0.0023596395, "snips": 0.0023337139, "ix": 0.0010903587, "ls-linear": 0.0011990550,
        "ess": 340.4, "mean_weight": 1.01111, "mixture": (0.00082, 0.1411),
        "auto": (0.000829, 0.10919), "truth": 0.0038,
    },
    "obd_bts_women": {
        "iw": 0.0074375775, "snips": 0.0023730461, "ix": 0.0018385183, "ls-linear": 0.0021932531,
        "ess": 2.1, "mean_weight": 3.13419, "mixture": (0.00158, 0.1018),
        "auto": (0.00258, 0.0729), "truth": 0.0046,
    },
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:gamma is not used")
@pytest.mark.parametrize("name", TABLE)
def test_the_uniform_policy_on_the_sample(name: str, shared_data: Path) -> None:
    log, expected = log_of(shared_data, name), TABLE[name]
    uniform = piwo.policies.Uniform(log.actions)
    results = {
        x: piwo.evaluate(log, uniform, estimator=x, gamma=0.01)
        for x in ("iw", "snips", "ix", "ls-linear")
    }
    for estimator, result in results.items():
        assert result.value == pytest.approx(expected[estimator], abs=5.1e-11)
    plain = results["iw"]
    assert plain.ess == pytest.approx(expected["ess"], abs=0.05)
    assert plain.mean_weight == pytest.approx(expected["mean_weight"], abs=5.1e-6)
    for interval in ("mixture", "auto"):
        found = piwo.evaluate(log, uniform, interval=interval)
        lower, upper = expected[interval]
        assert found.lower == pytest.approx(lower, abs=1e-5)  # the table rounds outwards
        assert found.upper == pytest.approx(upper, abs=1e-4)
        assert found.lower < expected["truth"] < found.upper


def test_the_random_log(shared_data: Path) -> None:
    log = log_of(shared_data, "obd_random_all")
    for interval, ends in (("mixture", (0.0020218, 0.0063744)), ("auto", (0.0024575, 0.0053761))):
        result = piwo.evaluate(log, piwo.policies.Uniform(log.actions), interval=interval)
        assert result.value == pytest.approx(0.0038, rel=1e-9)
        assert (result.lower, result.upper) == pytest.approx(ends, abs=5.1e-8)


def test_health_calls_the_women_log_what_it_is(shared_data: Path) -> None:
    health = piwo.check(log_of(shared_data, "obd_bts_women"))
    assert health.verdict == "unfit"
    assert not health.fit
    first = health.findings[0]
    assert first.severity == "unfit"
    assert "an effective sample of two rows (ESS 2.1 of 10,000)" in first.text
    assert "row 8409 (weight 21,739, propensity 1e-06" in first.text
    assert first.rows[:2] == (8409, 3770)
    assert first.text in str(health)
    assert health.top_share[1] == pytest.approx(0.6936, abs=1e-4)


def test_honest_logs_raise_no_alarm(shared_data: Path) -> None:
    for name in ("obd_random_all", "obd_random_women"):
        health = piwo.check(log_of(shared_data, name))
        assert (health.verdict, health.findings) == ("fit", ())
    health = piwo.check(log_of(shared_data, "obd_bts_all"))
    assert health.verdict == "fit with care"
    assert not any("do not match" in finding.text for finding in health.findings)
