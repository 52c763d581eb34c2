"""Boosted trees: as good as scikit-learn's, on the gains and on the rewards."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import piwo
from piwo.engines.stages import OutOfTimeError
from piwo.oracles.bins import binned


def make_log(n=3000, actions=4, seed=0):
    """Rewards depend on the signs of two columns together: no linear policy is good."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    best = (2 * (X[:, 0] > 0) + (X[:, 1] > 0)) % actions
    A = rng.integers(0, actions, n)
    R = (rng.random(n) < np.where(best == A, 0.9, 0.1)).astype(float)
    log = piwo.Log.from_arrays(
        context=X, action=A, reward=R, propensity=np.full(n, 1 / actions), actions=range(actions)
    )
    return log, X, best


@pytest.mark.parametrize("actions", [2, 4])
@pytest.mark.parametrize("direct", [False, True])
def test_it_learns_what_scikit_learn_learns(direct, actions):
    log, X, best = make_log(actions=actions)
    few = {"max_iter": 40, "learning_rate": 0.15, "early_stopping": False}
    if direct:
        ours = piwo.oracles.DirectBoosting()
        model = HistGradientBoostingRegressor(max_leaf_nodes=8, min_samples_leaf=5, **few)
        theirs = piwo.oracles.Direct(10.0, model)
    else:
        ours = piwo.oracles.Boosting()
        model = HistGradientBoostingClassifier(max_leaf_nodes=15, **few)
        theirs = piwo.oracles.Classifier(model)
    mine, other = ours.solve(log, piwo.IX(1.0)), theirs.solve(log, piwo.IX(1.0))
    assert (mine.choose(X) == best).mean() > 0.9
    assert (mine.choose(X) == other.act(X).actions).mean() > 0.9


def test_a_step_by_hand():
    # one column, two bins, one action more often right in each: a stump
    X = np.repeat([0.0, 0.0, 1.0, 1.0], [6, 2, 1, 3])[:, None]
    A = np.repeat([0, 1, 0, 1], [6, 2, 1, 3])
    log = piwo.Log.from_arrays(context=X, action=A, reward=np.ones(12), propensity=np.full(12, 0.5))
    policy = piwo.oracles.Boosting(steps=1, leaves=2, rate=0.5, least=1).solve(log, piwo.IW())
    # shares 7/12 and 5/12; g = p - y, h = p (1 - p), value = -rate sum g / sum h
    p = 5 / 12
    low, high = -0.5 * (8 * p - 2) / (8 * p * (1 - p)), -0.5 * (4 * p - 3) / (4 * p * (1 - p))
    assert policy.offset == pytest.approx(np.log([7 / 12, 5 / 12]))
    assert policy.nodes[0] == pytest.approx([0, 0.5, 1, 0])
    assert policy.nodes[1:, 3] == pytest.approx([low, high])
    assert policy.nodes[1:, 2].tolist() == [1, 1]


def test_leaves_are_bounded_where_an_action_has_hardly_any_chance():
    # the share of action 1 is 1/100: sum g / sum h would be -100 where it is right, and is -4
    X, A = np.repeat([0.0, 1.0], [99, 1])[:, None], np.repeat([0, 1], [99, 1])
    log = piwo.Log.from_arrays(
        context=X, action=A, reward=np.ones(100), propensity=np.full(100, 0.5)
    )
    policy = piwo.oracles.Boosting(steps=1, leaves=2, rate=0.5, least=1).solve(log, piwo.IW())
    assert policy.nodes[1:, 3] == pytest.approx([-0.5 * 1 / 0.99, 0.5 * 4.0])


def test_it_is_saved_and_leaves_out_unknown_actions(tmp_path):
    log, X, _ = make_log()
    log = piwo.Log.from_arrays(
        context=X,
        action=log.first_batch().action,
        reward=log.first_batch().reward,
        propensity=np.full(len(X), 0.25),
        actions=range(5),
    )
    for oracle in (piwo.oracles.Boosting(steps=3), piwo.oracles.DirectBoosting(steps=3)):
        policy = oracle.solve(log, piwo.IX(0.1))
        assert 4 not in policy.choose(X)
        policy.save(tmp_path / "p.piwo")
        assert (piwo.load(tmp_path / "p.piwo").choose(X) == policy.choose(X)).all()


def test_a_sample_of_the_rows_suffices(monkeypatch):
    log, X, best = make_log()
    monkeypatch.setattr("piwo.oracles.boosting._MOST_CELLS", 0)
    monkeypatch.setattr("piwo.oracles.boosting._LEAST_ROWS", 600)
    one = piwo.oracles.Boosting()
    learned = one.solve(log, piwo.IX(0.1))
    assert (learned.choose(X) == best).mean() > 0.8
    again = one.solve(log, piwo.IX(0.1))
    assert np.array_equal(again.nodes, learned.nodes)


def test_the_number_of_threads_changes_nothing(monkeypatch):
    log, *_ = make_log()
    made = []
    for cells in (0, 2**62):
        monkeypatch.setattr("piwo.oracles.boosting._FEW_CELLS", cells)
        made.append(piwo.oracles.Boosting(steps=5).solve(log, piwo.IX(0.1)))
    assert np.array_equal(made[0].nodes, made[1].nodes)


def test_reward_trees_stop_between_trees_when_time_is_up(monkeypatch):
    left = [3]

    def count(limit=None):
        left[0] -= 1
        if left[0] < 0:
            raise OutOfTimeError

    monkeypatch.setattr("piwo.oracles.boosting.check_time", count)
    with pytest.raises(OutOfTimeError):
        piwo.oracles.DirectBoosting(steps=5).solve(make_log(200)[0], piwo.IX(0.1))


@pytest.mark.parametrize("values", [[1.0], [1e308, -1e308, 0.0], [1.0, np.nextafter(1.0, 2.0)]])
def test_bins_separate_neighbors_of_any_size(values):
    table = binned(np.array(values * 3)[:, None])
    found = dict(zip(values * 3, table.codes[:, 0].tolist(), strict=True))
    assert [found[x] for x in sorted(values)] == list(range(len(values)))


def test_bins_are_quantiles():
    x = np.random.default_rng(0).normal(size=(20_000, 1))
    table = binned(x)
    counts = np.bincount(table.codes[:, 0])
    assert table.counts.tolist() == [64]
    assert counts.min() > 250
    assert counts.max() < 375
    edge = table.edges[0, table.codes[:, 0]]
    assert (x[:, 0] <= edge).all()
