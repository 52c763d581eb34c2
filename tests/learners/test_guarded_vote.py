"""The guarded vote: the policy for logs on which nothing is certified."""

import math

import numpy as np
import pytest

import piwo
from piwo.learners import GuardedVote
from piwo.learners.folds import folds_of, sample_of
from piwo.learners.guarded_vote import _sign
from piwo.learners.vote_members import imitation
from piwo.policies import Constant, Logging, MajorityVote


def make_log(n=400, high=0.95, low=0.05, seed=0, **roles):
    """Three actions, one right in each context; the logger takes it half of the time."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    right = np.where(X[:, 0] > 0, 0, np.where(X[:, 1] > 0, 1, 2))
    mu = np.full((n, 3), 0.25)
    mu[np.arange(n), right] = 0.5
    A = (mu.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    R = (rng.random(n) < np.where(right == A, high, low)) * 1.0
    propensity = mu[np.arange(n), A]
    return piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=propensity, **roles)


def share_right(policy, n=2000):
    X = np.random.default_rng(99).normal(size=(n, 2))
    right = np.where(X[:, 0] > 0, 0, np.where(X[:, 1] > 0, 1, 2))
    return float((policy.act(X, 0).actions == right).mean())


@pytest.fixture(scope="module")
def learned():
    return GuardedVote().fit(make_log())


def test_a_vote_is_learned_where_agreeing_with_it_pays(learned):
    assert learned.chosen_ == "bold"
    assert isinstance(learned.policy_, MajorityVote)
    assert learned.signs_["bold"] > 2
    assert share_right(learned.policy_) > 0.85


def test_nothing_is_proved(learned):
    made = learned.certificate_
    assert (made.certified, made.value_lower, made.improvement_lower) == (False, None, None)
    assert (made.bound, made.rows, made.training_rows) == ("none", 400, 400)
    # the votes of the folds are right in most rows
    assert 0.75 < made.value < 1.0
    assert made.logging_value == pytest.approx(0.5, abs=0.07)
    assert made.unsupported_mass == 0.0
    assert str(made).startswith("no certificate: estimates on held-out folds")
    assert piwo.Certificate.from_dict(made.to_dict()).certified is False


def test_it_is_saved_and_loaded(learned, tmp_path):
    learned.policy_.save(tmp_path / "p.piwo")
    X = np.random.default_rng(1).normal(size=(50, 2))
    again = piwo.load(tmp_path / "p.piwo")
    assert (again.act(X).actions == learned.policy_.act(X).actions).all()
    # the rows that it was learned from are recognized
    assert piwo.evaluate(make_log(), again).in_sample


def test_the_logger_is_imitated_where_nothing_shows_an_improvement():
    log = make_log(high=0.5, low=0.5)
    learner = GuardedVote().fit(log)
    assert learner.chosen_ == "imitation"
    # as often right as the logger
    assert share_right(learner.policy_) == pytest.approx(0.5, abs=0.08)
    assert "imitation" in learner.certificate_.notes[0]


def test_the_sign_is_the_difference_of_mean_rewards_over_its_error():
    """By hand: four rows agree, with rewards 1, 1, 1, 0; two do not, with rewards 0, 1."""
    log = piwo.Log.from_arrays(
        context=[[0.0]] * 6,
        action=["a"] * 4 + ["b"] * 2,
        reward=[1, 1, 1, 0, 0, 1],
        propensity=[0.5] * 6,
    )
    # variances 3/16 of 4 and 1/4 of 2 rows
    expected = 0.25 / math.sqrt(3 / 64 + 1 / 8)
    assert _sign([Constant("a", log.actions)], [log]) == pytest.approx(expected)
    # a policy that agrees with all rows shows nothing
    alone = piwo.Log.from_arrays(
        context=[[0.0]] * 2, action=["a"] * 2, reward=[1, 0], propensity=[1.0] * 2
    )
    assert _sign([Constant("a", alone.actions)], [alone]) == -math.inf


def test_rows_of_a_unit_are_in_one_fold():
    units = np.repeat(np.arange(40), 5)
    log = make_log(200, unit=units)
    sample, chosen = sample_of(log, 10_000, 0)
    found = []
    for train, test in folds_of(sample, chosen, 3):
        held = np.concatenate([batch.keys for batch in test.each_batch()])
        others = np.concatenate([batch.keys for batch in train.each_batch()])
        assert not set(held.tolist()) & set(others.tolist())
        found += held.tolist()
    assert len(found) == 200
    made = GuardedVote().fit(log).certificate_
    assert (made.unit, made.units, made.rows) == ("unit", 40, 200)


def test_a_sample_of_a_long_log():
    log = make_log(2000)
    sample, chosen = sample_of(log, 500, 3)
    assert 400 < len(sample) < 600
    assert sum(len(test) for _, test in folds_of(sample, chosen, 3)) == len(sample)


@pytest.mark.parametrize(("rows", "rewards"), [(20, 1), (60, 0)])
def test_too_little_to_learn_from(rows, rewards):
    log = piwo.Log.from_arrays(
        context=np.zeros((rows, 1)),
        action=np.arange(rows) % 2,
        reward=np.full(rows, rewards),
        propensity=np.full(rows, 0.5),
        reward_range=(0, 1),
    )
    with pytest.raises(piwo.DataError, match=r"to learn from|has a reward"):
        GuardedVote().fit(log)


def test_one_action_and_text_columns():
    import pyarrow as pa

    n = 60
    rng = np.random.default_rng(0)
    frame = pa.table(
        {
            "item": ["only"] * n,
            "click": rng.integers(0, 2, n),
            "p": np.ones(n),
            "city": rng.choice(["Graz", "Linz"], n),
        }
    )
    log = piwo.read(frame, action="item", reward="click", propensity="p", context=["city"])
    learner = GuardedVote().fit(log)
    assert learner.chosen_ == "imitation"
    assert learner.policy_.act(pa.table({"city": ["Graz"]})).actions.tolist() == ["only"]


def test_auto_returns_it_if_nothing_is_certified():
    log = make_log(120, high=0.8, low=0.2)
    quick = [piwo.oracles.Ridge()]
    learner = piwo.Auto(quick, delta=1e-9).fit(log)
    assert learner.chosen_ == "guarded vote"
    assert learner.certificate_.certified is False
    assert "is certified better; instead" in learner.rule_
    assert learner.describe().stays is None
    assert list(learner.path_)[-1] == "guarded vote"
    kept = piwo.Auto(quick, delta=1e-9, keep="logger").fit(log)
    assert kept.chosen_ == "logging"
    assert isinstance(kept.policy_, Logging)
    with pytest.raises(piwo.UsageError, match="keep is 'me', expected 'logger' or None"):
        piwo.Auto(quick, keep="me").fit(log)


def test_an_epsilon_greedy_logger_is_imitated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    behavior = piwo.policies.EpsilonGreedy(
        piwo.policies.LinearGreedy([[1.0], [-1.0], [0.0]], [0.0, 0.0, -9.0], [0, 1, 2]), 0.3
    )
    done = behavior.act(X, 0)
    log = piwo.Log.from_arrays(
        context=X, action=done.actions, reward=np.zeros(300), propensity=done.propensities
    )
    wanted, made = behavior.probabilities(X), imitation(log).probabilities(X)
    assert np.abs(made - wanted).max(axis=1).mean() < 0.05
