"""The small bandits themselves: values by hand, logs with the right frequencies."""

import math

import numpy as np
import pytest

import piwo
from piwo.simulate import Bandit, adversarial_bandits

BANDITS = {bandit.name: bandit for bandit in adversarial_bandits()}


def test_values_by_hand():
    assert BANDITS["rare action"].value == pytest.approx(0.9)
    assert BANDITS["rare action"].logging_value == pytest.approx(0.001 * 0.9 + 0.999 * 0.1)
    assert BANDITS["missing support"].value == pytest.approx(0.5 * 0.95 + 0.5 * 0.3)
    assert BANDITS["near the logger, small rewards"].value == pytest.approx(
        0.05 * (0.3 + 0.27 + 0.06)
    )
    assert BANDITS["thirty rare arms"].value == pytest.approx(0.5)


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS)
def test_logs_have_the_frequencies_of_the_bandit(bandit):
    log, n = bandit.log(100_000, random_state=0), 100_000
    batches = list(log.each_batch())
    action = np.concatenate([x.action for x in batches])
    reward = np.concatenate([x.reward for x in batches])
    np.testing.assert_allclose(
        np.bincount(action, minlength=len(bandit.pi)) / n, bandit.mu, atol=5 * 0.5 / math.sqrt(n)
    )
    assert abs(reward.mean() - bandit.logging_value) < 5 * 0.5 / math.sqrt(n)
    assert set(np.unique(reward)) <= {0.0, bandit.high}


def test_logs_are_seeded_and_their_rows_are_mixed():
    bandit = BANDITS["on-policy"]
    one, same = (next(bandit.log(500, random_state=4).each_batch()) for _ in range(2))
    np.testing.assert_array_equal(one.action, same.action)
    assert (np.diff(one.action) < 0).sum() > 50


def test_underflowing_propensities_are_logged_as_logarithms():
    log = BANDITS["underflowing propensity"].log(100, random_state=0)
    assert next(log.each_batch()).log_propensity is not None
    # all four actions are possible rows, though exp(-800) is 0
    assert len(BANDITS["underflowing propensity"].cells.action) == 8


def test_actions_never_logged_are_in_no_cell():
    assert 0 not in BANDITS["missing support"].cells.action
    assert BANDITS["missing support"].cells.chance.sum() == pytest.approx(1.0)


def test_bad_bandits():
    with pytest.raises(piwo.UsageError, match="lengths"):
        Bandit("x", (0.0,), (1.0, 0.0), (0.5, 0.5))
    with pytest.raises(piwo.UsageError, match="logger's probabilities sum to"):
        Bandit("x", (0.0, 0.0), (1.0, 0.0), (0.5, 0.5))
