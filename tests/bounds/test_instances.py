"""Value, improvement, missing mass and the propensity test: what the mixture bound is used for."""

import math

import numpy as np
import pytest

from piwo import bounds
from piwo.errors import UsageError
from piwo.reductions.bets import BETS, bet_sums

LOG20 = math.log(20.0)
N = 400
W = np.tile([2.0, 0.0, 1.25, 0.75], N // 4)
R = np.tile([1.0, 1.0, 0.25, 0.0, 1.0], N // 5)


def test_value_lower_is_the_mixture_of_weighted_rewards():
    sums = bet_sums(W * R)
    assert bounds.value_lower(sums, N, LOG20) == bounds.lower(sums, N, LOG20)
    assert bounds.value_lower(sums, N, LOG20, horizon=10**6) == bounds.lower(
        sums, N, LOG20, horizon=10**6
    )


def test_value_upper_by_hand():
    # one bet, lambda = 32, would give 1 - (33/20^(1/n) - 1)/32 if every loss weight were 1
    sums = bet_sums(np.ones(1000))
    one_bet = 1 - (33 * 20 ** (-1 / 1000) - 1) / 32
    grid = bounds.grid_size(1000, LOG20)
    paid = 1 - (33 * (20 * grid) ** (-1 / 1000) - 1) / 32
    assert one_bet < bounds.value_upper(sums, 1000, LOG20) < paid < 0.01


def test_value_interval_gives_half_of_delta_to_each_side():
    rewards, losses = bet_sums(W * R), bet_sums(W * (1 - R))
    interval = bounds.value_interval(rewards, losses, N, LOG20)
    assert interval.lower == bounds.value_lower(rewards, N, LOG20 + math.log(2))
    assert interval.upper == bounds.value_upper(losses, N, LOG20 + math.log(2))
    assert interval.lower < (W * R).mean() < interval.upper
    assert interval.guarantee == "finite-sample"


def test_mirror():
    """A policy's losses are the rewards of the opposite question."""
    rewards, losses = bet_sums(W * R), bet_sums(W * (1 - R))
    there, back = (
        bounds.value_interval(a, b, N, LOG20) for a, b in [(rewards, losses), (losses, rewards)]
    )
    assert (back.lower, back.upper) == pytest.approx((1 - there.upper, 1 - there.lower), abs=1e-15)


def test_rewards_without_a_ceiling_have_no_upper_end():
    interval = bounds.value_interval(bet_sums(50 * W), None, N, LOG20)
    assert interval.upper is None
    assert interval.lower == bounds.value_lower(bet_sums(50 * W), N, LOG20) > 1.0


def test_no_rows_say_nothing():
    interval = bounds.value_interval(np.zeros(48), np.zeros(48), 0, LOG20)
    assert (interval.lower, interval.upper) == (0.0, 1.0)
    assert interval.says_nothing_below()
    assert interval.says_nothing_above()
    assert bounds.improvement_lower(np.zeros(48), 0, LOG20) == -1.0
    assert bounds.missing_mass_upper(np.zeros(48), 0, LOG20) == 1.0
    assert bounds.propensity_e_test(np.zeros(48), 0).p_value == pytest.approx(1.0)


def test_improvement_is_the_mixture_less_one():
    sums = bet_sums(W * R + 1 - R)
    prior = bounds.improvement_bets(N, LOG20)
    assert bounds.improvement_lower(sums, N, LOG20) == bounds.lower(sums, N, LOG20, prior=prior) - 1
    assert bounds.improvement_lower(sums, N, LOG20, horizon=N) == bounds.lower(sums, N, LOG20) - 1


def test_an_improvement_is_at_most_one_less_the_bound_on_its_mirror_image():
    # rewards 0 and 1: the naive twin, from Z = w (1 - R) + R row by row
    logged = np.tile([1.0, 0.0, 0.0, 1.0, 0.0], N // 5)
    gains, weights = bet_sums(W * logged + 1 - logged), bet_sums(W)
    mirror = bet_sums(W * (1 - logged) + logged)
    prior = bounds.improvement_bets(N, LOG20)
    found = bounds.improvement_upper(gains, weights, N, LOG20)
    assert found == pytest.approx(1 - bounds.lower(mirror, N, LOG20, prior=prior), abs=1e-12)
    found = bounds.improvement_upper(gains, weights, N, LOG20, horizon=10**5)
    twin = 1 - bounds.lower(mirror, N, LOG20, horizon=10**5)
    assert found == pytest.approx(twin, abs=1e-12)
    # other rewards: the sums that are used are smaller, or the same if w is 1
    mirror = bet_sums(W * (1 - R) + R)
    found = bounds.improvement_upper(bet_sums(W * R + 1 - R), weights, N, LOG20)
    assert found > 1 - bounds.lower(mirror, N, LOG20, prior=prior) + 1e-6
    # w = 1, so that Y = Z = 1, whatever the reward
    ones = bet_sums(np.ones(N))
    at_least = bounds.improvement_lower(ones, N, LOG20)
    assert bounds.improvement_upper(ones, ones, N, LOG20) == pytest.approx(-at_least, abs=1e-12)


def test_an_upper_bound_on_an_improvement_by_hand():
    # n = 1, w = 2, R = 0: Y = 1, Z = 2. mean_j p_j (1 + 2 l_j)/(1 + l_j v) = 1/delta = 2 with the
    # bets 32, 16, ... for one row
    bets = 2.0 ** (5.0 - np.arange(48))
    prior = bounds.improvement_bets(1, math.log(2))
    found = bounds.improvement_upper(np.log1p(bets), np.log1p(2 * bets), 1, math.log(2))
    bets = bets[: len(prior)]
    wealth = prior @ ((1 + 2 * bets) / (1 + bets * (1 - found)))
    assert wealth == pytest.approx(2.0, rel=1e-9)


def test_what_the_logger_earns_at_least_from_the_sum_of_its_rewards():
    # n = 1, R = 1: mean_j (1 + l_j)/(1 + l_j v) = 1/delta = 2 with the m bets for 16 rows
    bets = 2.0 ** (5.0 - np.arange(bounds.grid_size(16, math.log(2))))
    at = bounds.logged_value_lower(1.0, 1, math.log(2), horizon=16)
    assert np.mean((1 + bets) / (1 + bets * at)) == pytest.approx(2.0, rel=1e-9)
    # the naive twin, row by row, where rewards are 0 or 1
    logged = np.tile([1.0, 0.0, 0.0, 1.0, 0.0], 80)
    found = bounds.logged_value_lower(logged.sum(), 400, LOG20)
    assert found == pytest.approx(bounds.lower(bet_sums(logged), 400, LOG20), abs=1e-12)
    # rewards between 0 and 1 pay for what their sum does not say
    assert bounds.lower(bet_sums(np.full(400, 0.4)), 400, LOG20) > found
    with pytest.raises(UsageError, match="earned is 500, expected at most 400"):
        bounds.logged_value_lower(500.0, 400, LOG20)


def test_bets_on_an_improvement_by_hand():
    """n = 512, log(1/delta) = 4: lambda° = sqrt(8/512) = 1/8, the ninth of 32, 16, ...; m =
    log2(32 * 128) + 1 = 13."""
    octaves = np.arange(13.0) - 8
    weights = np.where(np.abs(octaves) <= 2, 1.0, 0.5 ** (np.abs(octaves) - 2))
    assert bounds.improvement_bets(512, 4.0) == pytest.approx(weights / weights.sum(), rel=1e-12)
    for n, log_inv in ((0, 3.0), (1, 3.0), (7, 800.0), (10**9, 1e-3)):
        assert bounds.improvement_bets(n, log_inv).sum() == pytest.approx(1.0)


def test_weighted_bets_prove_more_where_a_policy_plays_one_action_of_ten():
    """Rewards of 0 and 1, uniform logger: what equal weights cannot certify, these can; and
    truly."""
    rng, better, misses = np.random.default_rng(5), 0, 0
    n, chance = 1000, np.where(np.arange(10) == 0, 0.33, 0.2)
    truth = 0.33 - chance.mean()
    for _ in range(200):
        action = rng.integers(0, 10, n)
        rewards = (rng.random(n) < chance[action]) * 1.0
        sums = bet_sums(np.where(action == 0, 10.0, 0.0) * rewards + 1 - rewards)
        bound = bounds.improvement_lower(sums, n, LOG20)
        misses += bound > truth
        better += bound > bounds.lower(sums, n, LOG20) - 1
    assert better > 150
    assert misses <= 10


def test_improvement_beats_the_difference_of_two_bounds():
    """Both values are measured on the same rows; treating them as strangers loses the
    certificate."""
    rng = np.random.default_rng(3)
    n, share = 3000, bounds.log_inv_delta(0.05, statements=2)
    # arms earn .3 and .7 and are logged evenly; the policy takes the better one: improvement .2
    good = rng.random(n) < 0.5
    rewards = (rng.random(n) < np.where(good, 0.7, 0.3)).astype(float)
    weights = np.where(good, 2.0, 0.0)
    paired = bounds.improvement_lower(bet_sums(weights * rewards + 1 - rewards), n, LOG20)
    naive = bounds.value_lower(bet_sums(weights * rewards), n, share) - bounds.value_upper(
        bet_sums(1 - rewards), n, share
    )
    assert 0.2 > paired > naive


def test_logging_policy_does_not_improve_on_itself():
    rewards = np.tile([1.0, 0.0, 0.5], 300)
    bound = bounds.improvement_lower(bet_sums(np.ones(900)), 900, LOG20)
    assert -0.02 < bound < 0.0
    assert bounds.improvement_lower(bet_sums(rewards + 1 - rewards), 900, LOG20) == bound


def test_missing_mass_finds_the_half_that_was_never_logged():
    """Case D16 in the large: the policy spends half of its probability where the log
    has nothing.
    """
    weights = np.tile([0.4, 0.4, 0.6, 0.6], 2500)
    bound = bounds.missing_mass_upper(bet_sums(weights), 10_000, LOG20)
    assert 0.5 < bound < 0.53
    assert bound == 1 - bounds.lower(bet_sums(weights), 10_000, LOG20)


def test_propensities_that_are_too_small_are_found():
    """Case D12: an arm that was shown nine times in ten is logged with propensity one half."""
    weights = np.repeat([2.0, 0.0], [900, 100])
    test = bounds.propensity_e_test(bet_sums(weights), 1000)
    assert test.log_e_value > 100
    assert test.p_value == pytest.approx(math.exp(-test.log_e_value))
    by_hand = np.logaddexp.reduce(900 * np.log1p(2 * BETS) - 1000 * np.log1p(BETS)) - math.log(48)
    assert test.log_e_value == pytest.approx(by_hand)


def test_right_or_too_large_propensities_raise_no_alarm():
    assert bounds.propensity_e_test(bet_sums(np.tile([2.0, 0.0], 500)), 1000).p_value == 1.0
    assert bounds.propensity_e_test(bet_sums(np.full(1000, 0.5)), 1000).p_value == 1.0
    # an e-value beyond floating point is a p-value of 0, not an error
    assert bounds.propensity_e_test(bet_sums(np.full(10**5, 50.0)), 10**5).p_value == 0.0
