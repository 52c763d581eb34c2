"""Sums for many policies at once: the formulas written out, and rows beyond float64."""

import math

import numpy as np
import pytest

import piwo
from piwo.reductions import reduce
from piwo.reductions.credit_sums import CreditSums
from piwo.reductions.improvement_sums import ImprovementSums


def test_the_improvement_scores_are_the_chords_of_the_logarithm():
    rng = np.random.default_rng(0)
    n, mu, pi = 50, np.array([0.2, 0.3, 0.5]), np.array([[0.1, 0.6, 0.3], [1.0, 0.0, 0.0]])
    action, reward = rng.choice(3, n, p=mu), rng.random(n)
    log = piwo.Log.from_arrays(
        action=action, reward=reward, propensity=mu[action], actions=range(3)
    )
    found = reduce(
        log, ImprovementSums(tuple(piwo.policies.Tabular(p, range(3)) for p in pi), (0.3, 4.0))
    )
    for s, lam in enumerate((0.3, 4.0)):
        played = np.log(1 + lam * (reward / mu[action] + 1 - reward)) / lam
        not_played = np.log(1 + lam * (1 - reward)) / lam
        for i, p in enumerate(pi[:, action]):
            rho = p * played + (1 - p) * not_played
            assert found.credit[s, i] == pytest.approx(rho.sum(), rel=1e-12)
            assert (
                rho <= np.log(1 + lam * (p * reward / mu[action] + 1 - reward)) / lam + 1e-12
            ).all()


def test_an_action_that_is_not_played_earns_nothing_even_where_its_weight_is_infinite():
    log = piwo.Log.from_arrays(
        action=[0, 1], reward=[1, 1], log_propensity=[-800.0, math.log(0.5)], actions=range(2)
    )
    both = tuple(piwo.policies.Constant(a, range(2)) for a in range(2))
    credit = reduce(log, CreditSums(both, (piwo.IW(), piwo.IX(0.5)))).credit
    assert credit.tolist() == [[math.inf, 2.0], [2.0, 1.0]]
