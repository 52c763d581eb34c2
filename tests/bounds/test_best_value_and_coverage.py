"""Bounds on the best value and on the coverage against hand-worked numbers."""

import math

import numpy as np
import pytest

from piwo import bounds
from piwo.errors import UsageError
from piwo.reductions.bets import bet_sums


def test_best_value_by_hand():
    # 1 - (exp(.1 * .4 - (3 + log 2)/1000) - 1)/.1, and the same at .2 * .35
    by_hand = [
        1 - (math.exp(b * v - (3 + math.log(2)) / 1000) - 1) / b
        for b, v in ((0.1, 0.4), (0.2, 0.35))
    ]
    assert bounds.best_value_upper([0.4, 0.35], [0.1, 0.2], 1000, 3.0) == pytest.approx(
        min(by_hand), rel=1e-12
    )


def test_best_value_refuses():
    with pytest.raises(UsageError, match="expected equally many numbers"):
        bounds.best_value_upper([], [], 10, 3.0)
    with pytest.raises(UsageError, match="expected equally many numbers"):
        bounds.best_value_upper([0.1, 0.2], [0.1], 10, 3.0)


def test_coverage_is_a_bound_on_one_minus_a_mean():
    y = bet_sums(np.tile([0.9, 0.8], 500))
    assert bounds.coverage_upper(y, 1000, 0.1, 3.0) == pytest.approx(
        (1 - bounds.lower(y, 1000, 3.0)) / 0.1
    )
    assert bounds.coverage_lower(y, 1000, 0.1, 3.0) == pytest.approx(
        bounds.lower(y, 1000, 3.0) / 0.1
    )


def test_coverage_without_rows_is_what_every_policy_satisfies():
    assert bounds.coverage_upper(np.zeros(48), 0, 0.1, 3.0) == pytest.approx(10.0)
    assert bounds.coverage_lower(np.zeros(48), 0, 0.1, 3.0) == 0.0
    # weights that contradict their propensities: the mean is above 1, the coverage not below 0
    assert bounds.coverage_upper(bet_sums(np.full(1000, 3.0)), 1000, 0.1, 3.0) == 0.0


def test_coverage_refuses_gamma_zero():
    for bound in (bounds.coverage_upper, bounds.coverage_lower):
        with pytest.raises(UsageError, match="gamma is 0"):
            bound(np.zeros(48), 10, 0.0, 3.0)


def test_pac_bayes_by_hand():
    # (log 50 + log 20)/(.1 * 100) + 2 * .1 * 2: one policy of fifty under the uniform prior
    plan = {"n": 100, "gamma": 0.1, "coverage": 2.0, "delta": 0.05}
    assert bounds.regret_bound_pac_bayes(kl=math.log(50), **plan) == pytest.approx(
        0.6907755 + 0.4, abs=1e-7
    )
    assert bounds.regret_bound_pac_bayes(kl=0.0, **plan) == pytest.approx(0.2995732 + 0.4, abs=1e-7)
    with pytest.raises(UsageError, match="kl is -1"):
        bounds.regret_bound_pac_bayes(kl=-1.0, **plan)
