"""Rows for a regret, and the regret after so many rows: by hand, against naive twins, and kept by
PIWO-Grid."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statistics.grid import DELTA, POLICIES, RareBest
from piwo import bounds
from piwo.errors import UsageError

learners = st.sampled_from(list(bounds.PLANS))
targets, coverages = st.floats(0.02, 0.9), st.floats(0.0, 100.0)
sizes, deltas = st.floats(0.0, 1e3), st.floats(1e-6, 0.5)


def test_one_gamma_by_hand():
    # log(2 * 50/.05) = 7.600902;  7.600902 (5/.05)^2 = 76009.02
    assert bounds.rows_for_regret(0.05, 2.0, math.log(50), 0.05, learner="ix") == 76010
    # (2 * 2 + 1) sqrt(7.600902/76010)
    assert bounds.regret_after(76010, 2.0, math.log(50), 0.05, learner="ix") == pytest.approx(
        0.05, abs=1e-6
    )


def test_the_grid_by_hand():
    # at n near 40 000: log(2 * 200/.05) = 8.987197; bets: floor(log2 n) + 6 = 21; L = 8.987197 +
    # 3.044522 = 12.031719. C = 1: the best gamma of the grid is 1/64, where L/(gamma n) + 2 gamma C
    # = .05 asks for n = 64 * 12.031719/(.05 - 2/64) = 41 068.27
    assert bounds.rows_for_regret(0.05, 1.0, math.log(200), 0.05) == 41069
    # with a variance of .19 near n = 8000: floor(log2 8000) + 6 = 18, L = 8.987197 + 2.890372 =
    # 11.877569; lambda = 1/8: 2 L 8/n + .19/8 + 2 * .9 L/n = .05 asks for n = 17.8 * 11.877569/(.05
    # - .02375) = 8054.1
    assert bounds.rows_for_regret_variance(0.05, 0.19, math.log(200), 0.05, value=0.9) == 8055
    # what pi* earns out of sight is lost for good: 17.8 * 11.877569/(.05 - .02375 - .01), m = 13 +
    # 6 again
    rows = bounds.rows_for_regret_variance(0.05, 0.19, math.log(200), 0.05, value=0.9, missing=0.01)
    assert rows == math.ceil(17.8 * (8.987197 + math.log(19)) / 0.01625)


def grid_twin(n, coverage, log_class_size, delta):
    """docs/grid.md, "The algorithm" and Theorem 1 (b), line by line; linear LS."""
    each = math.log(2 / delta) + log_class_size
    mixture = min(48, max(1, math.ceil(math.log2(32 * n / each)) + 1))
    penalty = each + math.log(max(math.floor(math.log2(n)) + 6, mixture))
    found, gamma = [1.0, coverage], 16.0
    while gamma >= penalty / n:
        found.append(penalty / (gamma * n) + 2 * gamma * coverage)
        gamma /= 2
    return min(found)


@pytest.mark.parametrize("coverage", [0.7, 3.0, 20.0])
@pytest.mark.parametrize("target", [0.35, 0.5, 0.65])
def test_the_naive_twin_counts_up_to_the_same_rows(target, coverage):
    log_class_size, delta, first = math.log(30), 0.1, 1
    while grid_twin(first, coverage, log_class_size, delta) > target:
        first += 1
    rows = bounds.rows_for_regret(target, coverage, log_class_size, delta)
    assert grid_twin(rows, coverage, log_class_size, delta) <= target
    # the smallest, but for what the grid pays where it gains a gamma
    assert first <= rows <= 1.01 * first


@given(targets, coverages, sizes, deltas, learners)
def test_rows_are_enough_and_not_too_many(target, coverage, log_class_size, delta, learner):
    def regret(n):
        return bounds.regret_after(n, coverage, log_class_size, delta, learner=learner)

    rows = bounds.rows_for_regret(target, coverage, log_class_size, delta, learner=learner)
    assert regret(rows) <= target
    assert rows == 1 or regret(rows - 1) > target


@given(st.integers(1, 10**9), coverages, sizes, deltas)
def test_each_plan_is_the_theorem_of_its_learner(n, coverage, size, delta):
    gamma = bounds.gamma_auto(n, size, delta)
    assert {name: plan(n, coverage, size, delta) for name, plan in bounds.PLANS.items()} == {
        "grid": bounds.regret_bound_grid(bounds.gamma_grid_ls(n, size, delta), coverage),
        "grid-ix": bounds.regret_bound_grid(bounds.gamma_grid_ix(n, size, delta), coverage),
        "pac-bayes": bounds.regret_bound_pac_bayes_grid(
            bounds.gamma_grid_ls(n, 0.0, delta), coverage, size
        ),
        "ix": bounds.regret_bound(n, gamma, coverage, size, delta),
        "ls": bounds.regret_bound_ls(n, gamma, coverage, size, delta),
    }


def test_a_coverage_that_depends_on_gamma_is_asked_where_each_theorem_asks_for_it():
    def smoothed(gamma):
        return 0.9 / (0.02 + gamma)

    n, size = 10_000, math.log(200)
    gamma = bounds.gamma_auto(n, size, 0.05)
    found = {
        name: bounds.regret_after(n, smoothed, size, 0.05, learner=name) for name in bounds.PLANS
    }
    assert found["ix"] == bounds.regret_bound(n, gamma, smoothed(gamma), size, 0.05)
    assert found["ls"] == bounds.regret_bound_ls(n, gamma, smoothed(2 * gamma), size, 0.05)
    assert (
        found["grid"] < found["grid-ix"] < min(found["ix"], found["ls"])
    )  # .535, .597; one gamma: .951 and more


def test_theorem_by_theorem():
    """Those without a name of their own, at gamma = .1: A1 alone, one comparator, A2."""
    size, asked = math.log(50), {"gamma": 0.1, "coverage": 2.0, "delta": 0.05}
    # .4 of bias leaves .1 of .5: n = penalty/(.1 * .1), penalties 6.907755, 4.951744 and 4 +
    # 2.995732
    plans = {
        691: lambda n: bounds.regret_bound_alone(n, log_class_size=size, **asked),
        496: lambda n: bounds.regret_bound_one_comparator(n, log_class_size=size, **asked),
        700: lambda n: bounds.regret_bound_pac_bayes(n, kl=4.0, **asked),
    }
    assert [bounds.rows_needed(0.5, plan) for plan in plans.values()] == list(plans)


@pytest.mark.parametrize("eps", [0.1, 0.02])
def test_piwo_grid_keeps_what_was_planned(eps):
    """Logs of as many rows as the plan asks for, of the bandit that hurts pessimism: no regret
    above the target."""
    bandit, rng, target = RareBest(eps), np.random.default_rng(11), 0.25
    rows = bounds.rows_for_regret(target, 0.9 / eps, math.log(POLICIES), DELTA)
    best, regrets = bandit.values.max(), {}
    for n in (rows, rows // 100):
        found = (
            bandit.values[bandit.learn(bandit.counts(n, rng), "ls-linear").policy]
            for _ in range(100)
        )
        regrets[n] = np.array([best - value for value in found])
    assert (regrets[rows] <= target).all()
    assert (
        regrets[rows // 100]
        <= bounds.regret_after(rows // 100, 0.9 / eps, math.log(POLICIES), DELTA)
    ).all()
    # no empty promise: with a hundredth of the rows more than a third of these logs do worse
    assert (regrets[rows // 100] > target).mean() > 0.35


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bounds.rows_for_regret(0.0, 1.0, 1.0, 0.05), "target is 0"),
        (lambda: bounds.rows_for_regret(0.1, math.inf, 1.0, 0.05), "2.62 rows are not enough"),
        (lambda: bounds.rows_for_regret(0.1, math.nan, 1.0, 0.05), "coverage is nan"),
        (
            lambda: bounds.rows_for_regret(0.1, 1.0, 1.0, 0.05, learner="best"),
            "learner is 'best', expected one of grid",
        ),
        (lambda: bounds.rows_for_regret(0.1, 1.0, 1.0, 0.05, learner=["grid"]), "learner is"),
        (lambda: bounds.rows_for_regret_variance(0.1, 1.0, 1.0, 0.05, missing=0.1), "not enough"),
        (lambda: bounds.regret_after(0, 1.0, 1.0, 0.05), "n is 0"),
        (lambda: bounds.rows_needed(0.1, 7), "regret is 7, expected a function"),
    ],
)
def test_refuses(call, said):
    with pytest.raises(UsageError, match=said):
        call()
