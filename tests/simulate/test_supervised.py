"""The bandit made from labeled data: its values by hand and by brute force, its logs by
frequencies."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import piwo
from piwo.simulate import ClassificationBandit

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 4))
Y = np.array(["a", "b", "c"])[(X @ RNG.normal(size=(4, 3))).argmax(axis=1)]
M = np.array([[1.0, 0.2, 0.3], [0.1, 1.0, 0.0], [0.5, 0.6, 0.9]])


@pytest.fixture
def bandit():
    return ClassificationBandit(X, Y, rewards=M)


def test_values_by_hand():
    bandit = ClassificationBandit(
        [[0.0], [1.0], [1.0], [1.0]], ["a", "b", "b", "b"], rewards=[[1, 0.5], [0.2, 0.8]]
    )
    # a: (1 + 3 * .5) / 4, b: (.2 + 3 * .8) / 4
    assert bandit.value(piwo.policies.Constant("a", bandit.actions)) == pytest.approx(0.625)
    assert bandit.value(piwo.policies.Constant("b", bandit.actions)) == pytest.approx(0.65)
    assert bandit.best_fixed_action() == "b"
    # "a" where x < 1/2, else "b": (1 + 3 * .8) / 4
    greedy = piwo.policies.LinearGreedy([[-1.0], [1.0]], [0.5, -0.5], bandit.actions)
    assert bandit.value(greedy) == pytest.approx(0.85)


def test_value_is_the_dense_sum_for_every_kind_of_policy(bandit):
    codes = bandit.actions.codes(Y)
    actions = bandit.actions
    softmax = bandit.softmax_logger(5.0)
    greedy = piwo.policies.LinearGreedy(softmax.coef, softmax.intercept, actions, bandit.features)
    for policy in (
        softmax,
        greedy,
        piwo.policies.Uniform(actions),
        piwo.policies.Constant("c", actions),
        piwo.policies.EpsilonGreedy(greedy, 0.1),
        piwo.policies.Mixture([greedy, softmax], [0.3, 0.7]),
    ):
        table = policy.probabilities(
            None if not policy.needs_context else X, n=None if policy.needs_context else len(X)
        )
        dense = (table * M.T[codes]).sum(axis=1).mean()
        assert bandit.value(policy) == pytest.approx(dense, rel=1e-12)


def test_value_does_not_depend_on_the_order_of_the_actions(bandit):
    turned = piwo.policies.Tabular([0.7, 0.2, 0.1], ["c", "a", "b"])
    straight = piwo.policies.Tabular([0.2, 0.1, 0.7], ["a", "b", "c"])
    assert bandit.value(turned) == pytest.approx(bandit.value(straight), rel=1e-14)


def test_logger_is_the_softmax_of_scikit_learns_ridge(bandit):
    model = Ridge(alpha=1.0).fit(X, M.T[bandit.classes])
    logger = bandit.softmax_logger(7.0)
    np.testing.assert_allclose(logger.coef, 7 * model.coef_, rtol=1e-9)
    np.testing.assert_allclose(logger.intercept, 7 * model.intercept_, rtol=1e-9)


def test_logger_from_a_fraction_of_the_rows_differs_and_is_seeded(bandit):
    whole, part = bandit.softmax_logger(1.0), bandit.softmax_logger(1.0, 0.2)
    assert not np.allclose(whole.coef, part.coef)
    np.testing.assert_array_equal(part.coef, bandit.softmax_logger(1.0, 0.2).coef)
    assert not np.allclose(part.coef, bandit.softmax_logger(1.0, 0.2, random_state=1).coef)


def test_negative_eta_prefers_what_is_bad_and_zero_is_uniform(bandit):
    values = [bandit.value(bandit.softmax_logger(eta)) for eta in (-10.0, 0.0, 10.0)]
    assert values[0] < values[1] < values[2]
    assert values[1] == pytest.approx(M[:, bandit.classes].mean())


def test_log_is_seeded_and_leaves_the_global_state_alone(bandit):
    logger = bandit.softmax_logger(2.0)
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - what is tested is that nobody touches it
    one, same, other = (
        next(bandit.log(logger, random_state=seed).each_batch(context=True)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.testing.assert_array_equal(one.action, same.action)
    np.testing.assert_array_equal(one.reward, same.reward)
    assert (one.action != other.action).any()
    np.testing.assert_array_equal(one.context, X)


def test_log_has_the_loggers_propensities(bandit):
    logger = bandit.softmax_logger(2.0)
    batch = next(
        bandit.log(logger, random_state=0, full_propensities=True).each_batch(propensities=True)
    )
    np.testing.assert_allclose(batch.propensities, logger.probabilities(X), rtol=1e-12)
    np.testing.assert_allclose(
        batch.propensity, batch.propensities[np.arange(300), batch.action], rtol=1e-12
    )


def test_log_propensities_where_propensities_underflow(bandit):
    logger = bandit.softmax_logger(1e5)
    batch = next(bandit.log(logger, random_state=0, log_propensities=True).each_batch())
    assert batch.log_propensity is not None
    assert (logger.probabilities(X) == 0).any()
    log = bandit.log(logger, random_state=0, log_propensities=True)
    assert piwo.evaluate(log, logger).mean_weight == pytest.approx(1.0)


def test_frequencies_and_rewards_are_those_of_the_bandit(bandit):
    logger = bandit.softmax_logger(2.0)
    log = bandit.log(logger, rows=200_000, random_state=0)
    batches = list(log.each_batch())
    reward = np.concatenate([x.reward for x in batches])
    action = np.concatenate([x.action for x in batches])
    assert set(np.unique(reward)) == {0.0, 1.0}
    # five standard errors of 200 000 rows
    assert abs(reward.mean() - bandit.value(logger)) < 5 * 0.5 / np.sqrt(len(reward))
    share = np.bincount(action, minlength=3) / len(action)
    np.testing.assert_allclose(
        share, logger.probabilities(X).mean(axis=0), atol=5 * 0.5 / np.sqrt(len(reward))
    )


def test_interval_of_a_simulated_log_holds_the_known_value(bandit):
    log = bandit.log(bandit.softmax_logger(2.0), rows=5000, random_state=1)
    found = piwo.evaluate(log, bandit.softmax_logger(-2.0))
    assert found.lower <= bandit.value(bandit.softmax_logger(-2.0)) <= found.upper


def test_rows_as_indices_and_as_a_part(bandit):
    rows = np.array([5, 5, 9])
    batch = next(
        bandit.log(piwo.policies.Uniform(bandit.actions), rows=rows, random_state=0).each_batch(
            context=True
        )
    )
    np.testing.assert_array_equal(batch.context, X[rows])
    part = bandit.take(rows)
    np.testing.assert_array_equal(part.classes, bandit.classes[rows])
    assert part.actions == bandit.actions


def test_a_slice_is_a_part_without_a_copy(bandit):
    part, same = bandit.take(slice(3, 9)), bandit.take(np.arange(3, 9))
    assert np.shares_memory(part.context, bandit.context)
    np.testing.assert_array_equal(part.context, same.context)
    np.testing.assert_array_equal(part.classes, same.classes)
    frame = ClassificationBandit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}), [1, 2, 2])
    assert frame.take(slice(1, 3)).table.column("x").to_pylist() == [2.0, 3.0]


def test_data_frame_with_text_is_encoded_as_its_log_is():
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "color": ["red", "blue", "red", "blue"]})
    bandit = ClassificationBandit(frame, [10, 20, 10, 20])
    assert bandit.features.names == ("size", "color=blue", "color=red")
    log = bandit.log(bandit.softmax_logger(3.0), rows=np.array([0, 2]), random_state=0)
    # the level "blue" was not drawn, and is a column all the same
    assert log.features == bandit.features
    assert (
        bandit.softmax_logger(3.0).act(frame, 0).actions.tolist()
        == bandit.take(np.arange(4)).softmax_logger(3.0).act(frame, 0).actions.tolist()
    )


def test_paper_rewards_have_ones_on_the_diagonal_alone():
    made = ClassificationBandit.paper_rewards(26, random_state=0)
    assert (np.diag(made) == 1).all()
    assert (made[~np.eye(26, dtype=bool)] < 1).all()
    np.testing.assert_array_equal(made, ClassificationBandit.paper_rewards(26, random_state=0))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rewards": np.eye(2)}, r"shape \(2, 2\), expected \(3, 3\)"),
        ({"rewards": 2 * np.eye(3)}, r"outside \[0, 1\]"),
        ({"actions": ["a", "b"]}, "not among the 2 actions"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises((piwo.UsageError, piwo.DataError), match=words):
        ClassificationBandit(X, Y, **arguments)


def test_bad_calls(bandit):
    with pytest.raises(piwo.UsageError, match="300 contexts and 2 labels"):
        ClassificationBandit(X, ["a", "b"])
    with pytest.raises(piwo.UsageError, match="fraction"):
        bandit.softmax_logger(1.0, 2.0)
    with pytest.raises(piwo.UsageError, match="finite"):
        bandit.softmax_logger(np.inf)
    with pytest.raises(piwo.UsageError, match="at least 1"):
        bandit.log(piwo.policies.Uniform(bandit.actions), rows=0, random_state=0)
    named = ClassificationBandit(pd.DataFrame({"reward": [0.0, 1.0]}), ["a", "b"])
    with pytest.raises(piwo.UsageError, match="rename"):
        named.log(piwo.policies.Uniform(named.actions), random_state=0)
    with pytest.raises(piwo.DataError, match=r"column 1 of the context .* squares leave float64"):
        ClassificationBandit([[0.0, 1e160], [1.0, -1e160]], ["a", "b"]).softmax_logger(1.0)
