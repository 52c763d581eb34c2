"""The experiment gives what the obvious loop gives: dense gains, scikit-learn's Ridge, argmax,
the same draws."""

import pickle

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import piwo
from experiments.averages import ALGORITHMS
from experiments.data import load
from experiments.protocol import ETAS, PARAMETERS, Experiment, Logger, Protocol

HS = len(PARAMETERS)


@pytest.fixture(scope="module")
def experiment():
    return Experiment(load("synthetic", 5000, 3), Protocol(seed=3))


def dense_gains(algorithm, h, log_mu, action, reward):
    """Return the (n, K) gains, those of PL times the smallest propensity where 1/mu would leave
    float64."""
    n = len(action)
    unit = max(0.0, -log_mu.min() - 600.0) if algorithm == "PIWO-PL" else 0.0
    inverse, mu = np.exp(-log_mu - unit), np.exp(log_mu[np.arange(n), action])
    gain = {
        "PIWO-IX": lambda: reward / (mu + h),
        "PIWO-Clip": lambda: reward / np.maximum(mu, h),
        "PIWO-LS": lambda: np.log1p(2 * h * reward / mu) / (2 * h),
        "PIWO-PL": lambda: reward * inverse[np.arange(n), action],
    }[algorithm]()
    gains = np.zeros(log_mu.shape)
    gains[np.arange(n), action] = gain
    return gains - h * inverse if algorithm == "PIWO-PL" else gains


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("kind", "number", "h", "fold"), [("good", 8, 12, 0), ("bad", 9, 16, 7), ("good", 12, 19, 9)]
)
def test_policies_and_rewards_are_those_of_the_obvious_loop(
    experiment, algorithm, kind, number, h, fold
):
    logger = Logger(kind, number)
    behavior = experiment.policy(logger)
    log = experiment.log(experiment.bandit, behavior, [3, 1 + (kind == "bad"), number])
    batches = list(log.each_batch(context=True))
    action, reward = (
        np.concatenate([getattr(b, x) for b in batches]) for x in ("action", "reward")
    )
    train, test, X = experiment.fold != fold, experiment.tests[fold], experiment.bandit.context
    log_mu = behavior.log_probabilities(X[train])
    gains = dense_gains(algorithm, PARAMETERS[h], log_mu, action[train], reward[train])
    chosen = Ridge(alpha=1.0).fit(X[train], gains).predict(test.context).argmax(axis=1)
    policy = experiment.learned(logger)[fold][ALGORITHMS.index(algorithm) * HS + h]
    assert (policy.decide(test.context, len(test)) == chosen).all()
    table = experiment.run(logger).results.to_pandas()
    cell = table[
        (table.algorithm == algorithm)
        & (table.fold == fold)
        & np.isclose(table.h, PARAMETERS[h], rtol=1e-12)
    ]
    assert len(cell) == 1
    assert cell.reward.item() == pytest.approx(test.rewards[chosen, test.classes].mean(), abs=1e-12)
    assert cell.regret.item() == pytest.approx(1 - cell.reward.item(), abs=1e-15)


def test_propensities_beyond_float64_are_learned_from():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 3)), rng.integers(0, 4, 3000)
    bandit = piwo.simulate.ClassificationBandit(X, y, actions=range(4))
    behavior = piwo.policies.LinearSoftmax(rng.normal(size=(4, 3)) * 120, np.zeros(4), range(4))
    log_mu = behavior.log_probabilities(X)
    assert log_mu.min() < -745  # exp(-745) is 0 in float64
    log = bandit.log(behavior, random_state=1, full_propensities=True, log_propensities=True)
    batch = next(log.each_batch())
    gains = dense_gains("PIWO-PL", 1e-3, log_mu, batch.action, batch.reward)
    wanted = Ridge(alpha=1.0).fit(X, gains).predict(X).argmax(axis=1)
    found = piwo.oracles.Ridge().solve(log, piwo.PseudoLoss(1e-3)).decide(X, len(X))
    assert (found == wanted).all()


def test_the_number_of_threads_changes_nothing(experiment, monkeypatch):
    many = experiment.run(Logger("good", 11))
    monkeypatch.setenv("PIWO_THREADS", "1")
    one = experiment.run(Logger("good", 11))
    assert many.results.equals(one.results)
    assert many.logger.equals(one.logger)


def test_resampling_draws_another_log_for_each_repetition():
    data = load("synthetic", 5000, 3)
    shared, fresh = (Experiment(data, Protocol(seed=3, resample=x)) for x in (False, True))
    a, b = (x.run(Logger("good", 8)).results["reward"].to_numpy() for x in (shared, fresh))
    assert (a != b).any()
    assert abs(a.mean() - b.mean()) < 0.05


def test_the_loggers_are_those_of_the_paper(experiment):
    assert np.allclose(ETAS, np.logspace(-1, 3, 20))
    good, bad = (experiment.policy(Logger(kind, 19)) for kind in ("good", "bad"))
    assert np.allclose(good.coef, -bad.coef)
    outcome = experiment.run(Logger("good", 19)).logger.to_pandas()
    assert (outcome.log10_min_propensity < -100).all()
    assert outcome.behavior.between(0, 1).all()
    assert len(experiment.loggers()) == 40


@pytest.mark.parametrize(
    "fold", [np.zeros(4500), np.zeros(10, int), np.zeros(4500, int), np.arange(4500) % 3 + 1]
)
def test_fold_numbers_that_are_none_are_refused(experiment, fold):
    log = experiment.log(experiment.bandit, experiment.policy(Logger("good", 0)), [0])
    with pytest.raises(piwo.UsageError, match="fold"):
        piwo.oracles.Ridge().solve_folds(log, [piwo.IX(0.1)], fold)


def test_values_are_those_of_one_policy_after_the_other(experiment):
    uniform = piwo.policies.Uniform(experiment.bandit.actions)
    policies = [uniform, *experiment.learned(Logger("good", 5))[0], uniform]
    found = experiment.tests[0].values(policies)
    assert np.allclose(found, [experiment.tests[0].value(p) for p in policies], rtol=0, atol=1e-12)


def test_a_copy_for_another_process_holds_the_rows_once_and_gives_the_same(experiment):
    tests = experiment.tests
    copy = pickle.loads(pickle.dumps(experiment))
    assert "tests" not in vars(copy)
    logger = experiment.loggers()[5]
    assert (copy.rewards(logger) == experiment.rewards(logger)).all()
    assert sum(len(test) for test in tests) == len(experiment.bandit)
    assert all(np.shares_memory(test.context, experiment.bandit.context) for test in tests)
