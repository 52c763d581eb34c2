"""Clipping breaks the regret bound of implicit exploration; scores that pay for what they let
through keep it."""

import numpy as np
import pytest

from benchmarks.statistics.separation import RareArms, regrets
from piwo.scores import IX, Clip, GlobalClipLinear, LogClipLinear, LSLinear, Score

pytestmark = pytest.mark.statistics


@pytest.fixture(scope="module")
def bandit() -> RareArms:
    return RareArms.of(10**6)


def test_the_bandit_is_one(bandit: RareArms) -> None:
    assert bandit.mu.sum() == pytest.approx(1.0)
    assert bandit.mu[0] == pytest.approx(0.5, abs=0.01)
    assert bandit.value.max() == bandit.value[0] < 0.52


def test_clipping_exceeds_the_bound_that_implicit_exploration_keeps(bandit: RareArms) -> None:
    clipped = regrets(bandit, Clip(), reps=200)
    assert (clipped > bandit.bound).mean() > 0.95  # 1.00 in 1000 logs
    assert clipped.mean() == pytest.approx(0.0145, abs=0.001)


@pytest.mark.parametrize("score", [IX(), LSLinear(), GlobalClipLinear(), LogClipLinear()], ids=repr)
def test_pessimistic_scores_find_the_good_arm(bandit: RareArms, score: Score) -> None:
    assert np.array_equal(regrets(bandit, score, reps=200), np.zeros(200))
