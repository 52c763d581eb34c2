"""Coverage: exact in bandits, bounded from logs; by hand, by naive loops, and how often the
bounds hold."""

import math

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.errors import UsageError
from piwo.evaluation.coverage import CoverageSums
from piwo.simulate import ClassificationBandit, adversarial_bandits

DELTA, LOGS = 0.1, 1500


def test_bandit_by_hand():
    rare = next(
        x for x in adversarial_bandits() if x.name == "rare action"
    )  # mu = .001, pi = 1, r = .9
    found = rare.coverages(gamma=0.009)
    assert found.coverage == pytest.approx(0.9 / 0.01)
    assert found.reward_free == pytest.approx(1 / 0.01)
    assert (found.missing_value, found.missing_mass) == (0.0, 0.0)
    assert rare.coverages().reward_free == pytest.approx(1000)
    missing = next(
        x for x in adversarial_bandits() if x.name == "missing support"
    )  # pi = .5 where mu = 0, r = .95
    assert missing.coverage() == math.inf
    assert missing.coverages(gamma=0.1).missing_value == pytest.approx(0.475)
    assert missing.coverages(gamma=0.1).missing_mass == pytest.approx(0.5)
    greedy = piwo.policies.Constant(1, rare.actions)  # mu = .999, r = .1
    assert rare.coverage(greedy, 0.001) == pytest.approx(0.1)
    with pytest.raises(UsageError, match="gamma is -1"):
        rare.coverage(gamma=-1)


def test_classification_bandit_is_the_naive_loop():
    rng = np.random.default_rng(0)
    bandit = ClassificationBandit(
        rng.normal(size=(40, 2)), rng.integers(0, 3, 40), rewards=rng.random((3, 3))
    )
    behavior, policy = bandit.softmax_logger(2.0), bandit.softmax_logger(-1.0)
    pi, mu = policy.probabilities(bandit.context), behavior.probabilities(bandit.context)
    naive = sum(
        pi[i, a] * bandit.rewards[a, bandit.classes[i]] / (mu[i, a] + 0.1)
        for i in range(40)
        for a in range(3)
    )
    found = bandit.coverages(policy, behavior, 0.1)
    assert found.coverage == pytest.approx(naive / 40)
    assert found.reward_free == pytest.approx((pi / (mu + 0.1)).sum() / 40)
    # the bias of IX is gamma C_gamma, exactly
    rewards = bandit.rewards[:, bandit.classes].T
    smoothed = (mu * pi * rewards / (mu + 0.1)).sum() / 40
    assert smoothed == pytest.approx(bandit.value(policy) - 0.1 * found.coverage)


def test_log_by_hand():
    log = piwo.Log.from_arrays(
        action=["a", "b", "a"],
        reward=[1, 0.5, 0.2],
        propensity=[0.5, 0.25, 0.1],
        actions=["a", "b"],
    )
    found = piwo.evaluation.coverage(log, [0.4, 0.6, 0.5], gamma=0.1)
    shown = 0.4 / (0.5 * 0.6) + 0.6 * 0.5 / (0.25 * 0.35) + 0.5 * 0.2 / (0.1 * 0.2)
    assert found.coverage == pytest.approx(shown / 3)
    free = 0.4 / 0.6 + 0.6 / 0.35 + 0.5 / 0.2
    assert found.reward_free == pytest.approx((1 - free / 3) / 0.1)
    assert not found.full
    hidden = np.array(
        [0.4 / 0.6, 0.6 / 0.35 + 0.06 * 0.5 / (0.25 * 0.35), 0.5 / 0.2 + 0.05 * 0.8 / (0.1 * 0.2)]
    )
    by_hand = (1 - bounds.lcb_mean(hidden, 0.05)) / 0.1
    assert found.coverage_upper == pytest.approx(by_hand)


def test_full_propensities_are_used_and_narrow_the_bound():
    rng = np.random.default_rng(1)
    bandit = ClassificationBandit(rng.normal(size=(3000, 2)), rng.integers(0, 3, 3000))
    behavior = bandit.softmax_logger(3.0)
    policy, known = piwo.policies.Uniform(bandit.actions), []
    for full in (False, True):
        log = bandit.log(behavior, random_state=3, full_propensities=full)
        known.append(piwo.evaluation.coverage(log, policy, gamma=0.05))
    truth = bandit.coverages(policy, behavior, 0.05)
    plain, full = known
    assert (plain.full, full.full) == (False, True)
    assert full.reward_free == pytest.approx(
        truth.reward_free
    )  # every row once: no contexts were drawn
    assert truth.reward_free <= full.reward_free_upper < plain.reward_free_upper
    assert truth.coverage <= full.coverage_upper < plain.coverage_upper
    assert full.coverage_lower <= truth.coverage


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("bandit", adversarial_bandits(), ids=lambda x: x.name)
def test_bounds_hold(bandit, full):
    n, gamma = 400, 0.02
    kinds = bandit.cells
    log = (
        piwo.Log.from_arrays(
            action=kinds.action,
            reward=kinds.reward,
            log_propensity=None if full else kinds.log_propensity,
            propensities=np.tile(bandit.mu / bandit.mu.sum(), (len(kinds.action), 1))
            if full
            else None,
            actions=bandit.actions,
        )
        if not (full and bandit.mu.min() < 1e-200 and bandit.name == "underflowing propensity")
        else None
    )
    if log is None:
        pytest.skip("its propensity vectors hold 0 at logged actions")
    reduction = CoverageSums(bandit.policy, gamma, full)
    batch = next(log.each_batch(propensities=full))
    states = [
        reduction.update(reduction.empty(), batch.take(np.array([i]))) for i in range(len(batch))
    ]
    counts = bandit.counts(n, LOGS, random_state=2)
    share, truth = bounds.log_inv_delta(DELTA), bandit.coverages(gamma=gamma)
    rate = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / LOGS)
    free, hidden, shown = (
        bounds.lower_many(counts @ np.stack([getattr(x, what) for x in states]), n, share) / gamma
        for what in ("free_bets", "hidden_bets", "shown_bets")
    )
    assert np.mean(1 / gamma - free < truth.reward_free) <= rate
    assert np.mean(1 / gamma - hidden < truth.coverage) <= rate
    assert np.mean(shown > truth.coverage) <= rate
    # the bound on C_gamma is never above that on its reward-free form
    assert np.all(hidden >= free - 1e-12)


def test_tiny_propensities_and_refusals():
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 50,
        reward=[1, 0] * 50,
        log_propensity=[-800.0, -0.1] * 50,
        actions=["a", "b"],
    )
    found = piwo.evaluation.coverage(log, piwo.policies.Uniform(log.actions), gamma=0.1)
    assert (found.coverage_lower, found.reward_free_upper) == (None, None)
    assert "propensities are too small" in found.notes[0]
    with pytest.raises(UsageError, match="gamma is 0"):
        piwo.evaluation.coverage(log, piwo.policies.Uniform(log.actions), gamma=0)
