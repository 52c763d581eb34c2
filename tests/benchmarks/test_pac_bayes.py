"""PAC-Bayes bounds fail at most as often as they may, and the statement without KL does not."""

import math

import pytest

from benchmarks.statistics.pac_bayes import Coins, Policies, rates
from benchmarks.statistics.pac_bayes_linear import CASES, failures
from piwo.simulate import adversarial_bandits


@pytest.mark.parametrize("bandit", adversarial_bandits(), ids=lambda one: one.name)
def test_bounds_over_a_class_hold(bandit):
    found = dict(rates(Policies.of(bandit, 200, 1000), 0.2))
    del found["no KL"]
    assert max(found.values()) <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / 1000)


def test_who_learned_and_pays_nothing_is_wrong_too_often():
    found = dict(rates(Coins.of(100, 300), 0.05))
    assert found.pop("no KL") > 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert max(found.values()) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize("prior", ["split", "zero"])
@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_bounds_over_linear_policies_hold(case, prior):
    wrong = [sum(failures(case, prior, seed)[1:]) for seed in range(3)]
    assert sum(wrong) == 0
