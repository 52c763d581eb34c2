"""Bounds of slates hold as often as they say, if the assumption holds."""

from __future__ import annotations

import pytest

from piwo import slates
from tests.slates.simulator import TARGET_COLUMNS, SlateBandit, misses
from tests.slates.test_estimators import additive

pytestmark = pytest.mark.statistics

LOGS = 200
# Of 200 intervals at 90 %, more than 33 wrong ones have a probability below .002.
MOST = 33


@pytest.mark.parametrize("interval", ["deadline", "mixture"])
@pytest.mark.parametrize(
    ("behavior", "estimator"),
    [
        ("standard", "standard"),
        ("cascade", "cascade"),
        ("independent", "independent"),
        ("cascade", "adaptive"),
    ],
)
def test_intervals_hold_under_the_assumption(behavior: str, estimator: str, interval: str) -> None:
    bandit, wrong, narrow = SlateBandit(behavior), 0, 0
    for seed in range(LOGS):
        found = slates.evaluate(
            bandit.log(300, seed), TARGET_COLUMNS, estimator=estimator, interval=interval, delta=0.1
        )
        wrong += misses(found, bandit.value)
        narrow += found.upper is not None and found.upper - (found.lower or 0.0) < 1.0
    assert wrong <= MOST
    assert narrow > LOGS / 2


@pytest.mark.parametrize("interval", ["deadline", "mixture"])
def test_shifted_intervals_of_the_pseudo_inverse_hold(interval: str) -> None:
    wrong = 0
    for seed in range(LOGS):
        log, truth = additive(300, seed)
        found = slates.evaluate(
            log,
            slates.Deterministic(["d", "c"]),
            estimator="pseudo-inverse",
            interval=interval,
            delta=0.1,
        )
        wrong += misses(found, truth)
    assert wrong <= MOST


def test_the_interval_misses_where_the_assumption_fails() -> None:
    bandit, missed = SlateBandit("standard"), 0
    for seed in range(20):
        found = slates.evaluate(bandit.log(20_000, seed), TARGET_COLUMNS, estimator="independent")
        assert found.lower is not None
        assert found.upper is not None
        missed += not found.lower <= bandit.value <= found.upper
    assert missed >= 15
