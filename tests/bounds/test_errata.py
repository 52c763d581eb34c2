"""The counterexamples of docs/errata.md, worked again."""

import math

import numpy as np
import pytest

import piwo
from piwo.simulate import Bandit


def test_coverage_is_not_smallest_at_the_logger():
    """E2: r = 1 everywhere makes C_0 the reward-free coverage."""
    bandit = Bandit("E2", log_mu=(math.log(0.9), math.log(0.1)), pi=(0.9, 0.1), chance=(1.0, 1.0))
    assert bandit.coverage() == pytest.approx(2.0)
    assert bandit.coverage(piwo.policies.Constant(0, bandit.actions)) == pytest.approx(1 / 0.9)
    # the square does what was meant: sum pi^2/mu is 1 at pi = mu, more elsewhere
    for share in (0.5, 0.8, 0.95, 1.0):
        assert share**2 / 0.9 + (1 - share) ** 2 / 0.1 > 1.0


def test_a_missing_action_biases_importance_weighting_and_not_the_identity_of_ix():
    """E5, E6: E V_gamma = v - gamma C_gamma, support or not."""
    mu, r, pi, gamma = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.1
    value, coverage = float(pi @ r), float((pi * r / (mu + gamma)).sum())
    assert (
        value - gamma * coverage
        == pytest.approx(float((mu * pi * r / (mu + gamma)).sum()), abs=1e-12)
        == 0.0
    )


def test_the_average_coverage_does_not_bound_the_regret_of_adaptive_logs():
    """E14: a coin before the first row decides whether action 1 is ever taken; the bound fails if
    it falls badly."""
    n, delta, runs, rng = 20_000, 0.05, 2000, np.random.default_rng(0)
    gamma = piwo.bounds.gamma_auto(n, math.log(2), delta)
    good, bad = 1 / (0.5 + gamma), 1 / gamma  # C_gamma of "always action 1", r = 1
    averaged = piwo.bounds.regret_bound(n, gamma, 0.9 * good + 0.1 * bad, math.log(2), delta)
    assert averaged == pytest.approx(0.267, abs=5e-4)
    fell_badly = rng.random(runs) < 0.1
    mu = np.where(fell_badly, 0.0, 0.5)
    taken = rng.binomial(n, mu)
    paid = rng.binomial(n - taken, 0.01)
    first, second = taken / (mu + gamma), paid / (1 - mu + gamma)
    regret = np.where(first >= second, 0.0, 0.99)
    assert 0.08 < (regret > averaged).mean() < 0.12  # more than delta
    predictable = [
        piwo.bounds.regret_bound(n, gamma, bad if b else good, math.log(2), delta)
        for b in (False, True)
    ]
    assert (regret <= np.where(fell_badly, predictable[1], predictable[0])).all()


def test_one_tail_alone_bounds_no_regret():
    """E4: V = 0, B = 0 never exceeds a value; its maximizer may lose everything, 2B = 0."""
    values = np.array([0.0, 1.0])
    estimate = penalty = np.zeros(2)
    assert (estimate - penalty <= values).all()
    chosen = int((estimate - penalty).argmax())
    assert values.max() - values[chosen] > 2 * penalty[1]


@pytest.mark.parametrize("power", [0.2, 1 / 3, 0.5, 0.8, 1.0])
def test_clipping_has_no_guarantee_that_falls_faster_than_the_third_root(power):
    """E15: whatever gamma, one of two bandits has a regret above C n^(-1/3)/11 in most logs."""
    n, logs, rng = 10**6, 200, np.random.default_rng(2)
    gamma = n**-power
    # 1. a comparator of reward 1 that is hardly covered, the other action earns 1/2
    mu = gamma / 8
    hits = rng.binomial(n, mu, logs)
    other = rng.binomial(n - hits, 0.5) / max(1 - mu, gamma) / n
    fails = np.mean((hits / gamma / n < other) & (n ** (-1 / 3) / 11 / mu < 0.5))
    # 2. many rare actions of reward 1/2, and the best, which is logged most often
    s = max(gamma, 16 / n)
    rare, gap = math.floor(1 / (2 * s)), 1 / (4 * math.sqrt(n * s))
    flat, best = rng.binomial(n, s / 2, (logs, min(rare, 2000))), 1 - rare * s
    good = rng.binomial(n, best * (0.5 + gap), logs) / best / n
    lost = (flat.max(axis=1) / s / n > good) & (gap > n ** (-1 / 3) / 11 * (0.5 + gap) / best)
    assert max(fails, lost.mean()) > 0.6
