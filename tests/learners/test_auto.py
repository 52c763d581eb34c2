"""Auto: the certified best of a pool, and the logging policy where none is better."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import piwo
from piwo.learners import Candidate, default_pool
from piwo.policies.sameness import same_policy

pytestmark = pytest.mark.statistics

QUICK = (piwo.oracles.Ridge(), piwo.oracles.Direct())
"""A pool that takes no time."""


def make_log(n=1200, seed=0, signal=0.6, actions=3, **roles):
    """Two actions of three are right on half of the contexts each; the logger prefers the one
    that never is."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    mu = np.array([0.25, 0.25, 0.5])
    A = rng.choice(actions, n, p=mu)
    R = (rng.random(n) < 0.3 + signal * ((X[:, 0] > 0) == A)).astype(float)
    return piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=mu[A], **roles)


def value(policy, signal=0.6, n=4000):
    X = np.random.default_rng(99).normal(size=(n, 2))
    return 0.3 + signal * float((policy.act(X, random_state=0).actions == (X[:, 0] > 0)).mean())


def test_the_default_pool_is_learned_certified_and_saved(tmp_path):
    with threadpool_limits(1, "openmp"):  # trees so small only wait for each other's threads
        learner = piwo.Auto().fit(make_log(600))
    assert set(learner.path_) == {one.label for one in default_pool()} | {"logging"}
    assert learner.certificate_.improves
    assert learner.chosen_ != "logging"
    assert value(learner.policy_) > 0.8  # the best is .9, the logger .45
    assert learner.certificate_.candidates == len({id(x.policy) for x in learner.path_.values()})
    # the boosted trees too are files that load
    X = np.random.default_rng(1).normal(size=(50, 2))
    for name, point in learner.path_.items():
        if name != "logging":
            point.policy.save(tmp_path / "p.piwo")
            assert (
                piwo.load(tmp_path / "p.piwo").act(X).actions == point.policy.act(X).actions
            ).all()


def parts_of(log):
    """The log in two, by hand."""
    parts = log.split(0.5, 0)
    return [
        (parts.train, parts.test),
        (log.where(parts.test.selector), log.where(parts.train.selector)),
    ]


def estimate(sides):
    """The self-normalized estimate less its standard error, of pairs (weights, rewards)."""
    w, r = (np.concatenate(x) for x in zip(*sides, strict=True))
    value = (w * r).sum() / w.sum()
    return value - math.sqrt((w**2 * (r - value) ** 2).sum()) / w.sum()


HEAVY = Candidate("heavy", piwo.oracles.Ridge(9.0), piwo.IX(0.2), weight=3.0)


@pytest.mark.parametrize("pool", [QUICK, (*QUICK, HEAVY)])
def test_every_candidate_is_learned_from_each_part_and_certified_on_the_other(pool):
    log = make_log()
    learner = piwo.Auto(pool).fit(log)
    path = learner.path_
    weights = {
        name: 1.0 if point.candidate is None else point.candidate.weight
        for name, point in path.items()
    }
    each = {name: 0.5 * weight / sum(weights.values()) for name, weight in weights.items()}
    looks, seen = [], {name: [] for name in path}
    for train, test in parts_of(log):
        policies = {
            name: one.candidate.oracle.solve(train, one.candidate.credit(train))
            for name, one in path.items()
            if one.candidate is not None
        } | {"logging": piwo.policies.Logging(log.actions)}
        looks.append(piwo.certify(test, policies, shares=each))
        for name, policy in policies.items():
            for batch in test.each_batch(context=True):
                seen[name].append((policy.logged(batch) / batch.propensity, batch.reward))
    for name, point in path.items():
        assert point.certificate.improvement_lower == max(
            look[name].improvement_lower for look in looks
        )
        assert point.standing == pytest.approx(estimate(seen[name]), rel=1e-12)
    certified = [name for name, point in path.items() if point.certificate.certified]
    assert learner.chosen_ == max(certified, key=lambda name: path[name].standing)
    assert learner.certificate_.candidates == len(path)
    assert "those certified better" in learner.rule_


def softmax_log(n=600):
    """A log of a behavior policy that is given as an object."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 1))
    behavior = piwo.policies.LinearSoftmax([[0.5], [-0.5]], [0.0, 0.2], [0, 1])
    action = behavior.act(X, 0).actions
    return piwo.Log.from_arrays(
        context=X,
        action=action,
        reward=(rng.random(n) < np.where(action == (X[:, 0] < 0), 0.8, 0.2)) * 1.0,
        behavior=behavior,
        actions=[0, 1],
    )


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("behavior", [False, True])
def test_the_figures_of_the_table_do_not_contradict_each_other(tail, behavior):
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(600, 1)), rng.integers(0, 2, 600)
    reward = (rng.random(600) < np.where((X[:, 0] > 0) == A, 0.8, 0.2)) * 1.0
    log = piwo.Log.from_arrays(context=X, action=A, reward=reward, propensity=np.full(600, 0.5))
    if behavior:
        log = softmax_log()
    learner = piwo.Auto([piwo.oracles.Ridge(), piwo.oracles.Direct()], tail=tail, refit=False).fit(
        log
    )
    report = learner.describe()
    # both parts are used unless the tail is held out, and the heading says so
    both = "estimate" if tail else "estimate, both parts"
    assert list(report.columns.values()) == [
        "candidate",
        both,
        "less its error",
        "improvement, at least",
    ]
    for one in report.tried:
        assert one.facts["standing"] < one.facts["estimate"]
        if one.name == "logging":
            # nothing is better than itself, and nothing is worse
            assert one.facts["improvement_lower"] == 0.0


def test_rows_that_contradict_their_propensities_one_way_are_not_believed_the_other_way():
    """Propensities of the held-out rows are a third of the true ones; those of the others are
    right."""
    log = make_log()
    held = log.split(0.5, 0).test.selector.keep(np.arange(len(log)))
    parts = [(x.context, x.action, x.reward, x.propensity) for x in log.each_batch(context=True)]
    X, A, R, p = (np.concatenate(x) for x in zip(*parts, strict=True))
    learner = piwo.Auto(QUICK).fit(
        piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=np.where(held, p / 3, p))
    )
    assert learner.chosen_ == "logging"
    assert not any(point.certificate.certified for point in learner.path_.values())
    assert "the rows contradict their propensities" in learner.rule_


def test_one_way_alone():
    """Without exchange, and for the last rows of a log, all of delta is spent on one part."""
    log = make_log()
    for options, parts in (
        ({"exchange": False}, log.split(0.5, 0)),
        ({"tail": True}, log.split(0.5, 0, tail=True)),
    ):
        path = piwo.Auto(QUICK, **options).fit(log).path_
        twin = piwo.certify(parts.test, {name: point.policy for name, point in path.items()})
        for name, point in path.items():
            assert point.certificate.improvement_lower == pytest.approx(
                twin[name].improvement_lower, rel=1e-9
            )
            assert point.certificate.training_rows == len(parts.train)
            assert point.certificate.share == pytest.approx(0.2)


def test_refit_says_that_nothing_is_proved_of_what_is_returned():
    log = make_log()
    again, certified = piwo.Auto(QUICK).fit(log), piwo.Auto(QUICK, refit=False).fit(log)
    best = again.path_[again.chosen_]
    assert (again.refitted_, certified.refitted_) == (True, False)
    assert certified.policy_ is certified.certified_policy_
    assert (certified.policy_.coef == again.certified_policy_.coef).all()
    whole = best.candidate.oracle.solve(log, best.candidate.credit(log))
    assert (again.policy_.coef == whole.coef).all()
    assert not np.array_equal(again.policy_.coef, again.certified_policy_.coef)
    assert any(
        "nothing is proved for the policy to run" in note for note in again.certificate_.notes
    )
    assert certified.certificate_.notes == ()
    # one certificate, beside two policies
    assert (again.certificate_.certified, certified.certificate_.certified) == (None, True)
    assert again.certificate_.improves
    rows = again.certificate_.training_rows
    assert again.certificate_.about.startswith(
        f"the policy learned from {rows} of 1,200 rows, not the one to run"
    )
    assert certified.certificate_.about is None
    assert again.path_[again.chosen_].certificate == replace(
        certified.certificate_, created=best.certificate.created
    )
    assert certified.certificate_.improvement_lower == again.certificate_.improvement_lower


def test_without_signal_the_logging_policy_stays():
    log = make_log(signal=0.0)
    learner = piwo.Auto(QUICK, keep="logger").fit(log)
    assert learner.chosen_ == "logging"
    assert isinstance(learner.policy_, piwo.policies.Logging)
    assert not learner.certificate_.certified
    assert not learner.refitted_
    assert (learner.score_, learner.certificate_.oracle) == (None, "logging")
    assert "the logging policy stays" in learner.rule_
    assert learner.certificate_.value == learner.certificate_.logging_value


def test_a_log_that_knows_its_policy_falls_back_to_one_that_acts():
    uniform = piwo.policies.Uniform([0, 1, 2])
    rng = np.random.default_rng(0)
    A = rng.integers(0, 3, 300)
    log = piwo.Log.from_arrays(
        context=rng.normal(size=(300, 1)),
        action=A,
        reward=rng.integers(0, 2, 300),
        propensity=np.full(300, 1 / 3),
        behavior=uniform,
    )
    learner = piwo.Auto(QUICK, keep="logger").fit(log)
    assert same_policy(learner.policy_, uniform)
    assert len(learner.policy_.act(n=3).actions) == 3


def test_an_incumbent_stays_where_nothing_is_certified_better_than_it():
    """A poor logger: the pool beats it by far, and does not beat an incumbent that is right
    everywhere."""
    good = piwo.policies.Deterministic(lambda X: (np.asarray(X)[:, 0] > 0).astype(int), [0, 1, 2])
    log = make_log()
    assert piwo.Auto(QUICK).fit(log).certificate_.improves
    learner = piwo.Auto(QUICK, incumbent=good).fit(log)
    assert (learner.chosen_, same_policy(learner.policy_, good), learner.refitted_) == (
        "incumbent",
        True,
        False,
    )
    assert learner.certificate_.baseline == "incumbent"
    assert not learner.certificate_.certified
    tried = "8 different policies (4 from one part of the rows, 4 from the other)"
    assert learner.rule_ == f"none of {tried} is certified better, so the incumbent stays"
    assert "logging" not in learner.path_


def test_what_is_better_than_the_incumbent_replaces_it():
    weak = piwo.policies.Constant(0, [0, 1, 2])
    learner = piwo.Auto(QUICK, incumbent=weak, refit=False, exchange=False).fit(make_log())
    assert learner.chosen_ != "incumbent"
    test = make_log().split(0.5, 0).test
    policies = {name: point.policy for name, point in learner.path_.items()}
    twin = piwo.certify(test, policies, baseline=weak)
    for name, point in learner.path_.items():
        assert point.certificate.improvement_lower == pytest.approx(
            twin[name].improvement_lower, rel=1e-9
        )
    # the truth: .9 of the contexts' rewards against .6
    assert 0 < learner.certificate_.improvement_lower < 0.31
    assert (
        piwo.Auto(QUICK, incumbent=piwo.policies.Logging()).fit(make_log()).certificate_.baseline
        is None
    )


def test_an_incumbent_that_was_learned_from_these_rows_is_reported():
    log = make_log()
    learned = piwo.Auto(QUICK, exchange=False).fit(log).policy_
    with pytest.warns(piwo.PiwoWarning, match="the incumbent was learned from part of this log"):
        again = piwo.Auto(QUICK, incumbent=learned, exchange=False).fit(log)
    assert again.incumbent_in_sample_
    assert again.describe().in_sample
    other = piwo.Auto(QUICK, incumbent=learned, exchange=False).fit(make_log(seed=7))
    assert not other.incumbent_in_sample_


def test_gains_over_an_incumbent_hold():
    """Of 40 logs about half replace an incumbent that is hard to beat, and at most delta of them
    claim too much."""
    replaced = worse = misses = 0
    for seed in range(40):
        log = make_log(800, seed=seed, signal=0.3)
        mostly = piwo.policies.EpsilonGreedy(
            piwo.policies.Deterministic(lambda X: (np.asarray(X)[:, 0] > 0).astype(int), [0, 1, 2]),
            0.5,
        )
        learner = piwo.Auto(QUICK, incumbent=mostly, refit=False, random_state=seed).fit(log)
        gain = value(learner.policy_, 0.3) - (0.3 + 0.3 * (0.5 + 0.5 / 3))
        replaced += learner.chosen_ != "incumbent"
        worse += learner.chosen_ != "incumbent" and gain < 0
        misses += learner.certificate_.improvement_lower > gain + 0.005  # the error of `value`
    assert 12 <= replaced <= 28
    assert max(worse, misses) <= 2


def test_an_incumbent_from_an_older_log_brings_its_encoding(tmp_path):
    """Its text column had other levels; what it is compared with is learned with the same ones."""

    def shops(n, names, seed):
        rng = np.random.default_rng(seed)
        shop, a = rng.choice(names, n), rng.integers(0, 2, n)
        table = {
            "x": rng.normal(size=n),
            "shop": shop,
            "a": a,
            "r": (a == (shop == "north")) * 1.0,
            "p": np.full(n, 0.5),
        }
        return piwo.read(table, action="a", reward="r", propensity="p", context=["x", "shop"])

    old = (
        piwo.PIWO(oracle=piwo.oracles.Ridge(), certificate=None)
        .fit(shops(300, ["north", "south"], 0))
        .policy_
    )
    old.save(tmp_path / "old.piwo")
    log = shops(600, ["north", "south", "west"], 1)
    with pytest.warns(piwo.PiwoWarning, match="shop.*unseen in training"):
        learner = piwo.Auto(QUICK, incumbent=piwo.load(tmp_path / "old.piwo")).fit(log)
    assert learner.certificate_.baseline == "incumbent"
    other = piwo.read(
        {"x": [1.0] * 9, "a": [0, 1, 0] * 3, "r": [0, 1, 1] * 3, "p": [0.5] * 9},
        action="a",
        reward="r",
        propensity="p",
        context=["x"],
    )
    with pytest.raises(
        piwo.UsageError,
        match="the incumbent was made from the context columns x, shop, and the log",
    ):
        piwo.Auto(QUICK, incumbent=old).fit(other)
    with pytest.raises(
        piwo.UsageError, match=r"incumbent is 'old.piwo', expected a policy, such as piwo.load"
    ):
        piwo.Auto(QUICK, incumbent="old.piwo").fit(log)


@dataclass(frozen=True)
class Guess(piwo.oracles.Oracle):
    """An oracle that learns nothing: it plays the action that one column of the context names."""

    name: ClassVar[str] = "guess"
    column: int

    def solve_path(self, log, scores):
        policy = piwo.policies.Deterministic(
            lambda X: np.asarray(X)[:, self.column].astype(int), log.actions
        )
        return [policy] * len(scores)


GUESSES = [Candidate(f"guess {i}", Guess(i), piwo.IX(1.0)) for i in range(24)]


def guessers_log(seed, n, often=0.5, gap=0.0):
    """Of two actions one, named by the last column, pays .6, the other `gap` less; the others
    name any action."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, len(GUESSES) + 1))
    right = rng.random(n) < often  # what the logger plays
    R = (rng.random(n) < 0.6 - gap * ~right) * 1.0
    A = np.where(right, X[:, -1], 1 - X[:, -1])
    return piwo.Log.from_arrays(
        context=X, action=A, reward=R, propensity=np.where(right, often, 1 - often)
    )


def test_luck_among_many_is_paid_for():
    """Every policy is worth .6, so all that is certified better is wrong, of 24 guesses, each both
    ways.

    delta is a half, where one bound alone would be wrong in one log of twenty, and the best of 48
    in most.
    """
    logs, delta = 24, 0.5
    learner = piwo.Auto(GUESSES, delta=delta, keep="logger")
    wrong = sum(learner.fit(guessers_log(seed, 200)).certificate_.improves for seed in range(logs))
    assert wrong <= delta * logs


def test_it_hardly_ever_harms():
    """In half of 24 logs a good logger is better than all of the pool; there the highest estimate
    would often harm."""
    pool, logs = [Candidate("ridge", piwo.oracles.Ridge(), piwo.IX(0.1), weight=24.0), *GUESSES], 24
    chosen = harm = luck = 0
    for seed in range(logs):
        often, gap = ((0.75, 0.15), (0.5, 0.5))[seed % 2]
        log = guessers_log(seed, 300, often, gap)
        learner = piwo.Auto(pool, refit=False, keep="logger").fit(log)
        path = learner.path_
        X = np.random.default_rng(98).integers(0, 2, (2000, len(GUESSES) + 1))
        worse = {
            name: name != "logging"
            and (point.policy.act(X).actions == X[:, -1]).mean() < often - 0.01 / gap
            for name, point in path.items()
        }
        chosen += learner.chosen_ != "logging"
        harm += worse[learner.chosen_]
        luck += worse[max(path, key=lambda name: path[name].standing)]
    assert 0.3 * logs <= chosen <= 0.7 * logs
    assert luck >= 0.2 * logs
    assert harm <= 0.05 * logs


def test_what_is_certified_holds():
    """Most of 40 logs certify a policy, and at most delta of them claim too much, of however many
    candidates."""
    certified = misses = 0
    # the logger plays actions 0 and 1 half of the time, each right on half of the contexts
    logged = 0.3 + 0.3 * 0.25
    for seed in range(40):
        log = make_log(800, seed=seed, signal=0.3)
        learner = piwo.Auto(QUICK, refit=False, keep="logger", random_state=seed).fit(log)
        if learner.certificate_.certified:
            certified += 1
            misses += learner.certificate_.improvement_lower > value(learner.policy_, 0.3) - logged
    assert certified >= 12
    assert misses <= 2


def test_any_classifier_may_be_added():
    learner = piwo.Auto(
        QUICK, [GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0)]
    ).fit(make_log())
    names = {name.split(",")[0] for name in learner.path_}
    assert names == {"ridge", "direct", "GaussianNB", "DecisionTreeClassifier", "logging"}
    alone = piwo.Auto([DecisionTreeClassifier(max_depth=2, random_state=0)]).fit(make_log())
    assert alone.chosen_.startswith("DecisionTreeClassifier")
    assert isinstance(alone.policy_, piwo.policies.Classifier)
    own = Candidate("mine", piwo.oracles.Ridge(5.0), piwo.LSLinear(0.5))
    assert set(piwo.Auto([own]).fit(make_log()).path_) == {own.label, "logging"}
    assert own.label == f"mine, {piwo.LSLinear.label} lam=0.5"


def test_what_uses_no_score_is_recorded_without_one():
    """Direct is chosen; so is a ridge, whose score is recorded; and what was tried counts both
    ways."""
    log = make_log()
    alone = piwo.Auto([piwo.oracles.Direct()]).fit(log)
    made = alone.certificate_
    assert (alone.chosen_, alone.score_, made.score, made.parameter, made.oracle) == (
        "direct",
        None,
        None,
        None,
        "direct",
    )
    assert alone.path_["direct"].candidate.score is None
    tried = "2 different policies (1 from one part of the rows, 1 from the other)"
    assert (
        alone.rule_
        == f"the highest estimate, less its standard error, of those certified better among {tried}"
    )
    assert made.paid_for == "2 candidates, this one with 0.25 of the error probability"
    assert "2 candidates, this one with 0.25 of the error probability" in str(made)
    ridge = piwo.Auto([Candidate("r", piwo.oracles.Ridge(), piwo.IX(0.1))], exchange=False).fit(log)
    assert (ridge.certificate_.score, ridge.certificate_.parameter, ridge.score_) == (
        "ix",
        0.1,
        piwo.IX(0.1),
    )
    assert ridge.rule_.endswith("among 1 different policy")
    assert ridge.certificate_.paid_for == "2 candidates, this one with 0.5 of the error probability"
    path = piwo.PIWO(oracle=piwo.oracles.Direct()).fit(log)
    assert (path.score_, path.certificate_.score, path.rule_) == (
        None,
        None,
        "the direct oracle uses no score",
    )


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan, "x", None])
def test_a_weight_is_a_number_above_zero(weight):
    with pytest.raises(piwo.UsageError, match=r"weight is .*; expected a finite number above 0"):
        Candidate("ridge", piwo.oracles.Ridge(), piwo.IX(0.1), weight=weight)


def test_a_score_that_nothing_uses_is_refused():
    unused = r"the direct oracle uses no score, got IX\(gamma=0.1\); leave it out"
    with pytest.raises(piwo.UsageError, match=unused):
        Candidate("d", piwo.oracles.Direct(), piwo.IX(0.1))
    with pytest.raises(piwo.UsageError, match=unused):
        piwo.PIWO(piwo.IX(0.1), piwo.oracles.Direct()).fit(make_log(60))
    with pytest.raises(
        piwo.UsageError,
        match="the direct oracle uses no score, so there is no grid for it; use PIWO",
    ):
        piwo.PIWOGrid(oracle=piwo.oracles.Direct()).fit(make_log(60))
    with pytest.raises(
        piwo.UsageError, match=r"the ridge oracle needs a score; give one, such as IX\(0.1\)"
    ):
        Candidate("r", piwo.oracles.Ridge())


def test_the_same_log_and_seed_give_the_same_policy():
    one, two = (piwo.Auto(QUICK, random_state=3).fit(make_log()) for _ in range(2))
    assert one.chosen_ == two.chosen_
    assert (one.policy_.coef == two.policy_.coef).all()
    first, second = ({k: v.certificate.value_lower for k, v in x.path_.items()} for x in (one, two))
    assert first == second
    assert (
        piwo.Auto(QUICK, random_state=4).fit(make_log()).certificate_.value_lower
        != one.certificate_.value_lower
    )


def test_the_unit_of_the_reward_does_not_matter():
    log = make_log()
    reward = np.concatenate([batch.reward for batch in log.each_batch()])
    parts = [(x.context, x.action, x.propensity) for x in log.each_batch(context=True)]
    X, A, p = (np.concatenate(x) for x in zip(*parts, strict=True))
    cents = piwo.Log.from_arrays(
        context=X, action=A, reward=250.0 * reward - 50.0, propensity=p, reward_range=(-50.0, 200.0)
    )
    one, two = piwo.Auto(QUICK).fit(log), piwo.Auto(QUICK).fit(cents)
    assert one.chosen_ == two.chosen_
    assert two.certificate_.improvement_lower == pytest.approx(
        250.0 * one.certificate_.improvement_lower
    )


def test_propensities_that_underflow():
    log = make_log()
    parts = [
        (x.context, x.action, x.reward, np.log(x.propensity)) for x in log.each_batch(context=True)
    ]
    X, A, R, logs = (np.concatenate(x) for x in zip(*parts, strict=True))
    logs[:3] = -800.0
    R[:3] = 1.0
    learner = piwo.Auto([*QUICK, piwo.oracles.Classifier(), piwo.oracles.Softmax()]).fit(
        piwo.Log.from_arrays(context=X, action=A, reward=R, log_propensity=logs)
    )
    assert all(math.isfinite(x.certificate.value_lower) for x in learner.path_.values())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"pool": []}, "the pool is empty"),
        ({"pool": "ridge"}, "pool is 'ridge', expected a list"),
        ({"extra": [3]}, "extra holds 3, expected a scikit-learn classifier"),
        (
            {"extra": [Candidate("r", piwo.oracles.Ridge(), piwo.IX(0.1))] * 2},
            "two candidates are called 'r, IX gamma=0.1'",
        ),
        (
            {"pool": [piwo.oracles.Ridge(), piwo.oracles.Ridge(2.0)]},
            "two candidates are called 'ridge, IX gamma=1'",
        ),
        (
            {"pool": [Candidate("r", piwo.oracles.Ridge(), piwo.LS(0.1))]},
            "not linear in the policy",
        ),
    ],
)
def test_bad_arguments(arguments, says):
    with pytest.raises(piwo.UsageError, match=says):
        piwo.Auto(**arguments).fit(make_log(100))


POOLS = {
    "usual": None,
    "needs rewards": [piwo.oracles.Classifier()],
    "needs none": [piwo.oracles.Ridge()],
    "uses no score": [piwo.oracles.Direct()],
}


def rare_log(where, n=600):
    """Rewards of 1 in the rows named, and of 0 in all others."""
    rng = np.random.default_rng(0)
    R = np.zeros(n)
    R[where] = 1.0
    return piwo.Log.from_arrays(
        context=rng.normal(size=(n, 2)),
        action=rng.integers(0, 2, n),
        reward=R,
        propensity=np.full(n, 0.5),
        reward_range=(0.0, 1.0),
    )


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize(
    ("options", "which"),
    [({}, "no row"), ({"tail": True}, "no row that was held out")],
    ids=["both ways", "one way"],
)
def test_without_any_reward_the_logging_policy_stays(pool, options, which):
    with threadpool_limits(1, "openmp"):
        learner = piwo.Auto(pool, **options).fit(rare_log([]))
    assert (learner.chosen_, learner.refitted_) == ("logging", False)
    assert isinstance(learner.policy_, piwo.policies.Logging)
    why = (
        f"{which} has a reward above the lowest, so nothing can be certified better, and the "
        "logging policy stays"
    )
    assert learner.rule_ == why
    with pytest.raises(piwo.DataError, match="nothing to learn from"):
        piwo.PIWO().fit(rare_log([]))


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_one_part_without_rewards(pool):
    """One click in all: nothing can be learned from the part that lacks it, and nothing is
    certified on it."""
    with threadpool_limits(1, "openmp"):
        learner = piwo.Auto(pool).fit(rare_log([0]))
    assert learner.chosen_ == "logging"
    assert set(learner.path_) > {"logging"}
    assert learner.rule_.startswith("none of ")
    told = (
        "stays; no row of one part has a reward above the lowest, so it has nothing to learn from"
    )
    assert learner.rule_.endswith(told)


def test_rows_to_learn_from_without_rewards():
    """All rewards are among the last rows, which are held out."""
    pool = [piwo.oracles.Classifier(), piwo.oracles.Ridge()]
    learner = piwo.Auto(pool, tail=True, keep="logger").fit(rare_log(slice(300, 500)))
    assert learner.chosen_ == "logging"
    assert "so it has nothing to learn from" in learner.rule_
    for name, point in learner.path_.items():
        assert isinstance(point.policy, piwo.policies.Logging) is not name.startswith("ridge")
        assert not point.certificate.certified


def test_other_faults_of_the_data_are_not_taken_for_nothing_to_learn():
    @dataclass(frozen=True)
    class Refusing(piwo.oracles.Oracle):
        name: ClassVar[str] = "refusing"

        def solve_path(self, log, scores):
            raise piwo.DataError("a fault of the data")

    with pytest.raises(piwo.DataError, match="a fault of the data"):
        piwo.Auto([Candidate("r", Refusing(), piwo.IX(0.1))]).fit(make_log(60))


def test_rewards_without_an_upper_end():
    with pytest.raises(piwo.UsageError, match="no upper end"):
        piwo.Auto(QUICK).fit(make_log(100, reward_range=(0.0, math.inf)))


def test_full_vectors_are_used_by_one_more_candidate() -> None:
    rng = np.random.default_rng(0)
    n = 300
    X = rng.normal(size=(n, 2))
    # Actions 0 and 2 are impossible in one half of the contexts each.
    mu = np.where(X[:, :1] > 0, [[0.5, 0.5, 0.0]], [[0.0, 0.5, 0.5]])
    action = np.array([rng.choice(3, p=p) for p in mu])
    rows = {"context": X, "action": action, "reward": (action == 1) * 1.0, "actions": range(3)}
    told = piwo.Auto(refit=False).fit(piwo.Log.from_arrays(**rows, propensities=mu))
    assert "ridge, DR-LS lam=0.1" in told.path_
    assert len(told.path_) == len(default_pool()) + 2
    plain = piwo.Log.from_arrays(**rows, propensity=mu[np.arange(n), action])
    assert "ridge, DR-LS lam=0.1" not in piwo.Auto(refit=False).fit(plain).path_
    by_unit = piwo.Log.from_arrays(**rows, propensities=mu, unit=np.arange(n) // 2)
    assert "ridge, DR-LS lam=0.1" not in piwo.Auto(refit=False).fit(by_unit).path_


def test_a_huge_log_without_context_has_no_sample(monkeypatch) -> None:
    monkeypatch.setattr("piwo.learners.auto.HUGE", 10)
    log = piwo.Log.from_arrays(action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400)
    both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    learner = piwo.Auto([piwo.oracles.Exhaustive(both)], seconds=60, refit=False).fit(log)
    assert learner.not_tried_ == ()
    assert learner.certificate_.certified


def test_a_limited_time_on_a_huge_log_goes_to_the_better_half(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    n = 600
    X, action = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    log = piwo.Log.from_arrays(
        context=X, action=action, reward=(action == (X[:, 0] > 0)) * 1.0, propensity=np.full(n, 0.5)
    )
    useful = Candidate("useful", piwo.oracles.Ridge(), piwo.IX(0.1))
    # Shrunk so far that it takes one action everywhere.
    useless = Candidate("useless", piwo.oracles.Ridge(alpha=1e300), piwo.IX(0.1))
    monkeypatch.setattr("piwo.learners.auto.HUGE", n)
    limited = piwo.Auto([useless, useful], seconds=60, refit=False).fit(log)
    assert limited.not_tried_ == (useless.label,)
    assert limited.chosen_ == useful.label
    assert limited.certificate_.certified
    (note,) = [x for x in limited.certificate_.notes if "sample" in x]
    assert note == f"not tried: on a sample others did better than {useless.label}"
    # The share of delta is the same as if both had been learned.
    both = piwo.Auto([useless, useful], refit=False).fit(log)
    assert both.not_tried_ == ()
    assert both.certificate_.share == limited.certificate_.share
    assert both.certificate_.value_lower == limited.certificate_.value_lower
