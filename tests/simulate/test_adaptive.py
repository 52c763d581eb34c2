"""Loggers that learn while they write: what holds, and what the paper says and does not hold
(docs/adaptive.md)."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.reductions.bets import BETS, bet_sums

DELTA, LOGS, ROWS = 0.1, 400, 400
CHANCE = np.array([0.3, 0.5, 0.7])
TARGET = np.array([0.0, 0.2, 0.8])


def allowed(logs=LOGS, delta=DELTA):
    return delta + 3 * math.sqrt(delta * (1 - delta) / logs)


@dataclass(frozen=True)
class Written:
    """LOGS logs side by side, (LOGS, ROWS) each."""

    action: np.ndarray
    reward: np.ndarray
    propensity: np.ndarray
    logging_value: np.ndarray
    """(LOGS,) average over the rows of the values of mu_1, ..., mu_n."""


@cache
def logs_of(learner):
    """Write the logs of a logger that leans ever more to what has paid: it is fooled by luck, and
    that is the trap."""
    rng = np.random.default_rng(6)
    wins, pulls = np.ones((LOGS, 3)), np.full((LOGS, 3), 2.0)
    action, reward, propensity = (np.empty((LOGS, ROWS)) for _ in range(3))
    value = np.zeros(LOGS)
    every = np.arange(LOGS)
    for t in range(ROWS):
        mean = wins / pulls
        if learner == "epsilon-greedy":
            mu = np.full((LOGS, 3), 0.02 / 3)
            mu[every, mean.argmax(axis=1)] += 0.98
        else:  # softmax of optimistic means, sharper as rows come in
            score = (mean + 1 / np.sqrt(pulls)) * math.sqrt(t + 1)
            mu = np.exp(score - score.max(axis=1, keepdims=True)) + 1e-3
            mu /= mu.sum(axis=1, keepdims=True)
        a = (rng.random((LOGS, 1)) > np.cumsum(mu, axis=1)[:, :2]).sum(axis=1)
        r = (rng.random(LOGS) < CHANCE[a]).astype(float)
        wins[every, a] += r
        pulls[every, a] += 1
        value += mu @ CHANCE
        action[:, t], reward[:, t], propensity[:, t] = a, r, mu[every, a]
    return Written(action.astype(int), reward, propensity, value / ROWS)


def sums(y):
    """(LOGS, 48) bet sums of (LOGS, n) numbers."""
    return np.stack([bet_sums(row) for row in y])


loggers = pytest.mark.parametrize("learner", ["epsilon-greedy", "optimistic softmax"])


@loggers
def test_value_and_improvement(learner):
    written, value = logs_of(learner), float(TARGET @ CHANCE)
    w = TARGET[written.action] / written.propensity
    share = bounds.log_inv_delta(DELTA)
    low = bounds.lower_many(sums(w * written.reward), ROWS, share)
    high = 1 - bounds.lower_many(sums(w * (1 - written.reward)), ROWS, share)
    gain = bounds.lower_many(sums(w * written.reward + 1 - written.reward), ROWS, share) - 1
    assert np.mean(low > value) <= allowed()
    assert np.mean(high < value) <= allowed()
    assert np.mean(gain > value - written.logging_value) <= allowed()
    assert low.mean() > 0.1  # and they say something


@loggers
def test_at_every_n(learner):
    written, value = logs_of(learner), float(TARGET @ CHANCE)
    y = TARGET[written.action] / written.propensity * written.reward
    total, crossed = np.zeros((LOGS, BETS.size)), np.zeros(LOGS, bool)
    for t in range(ROWS):
        total += np.log1p(np.outer(y[:, t], BETS))
        # the bound exceeds v exactly where the average wealth at v is above 1/delta
        crossed |= np.logaddexp.reduce(total - (t + 1) * np.log1p(BETS * value), axis=1) - math.log(
            48
        ) > -math.log(DELTA)
        if t % 20 == 0:
            low = bounds.lower_many(total, t + 1, bounds.log_inv_delta(DELTA), horizon="universal")
            assert not (low[~crossed] > value).any()
    assert crossed.mean() <= allowed()
    assert crossed.any()


@loggers
def test_certificate_of_what_was_learned_from_earlier_rows(learner):
    written, half = logs_of(learner), ROWS // 2
    gains = written.reward / (written.propensity + 0.1)
    credit = np.stack(
        [(gains * (written.action == a))[:, :half].sum(axis=1) for a in range(3)], axis=1
    )
    learned = credit.argmax(axis=1)
    y = ((written.action == learned[:, None]) * written.reward / written.propensity)[:, half:]
    low = bounds.lower_many(sums(y), ROWS - half, bounds.log_inv_delta(DELTA))
    assert np.mean(low > CHANCE[learned]) <= allowed()


def test_the_front_door_takes_the_propensities_as_they_are():
    written = logs_of("optimistic softmax")
    log = piwo.Log.from_arrays(
        action=written.action[0],
        reward=written.reward[0],
        propensity=written.propensity[0],
        actions=range(3),
        logger="learning",
    )
    found = piwo.evaluate(log, piwo.policies.Tabular(TARGET, log.actions), delta=2 * DELTA)
    y = TARGET[written.action[0]] / written.propensity[0] * written.reward[0]
    assert found.lower == pytest.approx(
        bounds.lower(bet_sums(y), ROWS, bounds.log_inv_delta(DELTA))
    )
    split = log.split(tail=True)
    made = piwo.certify(split.test, {0: piwo.policies.Constant(2, log.actions)}, delta=DELTA)[0]
    late = (written.action[0] == 2) * written.reward[0] / written.propensity[0]
    assert made.value_lower == pytest.approx(
        bounds.lower(bet_sums(late[-made.rows :]), made.rows, bounds.log_inv_delta(DELTA))
    )


def test_regret_needs_the_predictable_coverage_not_its_expectation():
    """In one log of ten the first row decides that the good action is never tried again."""
    n, delta, logs, log_class_size = 20_000, 0.05, 4000, math.log(2)
    gamma = bounds.gamma_auto(n, log_class_size, delta)
    rng = np.random.default_rng(1)
    never = rng.random(logs) < 0.1
    tried = np.where(never, 0, rng.binomial(n, 0.5, logs))
    wins = rng.binomial(n - tried, 0.01)
    # IX estimates of the good action (always 1) and of the other (.01)
    good, other = tried / (0.5 + gamma) / n, wins / (np.where(never, 1.0, 0.5) + gamma) / n
    regret = np.where(good >= other, 0.0, 0.99)
    coverage = np.where(never, 1 / gamma, 1 / (0.5 + gamma))
    expected = bounds.regret_bound(
        n, gamma, 0.9 / (0.5 + gamma) + 0.1 / gamma, log_class_size, delta
    )
    predictable = [bounds.regret_bound(n, gamma, c, log_class_size, delta) for c in coverage]
    assert expected == pytest.approx(0.267, abs=5e-4)
    assert np.mean(regret > expected) > delta + 3 * math.sqrt(0.09 / logs)
    assert np.mean(regret > np.array(predictable)) == 0
