"""Do the bounds hold as often as they say? Exactly for one binomial, by seeded simulation
elsewhere.

Tolerance of the simulations: at most delta plus three standard errors of the measured rate.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from scipy.special import bdtrc

from piwo import bounds
from piwo.reductions.bets import BETS

pytestmark = pytest.mark.statistics

LOGS = 4000
DELTA = 0.1


def allowed(delta, logs=LOGS):
    return delta + 3 * math.sqrt(delta * (1 - delta) / logs)


# --- bandits


@dataclass(frozen=True)
class Bandit:
    """Contexts x actions with rewards of two values; everything is discrete, so a log is a table of
    counts.

    log_mu: (C, K) log-propensities, -inf where an action is never taken; pi: (C, K); rewards are
    `high` with probability `chance`, else 0, both (C, K); context: (C,) probabilities.
    """

    context: np.ndarray
    log_mu: np.ndarray
    pi: np.ndarray
    high: np.ndarray
    chance: np.ndarray

    @property
    def value(self):
        return float((self.context[:, None] * self.pi * self.high * self.chance).sum())

    @property
    def logging_value(self):
        return float((self.context[:, None] * np.exp(self.log_mu) * self.high * self.chance).sum())

    def coverage(self, gamma):
        """C_gamma(pi)."""
        return float(
            (
                self.context[:, None]
                * self.pi
                * self.high
                * self.chance
                / (np.exp(self.log_mu) + gamma)
            ).sum()
        )

    def cells(self):
        """What a row can be: probability, log mu, pi, reward; (2CK,) each."""
        taken = self.context[:, None] * np.exp(self.log_mu)
        probability = np.stack([taken * self.chance, taken * (1 - self.chance)])
        rewards = np.stack([self.high, np.zeros_like(self.high)])
        log_mu, pi = (np.broadcast_to(column, rewards.shape) for column in (self.log_mu, self.pi))
        return probability.ravel(), log_mu.ravel(), pi.ravel(), rewards.ravel()

    def logs(self, n, seed):
        """(LOGS, cells) counts of many logs of n rows, and the cells."""
        probability, *cells = self.cells()
        seen = probability > 0
        shares = probability[seen] / probability[seen].sum()
        counts = np.random.default_rng(seed).multinomial(n, shares, size=LOGS).astype(float)
        return counts, *(column[seen] for column in cells)


def one_context(mu, pi, chance, high=1.0):
    mu, pi, chance = (np.atleast_2d(np.asarray(x, float)) for x in (mu, pi, chance))
    with np.errstate(divide="ignore"):
        log_mu = np.log(mu)
    return Bandit(np.ones(1), log_mu, pi, np.full(mu.shape, high), chance)


def rare_action(n):
    """The policy always does what was logged three times in n rows."""
    return one_context([3 / n, 1 - 3 / n], [1, 0], [0.9, 0.1])


def underflowing_propensity(n):
    """Propensities of 1e-300, of exp(-800) which is no float64, and of one half."""
    chance = np.array([[0.9, 0.9, 0.4, 0.5]])
    log_mu = np.array([[-300 * math.log(10), -800.0, math.log(0.5), math.log(0.5)]])
    return Bandit(np.ones(1), log_mu, np.array([[0.2, 0.2, 0.5, 0.1]]), np.ones((1, 4)), chance)


def clicks(n):
    """One row in ten is the policy's, one in a hundred of these is clicked."""
    return one_context([0.1, 0.9], [1, 0], [0.01, 0.02])


def on_policy(n):
    mu = np.array([0.6, 0.3, 0.09, 0.01])
    return one_context(mu, mu, [0.5, 0.2, 0.9, 0.99])


def missing_support(n):
    """Half of what the policy does was never logged, and it is the better half."""
    return one_context([0.0, 0.5, 0.5], [0.5, 0.5, 0.0], [0.95, 0.3, 0.6])


def ladder(n):
    """Eighteen contexts; in each the policy's action was logged half as often as in the one
    before."""
    mu = 2.0 ** -np.arange(1, 19)[:, None] * np.array([1.0, 0.0]) + np.array([0.0, 1.0])
    mu[:, 1] -= mu[:, 0]
    pi = np.tile([0.9, 0.1], (18, 1))
    return Bandit(
        np.full(18, 1 / 18), np.log(mu), pi, np.ones((18, 2)), np.tile([0.8, 0.2], (18, 1))
    )


def small_rewards(n):
    """A stochastic policy close to the logging policy, and rewards of 0 or .05."""
    return one_context([0.7, 0.28, 0.02], [0.6, 0.3, 0.1], [0.5, 0.9, 0.6], high=0.05)


BANDITS = [
    rare_action,
    underflowing_propensity,
    clicks,
    on_policy,
    missing_support,
    ladder,
    small_rewards,
]
everywhere = pytest.mark.parametrize("n", [100, 2000])
every_bandit = pytest.mark.parametrize("make", BANDITS, ids=lambda make: make.__name__)


# --- estimates of many logs at once


def many_bet_sums(counts, log_y):
    """(LOGS, 48) bet sums, from logarithms of Y so that nothing over- or underflows."""
    return counts @ np.logaddexp(0.0, log_y[:, None] + np.log(BETS))


def log_of(*factors):
    with np.errstate(divide="ignore"):
        return sum(np.log(factor) for factor in factors)


def mixture_interval(counts, log_mu, pi, rewards, n, penalty):
    """Per log, as `value_interval` does it for one."""
    share = penalty + math.log(2)
    wins = bounds.lower_many(many_bet_sums(counts, log_of(pi, rewards) - log_mu), n, share)
    fails = bounds.lower_many(many_bet_sums(counts, log_of(pi, 1 - rewards) - log_mu), n, share)
    return wins, 1 - fails


def ix_scores(counts, log_mu, pi, rewards, n, gamma):
    return counts @ (pi * rewards / (np.exp(log_mu) + gamma)) / n


def ls_scores(counts, log_mu, pi, rewards, n, bet):
    return counts @ np.logaddexp(0.0, log_of(pi, rewards) - log_mu + math.log(bet)) / (bet * n)


def score_intervals(scores, counts, log_mu, pi, rewards, n, settings, penalty, interval):
    wins = np.stack([scores(counts, log_mu, pi, rewards, n, s) for s in settings])
    fails = np.stack([scores(counts, log_mu, pi, 1 - rewards, n, s) for s in settings])
    intervals = [
        interval(list(win), list(fail), settings, n, penalty)
        for win, fail in zip(wins.T, fails.T, strict=True)
    ]
    return np.array([i.lower for i in intervals]), np.array([i.upper for i in intervals])


# --- simulations


@everywhere
@every_bandit
def test_mixture_interval_and_its_relatives(make, n):
    bandit, penalty = make(n), bounds.log_inv_delta(DELTA)
    counts, log_mu, pi, rewards = bandit.logs(n, seed=n)
    low, high = mixture_interval(counts, log_mu, pi, rewards, n, penalty)
    assert np.mean((low > bandit.value) | (bandit.value > high)) <= allowed(DELTA)
    assert np.all(low >= 0.0)
    assert np.all(high <= 1.0)

    log_gain = np.logaddexp(log_of(pi, rewards) - log_mu, log_of(1 - rewards))
    gain = bounds.lower_many(many_bet_sums(counts, log_gain), n, penalty) - 1
    assert np.mean(gain > bandit.value - bandit.logging_value) <= allowed(DELTA)

    weights = many_bet_sums(counts, log_of(pi) - log_mu)
    mass = float((bandit.context[:, None] * bandit.pi)[np.isneginf(bandit.log_mu)].sum())
    assert np.mean(1 - bounds.lower_many(weights, n, penalty) < mass) <= allowed(DELTA)
    alarms = [bounds.propensity_e_test(sums, n).p_value <= DELTA for sums in weights[:500]]
    assert np.mean(alarms) <= allowed(DELTA, 500)


@everywhere
@every_bandit
def test_ix_interval(make, n):
    bandit, penalty = make(n), bounds.log_inv_delta(DELTA)
    counts, log_mu, pi, rewards = bandit.logs(n, seed=n + 1)
    best = math.sqrt((penalty + math.log(2)) / n)
    for gammas in ([best], [best / 4], [4 * best], [best / 4, best, 4 * best]):
        low, high = score_intervals(
            ix_scores, counts, log_mu, pi, rewards, n, gammas, penalty, bounds.ix_interval
        )
        assert np.mean((low > bandit.value) | (bandit.value > high)) <= allowed(DELTA)


@everywhere
@every_bandit
def test_ix_estimate_is_not_far_below_the_value(make, n):
    bandit, penalty = make(n), bounds.log_inv_delta(DELTA)
    counts, log_mu, pi, rewards = bandit.logs(n, seed=n + 2)
    for gamma in (
        0.25 * math.sqrt(penalty / n),
        math.sqrt(penalty / n),
        4 * math.sqrt(penalty / n),
    ):
        below = bandit.value - ix_scores(counts, log_mu, pi, rewards, n, gamma)
        for deviation in (bounds.ix_upper_deviation, bounds.ix_upper_deviation_sqrt):
            assert np.mean(below > deviation(bandit.coverage(gamma), n, gamma, penalty)) <= allowed(
                DELTA
            )


@everywhere
@every_bandit
def test_ls_interval(make, n):
    bandit, penalty = make(n), bounds.log_inv_delta(DELTA)
    counts, log_mu, pi, rewards = bandit.logs(n, seed=n + 3)
    best = 2 * math.sqrt((penalty + math.log(2)) / n)
    for lambdas in ([best], [best / 4], [4 * best], [best / 4, best, 4 * best]):
        low, high = score_intervals(
            ls_scores, counts, log_mu, pi, rewards, n, lambdas, penalty, bounds.ls_interval
        )
        assert np.mean((low > bandit.value) | (bandit.value > high)) <= allowed(DELTA)


def test_universal_grid_may_be_looked_at_all_the_time():
    """A bound that was above the mean at any of many looks counts as one violation of the whole
    log."""
    rng, delta, rows, logs = np.random.default_rng(7), 0.1, 3000, 1000
    looks = np.unique(np.geomspace(1, rows, 40).astype(int))
    for chance, weight in ((0.05, 20.0), (0.5, 2.0), (0.004, 250.0)):
        # one in 1/chance rows has Y = weight, so the mean is 1
        hits = np.zeros(logs, dtype=int)
        ever = np.zeros(logs, dtype=bool)
        for before, look in zip(np.r_[0, looks[:-1]], looks, strict=True):
            hits += rng.binomial(look - before, chance, size=logs)
            sums = hits[:, None] * np.log1p(BETS * weight)
            ever |= bounds.lower_many(sums, int(look), -math.log(delta), horizon="universal") > 1.0
        assert ever.mean() <= allowed(delta, logs)
        assert ever.any()


# --- exact: one action, rewards of one value

EXACT_N, EXACT_DELTA = 400, 0.05
PENALTY = bounds.log_inv_delta(EXACT_DELTA)
UNIT_BET = 2 * math.sqrt(PENALTY / EXACT_N)


def worst_violation(lower, propensities):
    """Largest probability, over propensities and rewards, that a bound exceeds the value; not
    sampled.

    lower(hits, mu, reward): the bound when the action was logged `hits` times in n rows, always
    with this reward. It rises with the hits, so it fails from some number of hits on, and these are
    a binomial tail.
    """
    worst = 0.0
    for mu in np.geomspace(1e-3 / EXACT_N, 0.95, propensities):
        for reward in (1.0, 0.5, 0.1):
            fails = partial(_exceeds, lower, mu, reward)
            first = bisect_left(range(EXACT_N + 1), True, key=fails)
            worst = max(worst, 1.0 if first == 0 else float(bdtrc(first - 1, EXACT_N, mu)))
    return worst


def _exceeds(lower, mu, reward, hits):
    return lower(hits, mu, reward) > reward


def scan(score, penalty=PENALTY):
    """Worst violation of the fixed-bet bound on score(mu, reward, bet), over four bets."""

    def worst(bet):
        def lower(hits, mu, reward):
            return bounds.score_lower(
                hits * score(mu, reward, bet) / EXACT_N, EXACT_N, bet, penalty
            )

        return worst_violation(lower, propensities=400)

    return max(worst(bet) for bet in (1 / EXACT_N, UNIT_BET / 4, UNIT_BET, 4 * UNIT_BET))


def ls_score(mu, reward, bet):
    return math.log1p(bet * reward / mu) / bet


def test_exact_ls():
    """By hand: one hit is too much up to n mu = n lambda delta exp(-n lambda), at most delta/e,
    at 1/n."""
    assert scan(ls_score) == pytest.approx(EXACT_DELTA / math.e, rel=0.05)


def test_exact_ix():
    assert 0.1 * EXACT_DELTA < scan(lambda mu, reward, bet: reward / (mu + bet / 2)) <= EXACT_DELTA


def mixture_scan(penalty):
    size = bounds.grid_size(EXACT_N, PENALTY)

    def lower(hits, mu, reward):
        return bounds.lower(
            hits * np.log1p(BETS * reward / mu), EXACT_N, penalty, prior=np.full(size, 1 / size)
        )

    return worst_violation(lower, propensities=60)


def test_exact_mixture():
    assert 0.05 * EXACT_DELTA < mixture_scan(PENALTY) <= EXACT_DELTA


# --- what is wrong must be seen to be wrong


def test_clipping_with_the_penalty_of_ix_is_caught():
    """max(mu, gamma) in place of mu + gamma is not an admissible score: it needs a larger
    penalty."""
    assert scan(lambda mu, reward, bet: reward / max(mu, bet / 2)) > 5 * EXACT_DELTA


def test_half_the_penalty_is_caught():
    """The scan is sharp enough to notice a constant."""
    assert scan(ls_score, penalty=PENALTY / 2) > EXACT_DELTA


def test_forgetting_to_average_over_the_bets_is_caught():
    """Adding up the wealth of all bets, without the weights 1/m, is no longer a fair game."""
    assert mixture_scan(PENALTY - math.log(bounds.grid_size(EXACT_N, PENALTY)) + 1e-9) > EXACT_DELTA


def test_symmetric_ix_interval_is_caught():
    """V + penalty is no upper end: the estimate is below the value by gamma C_gamma."""
    n, penalty = 2000, bounds.log_inv_delta(DELTA)
    bandit, gamma = rare_action(n), math.sqrt(penalty / n)
    scores = ix_scores(*bandit.logs(n, seed=1), n, gamma)
    assert np.mean(scores + penalty / (2 * gamma * n) < bandit.value) > 0.9


def test_normal_interval_on_clicks_is_caught():
    n = 300
    bandit = clicks(n)
    counts, log_mu, pi, rewards = bandit.logs(n, seed=2)
    y = pi * rewards / np.exp(log_mu)
    means = counts @ y / n
    errors = np.sqrt((counts @ y**2 / n - means**2) / (n - 1))
    intervals = [
        bounds.normal_interval(mean, error, DELTA)
        for mean, error in zip(means, errors, strict=True)
    ]
    missed = np.mean([not i.lower <= bandit.value <= i.upper for i in intervals])
    assert missed > 0.5
    low, high = mixture_interval(counts, log_mu, pi, rewards, n, bounds.log_inv_delta(DELTA))
    assert np.mean((low > bandit.value) | (bandit.value > high)) <= allowed(DELTA)


def test_propensities_that_are_too_small_are_caught():
    """With propensities a fifth too small the bound fails; the e-test sees that, and only that."""
    n, penalty = 3000, bounds.log_inv_delta(DELTA)
    bandit = one_context([0.5, 0.5], [1, 0], [0.9, 0.1])
    counts, log_mu, pi, rewards = bandit.logs(n, seed=3)
    wrong = log_mu + math.log(0.8)
    low = bounds.lower_many(many_bet_sums(counts, log_of(pi, rewards) - wrong), n, penalty)
    assert np.mean(low > bandit.value) > 0.9
    for logged, share in ((wrong, 1.0), (log_mu, 0.0)):
        weights = many_bet_sums(counts[:300], log_of(pi) - logged)
        alarms = np.mean([bounds.propensity_e_test(sums, n).p_value <= 0.01 for sums in weights])
        assert alarms == pytest.approx(share, abs=0.05)


def test_cells_are_the_bandit():
    """The simulator itself: estimates average to what theory says of each bandit."""
    for make in BANDITS:
        bandit, n, gamma = make(2000), 2000, 0.3
        scores = ix_scores(*bandit.logs(n, seed=5), n, gamma)
        error = scores.std() / math.sqrt(LOGS) + 1e-12
        assert abs(scores.mean() - (bandit.value - gamma * bandit.coverage(gamma))) < 4 * error
