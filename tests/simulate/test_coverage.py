"""Do the intervals hold as often as they say? Seeded simulation on bandits whose values are known.

A log of these bandits is a table of counts over a few cells, and every sum that an interval is made
of is linear in the counts: the state of one cell is computed once, by the same reduction that
`piwo.evaluate` runs, and thousands of logs are products of counts with these states. On a few logs
the product is compared with `piwo.evaluate` itself.

Tolerance: at most delta plus three standard errors of the measured rate.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.reductions import PolicySums
from piwo.reductions.bets import BETS
from piwo.scores import IW, IX, LS
from piwo.simulate import adversarial_bandits

LOGS, DELTA = 3000, 0.05
PENALTY = bounds.log_inv_delta(DELTA)
BANDITS = {bandit.name: bandit for bandit in adversarial_bandits()}
every_bandit = pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS)
everywhere = pytest.mark.parametrize("n", [200, 3000])


def allowed(logs=LOGS):
    return DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / logs)


def states_of_cells(bandit, score):
    """One `PolicyState` a cell: what a log of one such row would give."""
    reduction = PolicySums(bandit.policy, score)
    batch = next(bandit.log_of(np.arange(len(bandit.cells.chance))).each_batch())
    # squares of weights such as 1e299, which no interval uses, overflow
    with np.errstate(over="ignore"):
        return [
            reduction.update(reduction.empty(), batch.take(np.array([i])))
            for i in range(len(batch))
        ]


def bet_sums(bandit, counts, what):
    """(LOGS, 48) bet sums of many logs."""
    return counts @ np.stack([getattr(state.bets, what) for state in states_of_cells(bandit, IW())])


def mixture(bandit, counts, n):
    share = PENALTY + math.log(2)
    low = bounds.lower_many(bet_sums(bandit, counts, "value"), n, share)
    return low, 1 - bounds.lower_many(bet_sums(bandit, counts, "loss"), n, share)


def fixed_bet(bandit, counts, n, score):
    states = states_of_cells(bandit, score)
    wins = counts @ np.array([x.moments.rho for x in states]) / n
    fails = counts @ np.array([x.moments.loss_rho for x in states]) / n
    found = [
        bounds.score_interval([a], [b], [score.bet], n, PENALTY)
        for a, b in zip(wins, fails, strict=True)
    ]
    return np.array([x.lower for x in found]), np.array([x.upper for x in found])


def improvement(bandit, counts, n):
    return (
        bounds.lower_many(
            bet_sums(bandit, counts, "improvement"),
            n,
            PENALTY,
            prior=bounds.improvement_bets(n, PENALTY),
        )
        - 1
    )


def most_improvement(bandit, counts, n):
    """`bounds.improvement_upper` and `logged_value_lower` of many logs, as `evaluate` joins
    them."""
    penalty = PENALTY + math.log(4)
    gains, weights = (bet_sums(bandit, counts, x) for x in ("improvement", "weight"))
    sums = np.maximum(0.0, weights + n * np.log1p(BETS) - gains)
    prior = bounds.improvement_bets(n, penalty)
    paired = 1 - bounds.lower_many(sums, n, penalty, prior=prior)
    earned = counts @ np.array([x.moments.reward for x in states_of_cells(bandit, IW())])
    logged = bounds.lower_many(earned[:, None] * np.log1p(BETS), n, penalty)
    _, upper = mixture(bandit, counts, n)
    return np.minimum(paired, np.minimum(upper, 1.0) - logged)


def normal(bandit, counts, n):
    w_r = np.array([state.moments.wr for state in states_of_cells(bandit, IW())])
    mean = counts @ w_r / n
    error = np.sqrt((counts @ w_r**2 / n - mean**2) / (n - 1))
    found = [bounds.normal_interval(m, e, DELTA) for m, e in zip(mean, error, strict=True)]
    return np.array([x.lower for x in found]), np.array([x.upper for x in found])


def missed(interval, value):
    low, high = interval
    return np.mean((low > value) | (value > high))


def gamma_of(n):
    return bounds.gamma_auto(n, 0.0, DELTA)


# --- the shortcut is exact


@every_bandit
def test_counted_logs_give_the_numbers_of_evaluate(bandit):
    n = 300
    counts = bandit.counts(n, 3, random_state=11)
    for row, seen in enumerate(counts):
        log = bandit.log_of(np.repeat(np.arange(len(seen)), seen))
        for interval, estimator, counted in (
            ("mixture", "iw", mixture(bandit, counts, n)),
            ("ix", "ix", fixed_bet(bandit, counts, n, IX(gamma_of(n)))),
            ("ls", "ls", fixed_bet(bandit, counts, n, LS(2 * gamma_of(n)))),
        ):
            result = piwo.evaluate(
                log, bandit.policy, estimator=estimator, interval=interval, delta=DELTA
            )
            assert result.guarantee == "finite-sample"
            ends = [float(x[row]) for x in counted]
            np.testing.assert_allclose(
                [result.lower_raw, result.upper_raw], ends, rtol=1e-9, atol=1e-12
            )
        gain = max(-1.0, improvement(bandit, counts, n)[row])
        np.testing.assert_allclose(result.improvement_lower, gain, rtol=1e-9, atol=1e-12)
        plain = piwo.evaluate(log, bandit.policy, interval="mixture", delta=DELTA)
        most = most_improvement(bandit, counts, n)[row]
        np.testing.assert_allclose(plain.improvement_upper, most, rtol=1e-9, atol=1e-12)


# --- finite-sample promises


@pytest.mark.parametrize("binary", [True, False])
def test_a_hurtful_policy_gains_between_the_two_bounds(binary):
    """The logger plays the action that earns .6 with probability .9, the policy the other, .2."""
    rng, logs, n = np.random.default_rng(3), 150, 300
    below = above = refused = 0
    for _ in range(logs):
        action = (rng.random(n) < 0.1) * 1
        mean = np.where(action == 1, 0.2, 0.6)
        reward = (rng.random(n) < mean) * 1.0
        if not binary:
            reward = rng.beta(4 * mean, 4 - 4 * mean)
        log = piwo.Log.from_arrays(
            action=action,
            reward=reward,
            propensity=np.where(action == 1, 0.1, 0.9),
            actions=[0, 1],
            reward_range=(0, 1),
            logger="fixed",
        )
        found = piwo.evaluate(log, piwo.policies.Constant(1, log.actions), delta=0.2)
        if found.no_interval is not None:
            # rows that contradict their propensities, by chance
            refused += 1
            continue
        gain = 0.2 - (0.9 * 0.6 + 0.1 * 0.2)
        below += found.improvement_lower > gain
        above += found.improvement_upper < gain
    # each end is wrong with probability at most .2; three standard errors are .1
    assert max(below, above) <= 0.3 * logs
    assert refused < 0.2 * logs


@everywhere
@every_bandit
def test_mixture_interval_and_improvement(bandit, n):
    counts = bandit.counts(n, LOGS, random_state=n)
    assert missed(mixture(bandit, counts, n), bandit.value) <= allowed()
    gain = bandit.value - bandit.logging_value
    assert np.mean(improvement(bandit, counts, n) > gain) <= allowed()
    assert np.mean(most_improvement(bandit, counts, n) < gain) <= allowed()


@everywhere
@every_bandit
@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
def test_ix_and_ls_intervals(bandit, n, factor):
    counts = bandit.counts(n, LOGS, random_state=n + 1)
    gamma = factor * gamma_of(n)
    for score in (IX(gamma), LS(2 * gamma)):
        assert missed(fixed_bet(bandit, counts, n, score), bandit.value) <= allowed()


# --- and what makes none


def test_normal_interval_fails_on_clicks():
    """One click in a thousand rows: with none in the log the normal interval is [0, 0], and sure
    of it."""
    bandit, n = BANDITS["clicks"], 300
    counts = bandit.counts(n, LOGS, random_state=5)
    assert missed(normal(bandit, counts, n), bandit.value) > 0.5
    assert missed(mixture(bandit, counts, n), bandit.value) <= allowed()
    log = bandit.log_of(np.repeat(np.arange(len(counts[0])), counts[0]))
    result = piwo.evaluate(log, bandit.policy, interval="normal", delta=DELTA)
    assert result.guarantee == "asymptotic"
    ends = [x[0] for x in normal(bandit, counts[:1], n)]
    np.testing.assert_allclose([result.lower_raw, result.upper_raw], ends, rtol=1e-9, atol=1e-12)


def test_best_of_thirty_policies_keeps_its_promise():
    """Paying log 30 covers the choice of the best-looking of thirty policies."""
    bandit, n = BANDITS["thirty rare arms"], 400
    arms = [replace(bandit, pi=tuple(float(a == arm) for a in range(31))) for arm in range(1, 31)]
    counts = bandit.counts(n, 500, random_state=8)
    sums = [bet_sums(arm, counts, "value") for arm in arms]
    values = np.array([arm.value for arm in arms])[:, None]
    low = np.stack(
        [bounds.lower_many(x, n, bounds.log_inv_delta(DELTA, statements=30)) for x in sums]
    )
    assert np.mean((low > values).any(axis=0)) <= allowed(500)
    # what `compare` does for policies it is given
    log = bandit.log_of(np.repeat(np.arange(len(counts[0])), counts[0]))
    policies = {str(a): piwo.policies.Constant(a, bandit.actions) for a in range(1, 31)}
    found = piwo.compare(log, policies, delta=2 * DELTA, interval="mixture")
    np.testing.assert_allclose(
        [x.lower_raw for x in found.values()], low[:, 0], rtol=1e-9, atol=1e-12
    )
    # the estimate that looks best is far above its truth in most logs
    estimates = (
        np.array([[state.moments.wr for state in states_of_cells(arm, IW())] for arm in arms])
        @ counts.T
        / n
    )
    assert np.mean((estimates - values).max(axis=0) > 0.5) > 0.5


def test_propensities_that_are_too_small_are_caught():
    """The simulation is sharp enough to notice a log whose propensities are a fifth too small."""
    bandit, n = BANDITS["on-policy"], 3000
    counts = bandit.counts(n, 500, random_state=9)
    w_r = np.array([state.moments.wr for state in states_of_cells(bandit, IW())])
    low = bounds.lower_many(counts @ np.log1p(np.outer(w_r / 0.8, BETS)), n, PENALTY)
    assert np.mean(low > bandit.value) > 0.9
