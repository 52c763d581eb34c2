"""The guarded vote: the policy for logs on which nothing is certified."""

import math
from dataclasses import replace

import numpy as np
import pytest

import piwo
from piwo.learners import GuardedVote
from piwo.learners.folds import folds_of, sample_of
from piwo.learners.guarded_vote import Signs, _loses_little
from piwo.learners.vote_members import LowerBounds, imitation
from piwo.policies import Constant, Logging, MajorityVote
from piwo.scores import IX


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
    assert learned.chosen_ == max(learned.signs_, key=lambda name: learned.signs_[name])
    assert isinstance(learned.policy_, MajorityVote)
    assert learned.signs_[learned.chosen_] > 1
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


def test_the_logger_stays_where_nothing_shows_an_improvement():
    """Its imitation would lose more than half a percent of the reward, so it stays itself."""
    learner = GuardedVote().fit(make_log(high=0.5, low=0.5))
    assert learner.chosen_ == "logging"
    assert isinstance(learner.policy_, Logging)
    assert "may lose too much" in learner.rule_
    assert learner.certificate_.value == pytest.approx(learner.certificate_.logging_value)


def test_a_logger_whose_imitation_loses_little_is_imitated():
    rng = np.random.default_rng(1)
    log = piwo.Log.from_arrays(
        context=rng.normal(size=(300, 2)),
        action=rng.integers(0, 3, 300),
        reward=rng.integers(0, 2, 300),
        propensity=np.full(300, 1 / 3),
    )
    learner = GuardedVote().fit(log)
    assert learner.chosen_ == "imitation"
    assert learner.policy_.probabilities([[0.5, 1.0]]) == pytest.approx(1 / 3, abs=1e-3)
    assert "imitation" in learner.certificate_.notes[0]
    # with a policy that misses an action half of the reward on it is lost
    worse = piwo.policies.Mixture([Constant(0, log.actions), learner.policy_], [0.5, 0.5])
    assert _loses_little([learner.policy_], [log])
    assert not _loses_little([worse], [log])


def test_few_rewards_are_no_sign():
    """Six rewarded rows, and rewards that are rare everywhere."""
    log = make_log(300, high=0.05, low=0.0)
    learner = GuardedVote().fit(log)
    assert learner.chosen_ == "logging"


@pytest.mark.parametrize(
    ("t", "rewards", "agreed", "elsewhere", "sure", "improves"),
    [
        ((1.3, 0.0, 0.0), 20, 10, 0.2, 0.7, True),
        ((1.2, 0.0, 0.0), 20, 10, 0.2, 0.7, False),
        ((2.1, 0.0, 0.0), 20, 10, 0.5, 1.0, True),
        ((1.9, 0.0, 0.0), 20, 10, 0.5, 1.0, False),
        ((0.9, 1.9, 3.4), 20, 10, 0.5, 0.1, False),
        ((0.9, 2.1, 0.0), 20, 10, 0.14, 1.0, True),
        ((0.9, 2.1, 0.0), 20, 10, 0.16, 1.0, False),
        ((0.9, 0.0, 3.6), 20, 10, 0.14, 1.0, True),
        ((-8.0, -4.0, 7.9), 20, 10, 0.3, 0.9, False),
        ((9.0, 9.0, 9.0), 19, 19, 0.0, 0.1, False),
        ((9.0, 9.0, 9.0), 99, 9, 0.5, 0.1, False),
        ((0.3, -2.0, -2.0), 20, 0, 0.8, 0.2, True),
        ((0.2, -2.0, -2.0), 20, 0, 0.8, 0.2, False),
        ((0.3, -2.0, -2.0), 20, 0, 0.7, 0.2, False),
        ((0.3, -2.0, -2.0), 20, 0, 0.8, 0.3, False),
    ],
)
def test_when_a_vote_may_run(t, rewards, agreed, elsewhere, sure, improves):
    assert Signs(t, rewards, agreed, elsewhere, sure, 0.0, 0.0).improves is improves


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        ({}, True),
        ({"t": (9.0, 9.0, 2.9)}, False),
        ({"rewards": 19.0}, False),
        ({"agreed": 9.0}, False),
        # a right action may pay half of the time: the vote assumes more than was seen
        ({"together": 0.84}, False),
        # the logger earns nearly as much where the vote would act otherwise
        ({"apart": 0.82}, False),
    ],
)
def test_the_bold_vote_runs_where_a_right_action_nearly_always_pays(changed, runs):
    """With a logger that hardly explores, of which no other sign can be seen."""
    made = Signs((-8.0, -4.0, 3.1), 20.0, 10.0, 0.4, 0.99, 0.9, 0.7)
    assert not made.improves
    assert replace(made, **changed).right_pays is runs


@pytest.mark.parametrize(("high", "low", "chosen"), [(1.0, 0.6, "bold"), (0.7, 0.42, "logging")])
def test_a_logger_that_hardly_explores_is_improved_on_if_right_actions_always_pay(
    high, low, chosen
):
    """It is wrong near a boundary, where little else is tried: in a quarter of the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    right = np.where(X[:, 0] > 0, 0, np.where(X[:, 1] > 0, 1, 2))
    usual = np.where(np.abs(X[:, 0]) < 0.35, (right + 1) % 3, right)
    mu = np.full((600, 3), 0.01)
    mu[np.arange(600), usual] = 0.98
    A = (mu.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    R = (rng.random(600) < np.where(right == A, high, low)) * 1.0
    log = piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=mu[np.arange(600), A])
    learner = GuardedVote().fit(log)
    assert learner.chosen_ == chosen
    if chosen == "bold":
        # no other sign would do
        assert learner.signs_["bold"] < 1.0
        assert share_right(learner.policy_) > 0.9


def test_signs_by_hand():
    """Rewards 1, .5, 0, 0; the policy takes the first action: weights 2, 0, 2, 0."""
    log = piwo.Log.from_arrays(
        context=[[0.0]] * 4, action=[0, 1, 0, 1], reward=[1, 0.5, 0, 0], propensity=[0.5] * 4
    )
    made = Signs.of([Constant(0, log.actions)], [log])
    # weights less one, times rewards less 3/16, half of the mean
    # two rows are added on which the policy loses a reward of 1
    terms = np.array([13 / 16, -5 / 16, -3 / 16, 3 / 16, -13 / 16, -13 / 16])
    error = math.sqrt(((terms - terms.mean()) ** 2).sum()) / 6
    assert made.t[0] == pytest.approx(terms.mean() / error)
    # (sum R)^2 / sum R^2
    assert (made.rewards, made.agreed) == pytest.approx((1.5**2 / 1.25, 1.0))
    assert (made.elsewhere, made.sure) == pytest.approx((1 / 3, 0.5))
    assert (made.together, made.apart) == pytest.approx((0.5, 0.25))
    # where the logger takes one action alone, a policy with the same actions gains nothing
    sure = piwo.Log.from_arrays(
        context=[[0.0]] * 4, action=[0] * 4, reward=[1, 1, 0, 0], propensity=[1.0] * 4
    )
    assert max(Signs.of([Constant(0, sure.actions)], [sure]).t) <= 0.0


def test_lower_bounds_by_hand():
    """Action 1 earned more, but its two rows prove less than the forty of action 0."""
    from sklearn.tree import DecisionTreeClassifier

    def learned(rows):
        log = piwo.Log.from_arrays(
            context=np.zeros((40 + rows, 1)),
            action=[0] * 40 + [1] * rows,
            reward=[1] * 24 + [0] * 16 + [1] * rows,
            propensity=[0.5] * (40 + rows),
        )
        return LowerBounds(DecisionTreeClassifier()).solve(log, IX(0.1)).act([[0.0]]).actions[0]

    # 24/41 - .48/sqrt(41) = .51 against 2/3 - .48/sqrt(3) = .39 and 5/6 - .46/sqrt(6) = .64
    assert (learned(2), learned(5)) == (0, 1)


def test_folds_of_a_logger_that_learned_are_in_time():
    day = np.random.default_rng(0).permutation(300)
    for roles in ({}, {"time": day}):
        log = make_log(300, logger="learning", **roles)
        sample, chosen = sample_of(log, 10_000, 0)
        tested = 0
        for train, test in folds_of(sample, chosen, 3):
            past = np.concatenate([batch.rows for batch in train.each_batch()])
            later = np.concatenate([batch.rows for batch in test.each_batch()])
            if roles:
                past, later = day[past], day[later]
            assert past.max() < later.min()
            tested += len(later)
        # all but the first quarter
        assert tested == pytest.approx(225, abs=3)


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
