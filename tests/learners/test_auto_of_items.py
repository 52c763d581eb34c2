"""Auto on logs with features of the actions: models of context and item are candidates."""

import numpy as np
import pytest

import piwo
from piwo.errors import UsageError
from piwo.learners.pool import for_items
from piwo.policies.sameness import same_policy
from piwo.simulate import ItemBandit

BANDIT = ItemBandit(items=40, candidates=5, context=3, features=3, situations=300)
JOINT = [
    "joint direct",
    "joint ridge, IX gamma=0.01",
    "conditional logit, IX gamma=0.01",
    "joint boosted trees, IX gamma=1",
]


def test_joint_candidates_are_learned_certified_and_act_on_new_items(tmp_path) -> None:
    learner = piwo.Auto().fit(BANDIT.log(3000, random_state=0))
    assert list(learner.path_) == [*JOINT, "logging"]
    assert learner.certificate_.improves
    # Half of the way from the logger to the best, at least.
    half = (BANDIT.logging_value + BANDIT.optimal_value) / 2
    assert BANDIT.value(learner.policy_) > half

    new = {"action": [101, 102]}
    new |= {f"z{j}": np.random.default_rng(j).normal(size=2) for j in range(3)}
    learner.policy_.save(tmp_path / "p.piwo")
    again = piwo.load(tmp_path / "p.piwo")
    x = np.random.default_rng(9).normal(size=(20, 3))
    model = learner.policy_.model
    z = np.column_stack([new[f"z{j}"] for j in range(3)])
    better = np.argmax(x @ model.cross @ z.T + z @ model.item, axis=1)
    assert again.act(x, items=new).actions.tolist() == (101 + better).tolist()


def test_trees_are_chosen_where_no_product_of_columns_is_right() -> None:
    bandit = ItemBandit(items=60, candidates=6, context=2, features=2, wave=4.0, bias=-0.5)
    learner = piwo.Auto(random_state=3).fit(bandit.log(20_000, random_state=0))
    assert learner.chosen_ == "joint boosted trees, IX gamma=1"
    assert bandit.value(learner.policy_) > learner.certificate_.value_lower


def test_the_pool_depends_on_what_the_log_has() -> None:
    rows = {
        "context": np.random.default_rng(0).normal(size=(60, 1)),
        "action": [0, 1] * 30,
        "reward": [0, 1, 1, 0] * 15,
        "propensity": [0.5] * 60,
    }
    items = {"action": [0, 1], "price": [1.0, 2.0]}
    assert for_items(piwo.Log.from_arrays(**rows)) == ()
    assert for_items(piwo.Log.from_arrays(**{**rows, "context": None}, items=items)) == ()
    fixed = piwo.Log.from_arrays(**rows, items=items)
    assert [one.label for one in for_items(fixed)] == JOINT
    # Every action can be taken in every row, so models of each action are tried, too.
    names = [one.label for one in piwo.Auto()._pool(fixed)]
    assert names[:2] == ["logistic, IX gamma=1", "ridge, IX gamma=0.1"]
    assert names[-4:] == JOINT
    changing = piwo.Log.from_arrays(**rows, items=items, eligible=[[0, 1]] * 60)
    assert [one.label for one in piwo.Auto()._pool(changing)] == JOINT
    with pytest.raises(UsageError, match=r"features of the actions \(items\)"):
        piwo.Auto().fit(piwo.Log.from_arrays(**rows, eligible=[[0, 1]] * 60))


def test_too_many_products_leave_the_logit_of_low_rank() -> None:
    rng = np.random.default_rng(0)
    log = piwo.Log.from_arrays(
        context=rng.normal(size=(80, 100)),
        action=rng.integers(0, 2, 80),
        reward=rng.integers(0, 2, 80),
        propensity=[0.5] * 80,
        eligible=[[0, 1]] * 80,
        items={"action": [0, 1], **{f"z{i}": [0.0, 1.0] for i in range(50)}},
    )
    assert [one.oracle.rank for one in for_items(log)] == [16]
    assert "conditional logit, IX gamma=0.01" in piwo.Auto().fit(log).path_


def test_an_incumbent_over_items_stays_if_nothing_is_better() -> None:
    log = BANDIT.log(300, random_state=1)
    best = piwo.policies.JointModel(
        BANDIT.weights,
        np.zeros(3),
        BANDIT.table,
        piwo.logs.Features.numeric(["z0", "z1", "z2"]),
    )
    running = piwo.policies.JointLinear(best, BANDIT.actions)
    learner = piwo.Auto(incumbent=running).fit(log)
    assert learner.chosen_ == "incumbent"
    assert same_policy(learner.policy_, running)


def test_without_a_reward_the_logging_policy_stays() -> None:
    log = piwo.Log.from_arrays(
        context=np.zeros((50, 1)),
        action=[0] * 50,
        reward=[0] * 50,
        propensity=[0.5] * 50,
        eligible=[[0, 1]] * 50,
        items={"action": [0, 1], "price": [1.0, 2.0]},
    )
    learner = piwo.Auto().fit(log)
    assert learner.chosen_ == "logging"
    assert not learner.certificate_.improves
