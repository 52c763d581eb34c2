"""What a guess of the rewards does for learning: less regret, a higher bound, and never one above
the value."""

import math

import numpy as np
import pytest

import piwo
from benchmarks.statistics.dr_ls import GUESSES, ROWS, Small, rows
from piwo.reductions.credit_sums import CreditSums

pytestmark = pytest.mark.statistics


def test_a_guess_of_the_rewards_helps_much_and_costs_nothing() -> None:
    none, *guesses = (dict(row) for row in rows(60))
    assert [none["guess"], *(row["guess"] for row in guesses)] == list(GUESSES)
    assert none["mean regret"] > 0.02
    for guessed in guesses:
        assert guessed["mean regret"] < none["mean regret"] / 4
        assert guessed["mean bound"] > none["mean bound"] + 0.05
    assert [row["bound above value"] for row in (none, *guesses)] == [0, 0, 0, 0]


def test_the_bound_holds_for_all_policies_of_the_class_at_once() -> None:
    """At most delta of the logs have any of 40 policies above its value, for stochastic policies
    too; delta = .2."""
    rng, delta, wrong, logs, bet, k = np.random.default_rng(4), 0.2, 0, 150, 0.2, 4.0
    bandit = Small.of(3, contexts=4, actions=3, policies=40)
    pi = rng.dirichlet(np.full(3, 0.3), (40, 4))
    values = np.einsum("nsa,sa->n", pi, bandit.chance) / 4
    share = piwo.bounds.log_inv_delta(delta, log_class_size=math.log(40))
    for _ in range(logs):
        batch = bandit.batch(300, rng)
        gains = piwo.DoublyRobustLS(bet, q=0.6, k=k).dense_gains(batch).table
        means = np.einsum("nta,ta->n", pi[:, batch.context[:, 0].astype(int)], gains) / 300
        lower = np.array([piwo.bounds.score_lower(m, 300, bet, share) for m in means]) - k
        wrong += bool((lower > values).any())
    assert wrong <= delta * logs


def test_the_library_learns_what_the_simulation_does() -> None:
    bandit = Small.of(0)
    batch = bandit.batch(ROWS, np.random.default_rng(1))
    context = batch.context[:, 0].astype(int)
    log = piwo.Log.from_arrays(
        action=batch.action, reward=batch.reward, propensities=batch.propensities, actions=range(5)
    )
    oracle = piwo.oracles.Exhaustive(bandit.choice[:, context])
    learner = piwo.PIWO(
        piwo.DoublyRobustLS(0.125, q=0.6, k=8.0), oracle, certificate="in-sample"
    ).fit(log)
    assert learner.policy_.codes.tolist() == bandit.choice[0][context].tolist()
    assert learner.certificate_.value_lower < bandit.values[0]
    score = learner.score_
    (credit,) = piwo.reductions.reduce(log, CreditSums((learner.policy_,), (score,))).credit[0]
    twin = score.dense_gains(batch).table[np.arange(ROWS), bandit.choice[0][context]].sum()
    assert credit == pytest.approx(twin, rel=1e-12)
