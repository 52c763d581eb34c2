"""Coverage-scaled PIWO-IX: the corrected formula, its regret, and what it says where nothing is
known."""

import math

import numpy as np
import pytest

import piwo
from piwo.learners import CoverageScaled
from piwo.policies.sameness import same_policy


def constants(bandit):
    return [piwo.policies.Constant(a, bandit.actions) for a in bandit.actions]


def naive(bandit, counts, delta=0.05, paid=1.0):
    """V_gamma(a) - log(2|Pi|/delta)/(2 gamma n), gamma = sqrt(log(2|Pi|/delta)/(2 C n)), action by
    action.

    paid: the share of the penalty that is taken off.
    """
    n, cells = counts.sum(), bandit.cells
    L = math.log(2 * len(bandit.pi) / delta)
    values = []
    for a, (mu, r) in enumerate(zip(bandit.mu, bandit.chance, strict=True)):
        gamma = math.sqrt(L / (2 * (bandit.high * r / mu) * n))
        own = cells.action == a
        values.append(
            (counts[own] * cells.reward[own]).sum() / (mu + gamma) / n - paid * L / (2 * gamma * n)
        )
    return np.array(values)


@pytest.mark.parametrize("name", ["rare action", "clicks", "on-policy", "thirty rare arms"])
def test_the_naive_twin_finds_the_same(name):
    bandit = next(x for x in piwo.simulate.adversarial_bandits() if x.name == name)
    counts = bandit.counts(3000, 1, 0)[0]
    log = bandit.log_of(np.repeat(np.arange(len(counts)), counts))
    each = constants(bandit)
    known = [bandit.coverage(policy) for policy in each]
    learner = CoverageScaled(piwo.oracles.Exhaustive(each), known).fit(log)
    values = naive(bandit, counts)
    assert learner.values_ == pytest.approx(values, rel=1e-9)
    assert same_policy(learner.policy_, each[int(values.argmax())])
    assert learner.certificate_.kind == "in-sample"
    assert learner.certificate_.parameter == pytest.approx(learner.gammas_[values.argmax()])
    by_position = CoverageScaled(piwo.oracles.Exhaustive(each), dict(enumerate(known))).fit(log)
    assert (by_position.values_ == learner.values_).all()


def test_bounds_and_regret_hold():
    """400 logs of each bandit: some V(pi) is above v(pi) in at most delta/2, no regret above 2
    sqrt(2 C L/n).

    V(pi) that pays a tenth of its penalty would be above v(pi) too often.
    """
    rng, runs, n, boasts, tried = np.random.default_rng(0), 400, 2000, 0, 0
    for bandit in piwo.simulate.adversarial_bandits():
        if not (bandit.mu > 0).all():
            continue  # the twin divides by mu
        each, wrong = constants(bandit), 0
        values = bandit.high * np.asarray(bandit.chance)
        coverage = [bandit.coverage(policy) for policy in each]
        bound = [piwo.bounds.regret_bound_tuned(n, c, math.log(len(each)), 0.05) for c in coverage]
        for counts in bandit.counts(n, runs, rng):
            lower = naive(bandit, counts)
            wrong += (lower > values).any()
            boasts += (naive(bandit, counts, paid=0.1) > values).any()
            assert (values - values[lower.argmax()] <= bound).all()
        assert wrong <= 0.025 * runs, bandit.name
        tried += runs
    assert boasts > 0.025 * tried


def test_tuned_regret_by_hand():
    # 2 sqrt(2 * .5 * log(2 * 5/.05)/1000) = 2 sqrt(.0052983) = .14558
    assert piwo.bounds.regret_bound_tuned(1000, 0.5, math.log(5), 0.05) == pytest.approx(
        0.145579, abs=1e-6
    )
    assert piwo.bounds.regret_bound_tuned(1000, math.inf, 1.0, 0.05) == 1.0
    grid = piwo.bounds.gamma_grid_ix(10**6, math.log(5), 0.05)
    tuned = piwo.bounds.regret_bound_tuned(10**6, 0.5, math.log(5), 0.05)
    assert tuned < piwo.bounds.regret_bound_grid(grid, 0.5) < 1.5 * tuned


def test_policies_without_coverage_or_without_reward():
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 500, reward=[0, 0] * 500, propensity=[0.5] * 1000, actions=list("abc")
    )
    each = [piwo.policies.Constant(a, log.actions) for a in "abc"]
    learner = CoverageScaled(piwo.oracles.Exhaustive(each), [0.5, 0.0, math.inf]).fit(log)
    assert learner.values_[2] == -math.inf
    assert learner.values_[0] < learner.values_[1] == 0.0
    assert same_policy(learner.policy_, each[1])
    assert learner.certificate_.value_lower == 0.0


@pytest.mark.parametrize(
    ("coverage", "said"),
    [
        ([1.0], r"expected 2 numbers of at least 0"),
        ([1.0, -1.0], "least value -1"),
        ([1.0, math.nan], "expected 2 numbers"),
        ({0: 1.0}, "lacks policy 1"),
        ("ab", "expected 2 numbers"),
        ([math.inf, math.inf], "covers none"),
    ],
)
def test_refuses(coverage, said):
    log = piwo.Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    both = piwo.oracles.Exhaustive([piwo.policies.Constant(x, log.actions) for x in log.actions])
    with pytest.raises(piwo.UsageError, match=said):
        CoverageScaled(both, coverage).fit(log)


def test_coverage_of_labeled_data_by_hand():
    # three rows; M = identity; the logger plays the right action with probability .5, .25 and 1
    bandit = piwo.simulate.ClassificationBandit([[0.0], [1.0], [2.0]], ["a", "b", "a"])
    logger = piwo.policies.Tabular(
        [[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]], bandit.actions, [[0.0], [1.0], [2.0]]
    )
    right = piwo.policies.Tabular(
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], bandit.actions, [[0.0], [1.0], [2.0]]
    )
    assert bandit.coverage(right, logger) == pytest.approx((2 + 4 + 1) / 3)
    assert bandit.coverage(right, logger, gamma=0.25) == pytest.approx(
        (1 / 0.75 + 1 / 0.5 + 1 / 1.25) / 3
    )
    always = piwo.policies.Constant("b", bandit.actions)
    assert bandit.coverage(always, logger) == pytest.approx(
        4 / 3
    )  # 0 where it earns nothing, support or not
    never = piwo.policies.Constant("a", bandit.actions)
    assert bandit.coverage(right, never) == math.inf
    missing = next(x for x in piwo.simulate.adversarial_bandits() if x.name == "missing support")
    assert missing.coverage() == math.inf
    assert missing.coverage(gamma=0.1) == pytest.approx(0.5 * 0.95 / 0.1 + 0.5 * 0.3 / 0.6)
