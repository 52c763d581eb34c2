"""Open Bandit Pipeline's dictionary: both ways, with positions, and its own estimates by hand."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError, UsageError
from piwo.evaluation import evaluate
from piwo.formats import from_obp, to_obp
from piwo.logs import Log, read
from piwo.policies import Column, Constant, Uniform

FEEDBACK: dict[str, Any] = {
    "n_rounds": 4,
    "n_actions": 3,
    "action": np.array([0, 2, 1, 2]),
    "position": np.array([0, 1, 1, 0]),
    "reward": np.array([1.0, 0.0, 1.0, 1.0]),
    "pscore": np.array([0.5, 0.25, 0.125, 0.8]),
    "context": np.arange(8.0).reshape(4, 2),
    "action_context": np.eye(3),
}
ACTION_DIST = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 2)).transpose(0, 2, 1)
"""(n, K, L) = (4, 3, 2)."""


def test_the_value_is_that_of_obp_by_hand() -> None:
    log = from_obp(FEEDBACK, policies={"new": ACTION_DIST})
    # In obp a round counts its reward times action_dist at its action and position, over pscore.
    p = [ACTION_DIST[0, 0, 0], ACTION_DIST[1, 2, 1], ACTION_DIST[2, 1, 1], ACTION_DIST[3, 2, 0]]
    w = [p[0] / 0.5, p[1] / 0.25, p[2] / 0.125, p[3] / 0.8]
    assert evaluate(log, Column("new")).value == pytest.approx((w[0] + w[2] + w[3]) / 4)
    snips = evaluate(log, Column("new"), estimator="snips").value
    assert snips == pytest.approx((w[0] + w[2] + w[3]) / sum(w))
    assert log.features is not None
    assert log.features.names == ("x0", "x1", "position=0", "position=1")
    assert log.actions.labels == (0, 1, 2)


@pytest.mark.parametrize(
    ("row", "total", "message"),
    [
        (1, 1.1, r"row 1: policy 'new' gave \[.*\] with the sum 1.1, expected probabilities"),
        (3, 0.6, "row 3: policy 'new' gave .* with the sum 0.6, expected"),
        (2, np.nan, r"row 2: policy 'new' gave \[nan, nan, nan\], expected probabilities in"),
    ],
)
def test_rows_of_a_policy_that_are_no_distribution_are_refused(
    row: int, total: float, message: str
) -> None:
    wrong = ACTION_DIST.copy()
    wrong[row] *= total
    with pytest.raises(DataError, match=message):
        from_obp(FEEDBACK, policies={"new": wrong})
    with pytest.raises(DataError, match=r"row numbers from 0: 0, 1, 2, 3: policy 'new' gave"):
        from_obp(FEEDBACK, policies={"new": ACTION_DIST * 1.1})
    negative = np.array([[1.5, -0.5, 0.0]] * 4)
    with pytest.raises(DataError, match=r"gave \[1.5, -0.5, 0\], expected"):
        from_obp(FEEDBACK, policies={"new": negative})


def test_the_rounding_of_float32_is_divided_out() -> None:
    narrow = ACTION_DIST.astype(np.float32)
    batch = next(from_obp(FEEDBACK, policies={"new": narrow}).each_batch())
    exact = narrow.astype(float)
    expected = exact[2, 1, 1] / exact[2, :, 1].sum()
    assert batch.policies["new"][2] == expected


def test_distributions_that_differ_by_position_need_positions() -> None:
    nowhere = FEEDBACK | {"position": None}
    with pytest.raises(UsageError, match=r"'new' differs by position \(shape \(4, 3, 2\)\), and"):
        from_obp(nowhere, policies={"new": ACTION_DIST})
    with pytest.raises(UsageError, match="'pi_b' differs by position"):
        from_obp(nowhere | {"pscore": None, "pi_b": ACTION_DIST})
    # position=0 says which one is meant; equal ones need no position
    first = from_obp(nowhere, policies={"new": ACTION_DIST}, position=0)
    assert next(first.each_batch()).policies["new"].tolist() == [
        ACTION_DIST[row, action, 0] for row, action in enumerate(FEEDBACK["action"])
    ]
    same = from_obp(nowhere, policies={"new": np.full((4, 3, 2), 1 / 3)})
    assert set(next(same.each_batch()).policies["new"].tolist()) == {1 / 3}


def test_one_position_alone() -> None:
    log = from_obp(FEEDBACK, policies={"new": ACTION_DIST}, position=1)
    batch = next(log.each_batch(context=True))
    assert batch.action.tolist() == [2, 1]
    assert batch.policies["new"].tolist() == [ACTION_DIST[1, 2, 1], ACTION_DIST[2, 1, 1]]
    assert batch.context is not None
    assert batch.context.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    with pytest.raises(UsageError, match=r"no row has position=2, expected one of 0..1"):
        from_obp(FEEDBACK, position=2)


def test_without_positions_the_behavior_policy_is_used() -> None:
    pi_b = np.array([[0.5, 0.25, 0.25]] * 4)
    more = {"position": None, "pi_b": pi_b[:, :, np.newaxis], "pscore": pi_b[0, FEEDBACK["action"]]}
    log = from_obp(FEEDBACK | more)
    assert log.gives_full_distribution
    assert next(log.each_batch(propensities=True)).propensities.tolist() == pi_b.tolist()  # type: ignore[union-attr]
    assert log.columns.context == ("x0", "x1")
    alone = from_obp(FEEDBACK | more | {"pscore": None, "context": None})
    assert next(alone.each_batch()).propensity.tolist() == [0.5, 0.25, 0.25, 0.25]
    wrong = from_obp(FEEDBACK | more | {"pscore": np.full(4, 0.9)})
    with pytest.raises(DataError, match="propensit"):
        list(wrong.each_batch(propensities=True))


def test_there_and_back() -> None:
    again = to_obp(from_obp(FEEDBACK))
    for name, values in FEEDBACK.items():
        assert np.array_equal(again[name], values), name
    assert "pi_b" not in again
    pi_b = np.full((4, 3, 1), 1 / 3)
    simple = FEEDBACK | {"position": None, "pi_b": pi_b, "pscore": np.full(4, 1 / 3)}
    again = to_obp(from_obp(simple))
    assert again["position"] is None
    for name in ("action", "reward", "pscore", "context", "pi_b"):
        assert np.array_equal(again[name], simple[name]), name


def test_any_log_becomes_feedback() -> None:
    table = {
        "action": ["b", "a", "b"],
        "reward": [-1.0, 0.3, 2.0],
        "propensity": [0.5, 0.25, 0.5],
        "city": ["x", "y", "x"],
    }
    made = to_obp(read(table, context="city", reward_range=(-1, 2)))
    assert made["action"].tolist() == [1, 0, 1]
    assert made["reward"].tolist() == pytest.approx([-1.0, 0.3, 2.0])
    assert made["context"].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert to_obp(read(table, reward_range=(-1, 2)))["context"].shape == (3, 0)
    weighted = read(table | {"w": [1, 2, 3]}, weight="w", reward_range=(-1, 2))
    with pytest.raises(UsageError, match="sampling weights"):
        to_obp(weighted)
    odd = read(table | {"position": ["top", "x", "x"]}, context="position", reward_range=(-1, 2))
    with pytest.raises(DataError, match="'position' does not hold whole numbers"):
        to_obp(odd)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"pscore": None}, "has no 'pscore'; it has 'n_rounds'"),
        ({"reward": None}, "has no 'reward'"),
        ({"slate_id": np.arange(4)}, "that of slates.* read it with piwo.slates.from_obp"),
        ({"action": np.array([0, 3, 1, 1])}, "'action' is 3 in row 1, expected .* from 0 to 2"),
        ({"reward": np.zeros(3)}, r"'reward' has shape \(3,\), expected \(4,\)"),
        ({"context": np.zeros(4)}, r"'context' has shape \(4,\), expected \(4, d\)"),
        ({"pi_b": np.zeros((4, 3, 3, 1))}, r"'pi_b' has shape .* expected \(4, 3, 2\)"),
        ({"pi_b": np.zeros((4, 2, 2))}, "'pi_b' has shape"),
    ],
)
def test_what_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        from_obp(FEEDBACK | more)
    with pytest.raises(UsageError, match="feedback is list, expected the dictionary"):
        from_obp([])  # type: ignore[arg-type]


def test_obp_itself_agrees() -> None:
    # it imports PyTorch, which no other test needs
    pytest.importorskip("obp.dataset", reason="obp cannot be imported", exc_type=ImportError)
    from obp.dataset import SyntheticBanditDataset
    from obp.ope import InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting

    feedback = SyntheticBanditDataset(n_actions=4, random_state=1).obtain_batch_bandit_feedback(500)
    log = from_obp(feedback)
    dist = np.full((500, 4, 1), 0.25)
    arguments = {
        "reward": feedback["reward"],
        "action": feedback["action"],
        "pscore": feedback["pscore"],
        "action_dist": dist,
    }
    uniform = Uniform(log.actions)
    theirs = InverseProbabilityWeighting().estimate_policy_value(**arguments)
    assert evaluate(log, uniform).value == pytest.approx(theirs, rel=1e-9)
    theirs = SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**arguments)
    assert evaluate(log, uniform, estimator="snips").value == pytest.approx(theirs, rel=1e-9)
    again = to_obp(log)
    assert np.array_equal(again["action"], feedback["action"])


def test_a_constant_policy_needs_no_column() -> None:
    log = from_obp(FEEDBACK)
    assert isinstance(log, Log)
    # 1/0.125 at the only row with action 1, over 4 rows
    assert evaluate(log, Constant(1, log.actions)).value == pytest.approx(2.0)
