"""MIPS: by hand, beside a naive twin, right under its assumption and biased otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo import UsageError
from piwo.estimators import mips

CATEGORIES = {"a": "low", "b": "low", "z": "high"}


def by_hand(**options: Any) -> piwo.Log:
    return piwo.Log.from_arrays(
        action=["a", "b", "z", "z"],
        reward=[1.0, 0.5, 1.0, 0.0],
        actions=["a", "b", "z"],
        **options,
    )


def test_exact_weights_worked_by_hand() -> None:
    log = by_hand(propensities=[[0.2, 0.3, 0.5]] * 3 + [[0.1, 0.1, 0.8]])
    found = mips(log, [[0.6, 0.0, 0.4]] * 4, CATEGORIES)
    # low: .6/.5 = 1.2 for a and b alike; high: .4/.5 = .8, and .4/.8 = .5 in the last row
    assert found.value == pytest.approx((1.2 * 1.0 + 1.2 * 0.5 + 0.8 * 1.0) / 4)
    assert found.mean_weight == pytest.approx((1.2 + 1.2 + 0.8 + 0.5) / 4)
    assert found.max_weight == pytest.approx(1.2)
    assert found.exact
    assert found.categories == 2


def test_estimated_weights_worked_by_hand() -> None:
    log = by_hand(propensity=[0.2, 0.3, 0.5, 0.8])
    found = mips(log, [[0.6, 0.0, 0.4]] * 4, CATEGORIES)
    # low: mean of .6/.2 and 0 is 1.5; high: mean of .8 and .5 is .65
    assert found.value == pytest.approx((1.5 * (1.0 + 0.5) + 0.65 * 1.0) / 4)
    assert not found.exact
    assert any(note.kind == "estimated-weights" for note in found.notes)


def test_one_category_each_is_importance_weighting() -> None:
    rng = np.random.default_rng(0)
    mu = rng.dirichlet(np.ones(3), 300)
    action = np.array([rng.choice(3, p=p) for p in mu])
    log = piwo.Log.from_arrays(
        action=action,
        reward=rng.uniform(-1, 3, 300),
        propensities=mu,
        actions=[0, 1, 2],
        reward_range=(-1, 3),
    )
    pi = rng.dirichlet(np.ones(3), 300)
    found = mips(log, pi, {0: "x", 1: "y", 2: "z"})
    plain = piwo.evaluate(log, pi)
    assert found.value == pytest.approx(plain.value)
    assert found.standard_error == pytest.approx(plain.standard_error)
    assert found.ess == pytest.approx(plain.ess)


def test_one_category_for_all_is_the_mean_reward() -> None:
    log = by_hand(propensities=[[0.2, 0.3, 0.5]] * 4)
    found = mips(log, [[0.6, 0.0, 0.4]] * 4, dict.fromkeys("abz", 1))
    assert found.value == pytest.approx(2.5 / 4)


def simulated(inside: float, full: bool, seed: int = 0) -> tuple[piwo.Log, Any, float]:
    """20 actions in two categories; `inside`: how much rewards differ inside a category."""
    rng = np.random.default_rng(seed)
    n, items = 20_000, 20
    category = np.arange(items) % 2
    place = np.linspace(-1, 1, items)
    mu = rng.dirichlet(np.full(items, 5.0))
    # the target prefers the last actions of each category
    pi = np.exp(3.0 * place) / np.exp(3.0 * place).sum()
    chance = 0.3 + 0.4 * category + inside * place
    action = rng.choice(items, n, p=mu)
    given: dict[str, Any] = {"propensity": mu[action]}
    if full:
        given = {"propensities": np.tile(mu, (n, 1))}
    log = piwo.Log.from_arrays(
        action=action,
        reward=(rng.random(n) < chance[action]) * 1.0,
        actions=list(range(items)),
        **given,
    )
    return log, piwo.policies.Tabular(pi, log.actions), float(pi @ chance)


@pytest.mark.parametrize("full", [True, False])
def test_right_if_the_category_says_all_and_biased_otherwise(full: bool) -> None:
    names = {i: i % 2 for i in range(20)}
    log, policy, truth = simulated(0.0, full)
    found = mips(log, policy, names)
    assert found.standard_error is not None
    assert found.value == pytest.approx(truth, abs=4 * found.standard_error)
    plain = piwo.evaluate(log, policy)
    assert plain.standard_error is not None
    if full:
        assert found.standard_error < plain.standard_error / 2
    log, policy, truth = simulated(0.25, full)
    found = mips(log, policy, names)
    assert found.standard_error is not None
    assert abs(found.value - truth) > 5 * found.standard_error


def test_the_standard_error_of_estimated_weights_is_that_of_the_estimate() -> None:
    names = {i: i % 2 for i in range(20)}
    values, said = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mu, pi = np.full(20, 0.05), np.linspace(0.0, 0.1, 20)
        action = rng.choice(20, 500, p=mu)
        log = piwo.Log.from_arrays(
            action=action,
            reward=(rng.random(500) < 0.3 + 0.4 * (action % 2)) * 1.0,
            propensity=mu[action],
            actions=list(range(20)),
        )
        found = mips(log, piwo.policies.Tabular(pi / pi.sum(), log.actions), names)
        values.append(found.value)
        said.append(found.standard_error)
    assert np.mean(said) == pytest.approx(np.std(values), rel=0.25)


def test_what_is_refused() -> None:
    log = by_hand(propensities=[[0.2, 0.3, 0.5]] * 4)
    with pytest.raises(UsageError, match=r"no category for 1 of the 3 actions \('z'\)"):
        mips(log, [[0.6, 0.0, 0.4]] * 4, {"a": 1, "b": 1})
    with pytest.raises(UsageError, match="the weight of a category needs those of all its"):
        mips(log, [0.6, 0.0, 0.4, 0.4], CATEGORIES)
    with pytest.raises(UsageError, match="categories is"):
        mips(log, [[0.6, 0.0, 0.4]] * 4, ["low", "low", "high"])  # type: ignore[arg-type]


LISTS = [["a", "z"], ["z", "b", "a"], ["b", "z"], ["z", "a"]]


def test_a_category_has_the_weight_of_its_eligible_actions() -> None:
    mu = [[0.2, 0.8], [0.5, 0.2, 0.3], [0.25, 0.75], [0.6, 0.4]]
    rows = {"action": ["a", "b", "z", "z"], "r": [1.0, 0.5, 1.0, 0.0], "could": LISTS, "mu": mu}
    log = piwo.read(pa.table(rows), reward="r", eligible="could", propensities="mu")
    found = mips(log, piwo.policies.Uniform(log.actions), CATEGORIES)
    # low: (1/2)/.2, then (2/3)/(.2 + .3) of a and b; high: (1/2)/.75 and (1/2)/.6
    weights = [2.5, (2 / 3) / 0.5, 0.5 / 0.75, 0.5 / 0.6]
    assert found.exact
    assert found.mean_weight == pytest.approx(sum(weights) / 4)
    assert found.value == pytest.approx((weights[0] + 0.5 * weights[1] + weights[2]) / 4)
    logger = mips(log, piwo.policies.Logging(log.actions), CATEGORIES)
    assert logger.mean_weight == pytest.approx(1.0)
    assert logger.value == pytest.approx(2.5 / 4)


def test_estimated_weights_of_eligible_actions_by_hand() -> None:
    log = by_hand(propensity=[0.2, 0.2, 0.75, 0.6], eligible=LISTS)
    found = mips(log, piwo.policies.Uniform(log.actions), CATEGORIES)
    # low: mean of (1/2)/.2 and (1/3)/.2; high: mean of (1/2)/.75 and (1/2)/.6
    low, high = (2.5 + 5 / 3) / 2, (0.5 / 0.75 + 0.5 / 0.6) / 2
    assert found.value == pytest.approx((1.5 * low + high) / 4)
    assert not found.exact
    assert any("list of eligible" in note for note in found.notes)


def test_changing_lists_against_loops_and_the_truth() -> None:
    # Rewards depend on the category alone; items of a category are interchangeable.
    rng = np.random.default_rng(7)
    n, count = 4000, 12
    kind = np.arange(count) % 3
    rows: dict[str, list[Any]] = {name: [] for name in ("action", "reward", "could", "mu", "pi")}
    truth, earned = 0.0, []
    for _ in range(n):
        could = rng.permutation(count)[: rng.integers(3, 8)]
        mu, pi = rng.dirichlet(np.ones(len(could)), 2)
        taken = int(rng.choice(len(could), p=mu))
        chance = np.array([0.2, 0.5, 0.9])
        reward = float(rng.random() < chance[kind[could[taken]]])
        truth += float(pi @ chance[kind[could]]) / n
        same = [j for j in range(len(could)) if kind[could[j]] == kind[could[taken]]]
        earned.append(reward * sum(pi[j] for j in same) / sum(mu[j] for j in same))
        full = np.zeros(count)
        full[could] = pi
        values = (int(could[taken]), reward, could.tolist(), mu.tolist(), full)
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    policy = np.array(rows.pop("pi"))
    log = piwo.read(pa.table(rows), eligible="could", propensities="mu", actions=range(count))
    found = mips(log, policy, {a: int(kind[a]) for a in range(count)})
    assert found.value == pytest.approx(np.mean(earned), rel=1e-12)
    assert found.lower is not None
    assert found.lower < truth < found.upper
    # far narrower than weights of actions
    plain = piwo.evaluate(log, policy, interval="normal")
    assert found.standard_error < 0.8 * plain.standard_error


def test_categories_that_are_no_categories() -> None:
    log = by_hand(propensities=[[0.2, 0.3, 0.5]] * 4)
    lists: dict[Any, Any] = {"a": {"low"}, "b": "low", "z": "high"}
    with pytest.raises(UsageError, match=r"gives 'a' the category .*, expected text, a number"):
        mips(log, [[0.6, 0.0, 0.4]] * 4, lists)
    twice: dict[Any, Any] = {0: "x", "0": "y", 1: "x"}
    log = piwo.Log.from_arrays(action=[0, 1], reward=[1, 0], propensity=[0.5, 0.5])
    with pytest.raises(UsageError, match="has two labels that read '0'"):
        mips(log, [0.5, 0.5], twice)


def test_a_discrete_embedding_is_the_published_estimator() -> None:
    # w(x, e) = sum_a pi(a|x) p(e|a) / sum_a mu(a|x) p(e|a), p(e|a) the product over dimensions
    rng = np.random.default_rng(3)
    n, count = 500, 30
    sizes = (3, 2, 4)
    embedding = np.stack([rng.integers(0, size, count) for size in sizes], axis=1)
    mu, pi = rng.dirichlet(np.ones(count), n), rng.dirichlet(np.ones(count), n)
    action = np.array([rng.choice(count, p=p) for p in mu])
    reward = rng.random(n)
    p_e_a = [np.eye(size)[embedding[:, d]] for d, size in enumerate(sizes)]
    earned = []
    for t in range(n):
        chance = np.ones(count)
        for d in range(len(sizes)):
            chance *= p_e_a[d][:, embedding[action[t], d]]
        earned.append(reward[t] * (pi[t] @ chance) / (mu[t] @ chance))
    names = {f"d{d}": embedding[:, d] for d in range(3)}
    items = {"action": np.arange(count), **names, "all": embedding.tolist()}
    log = piwo.Log.from_arrays(
        action=action, reward=reward, propensities=mu, actions=list(range(count)), items=items
    )
    vectors: dict[Any, Any] = dict(enumerate(embedding))
    for categories in (vectors, "all", ["d0", "d1", "d2"]):
        found = mips(log, pi, categories)
        assert found.value == pytest.approx(np.mean(earned), abs=1e-9)
        assert found.exact
        assert found.categories == len(np.unique(embedding, axis=0))


def test_a_joint_category_by_hand_and_embeddings_that_are_none() -> None:
    log = by_hand(propensities=[[0.2, 0.3, 0.5]] * 3 + [[0.1, 0.1, 0.8]])
    policy = [[0.6, 0.0, 0.4]] * 4
    # a and b share both parts: 1.2, 1.2, .8 and .5 as by their category
    both: dict[Any, Any] = {"a": ("low", 1), "b": ["low", 1.0], "z": np.array([2.0, 0.5])}
    assert mips(log, policy, both).value == pytest.approx((1.2 + 0.6 + 0.8) / 4)
    # they differ in one: weights of actions, .6/.2, 0, .4/.5 and .4/.8
    both["b"] = ("low", 2)
    with pytest.raises(UsageError, match="continuous embedding: each of the 3 actions has its own"):
        mips(log, policy, both)
    both["z"] = ("low", 3)
    assert mips(log, policy, both).value == pytest.approx((3.0 + 0.8) / 4)
    for missing in (("low", float("nan")), None, [1, None]):
        both["z"] = missing
        with pytest.raises(UsageError, match="gives 'z' a category that is missing or has NaN"):
            mips(log, policy, both)
    with pytest.raises(UsageError, match="the log was read without"):
        mips(log, policy, [])


@pytest.mark.parametrize("full", [True, False])
def test_propensities_that_are_contradicted_leave_no_interval(full: bool) -> None:
    rng = np.random.default_rng(1)
    action = rng.integers(0, 3, 600)
    given: dict[str, Any] = {"propensity": np.full(600, 0.05)}
    if full:
        given = {"propensities": np.tile([0.05, 0.15, 0.8], (600, 1))}
    log = piwo.Log.from_arrays(action=action, reward=rng.random(600), actions=[0, 1, 2], **given)
    found = mips(log, piwo.policies.Constant(0, log.actions), {0: "x", 1: "x", 2: "y"})
    assert found.propensity_p < 1e-3
    assert found.lower is found.upper is None
    assert found.guarantee == "none"
    assert found.no_interval is not None
    assert found.no_interval.kind == "contradicted"
    assert found.notes[0] == found.no_interval
    assert "(mips), no interval\n" in str(found)


def test_a_policy_that_was_learned_from_these_rows_has_no_interval() -> None:
    rng = np.random.default_rng(2)
    action = rng.integers(0, 3, 400)
    log = piwo.Log.from_arrays(
        action=action,
        reward=(rng.random(400) < 0.2 + 0.2 * action) * 1.0,
        propensities=np.full((400, 3), 1 / 3),
        context=rng.random((400, 1)),
        actions=[0, 1, 2],
    )
    parts = log.split(0.5)
    learned = piwo.PIWO(certificate=None).fit(parts.train).policy_
    names = {0: "x", 1: "x", 2: "y"}
    found = mips(parts.train, learned, names)
    assert found.no_interval is not None
    assert found.no_interval.kind == "in-sample"
    assert found.lower is None
    assert mips(parts.test, learned, names).lower is not None


def test_a_dropped_interval_says_why() -> None:
    rows = {"action": ["a", "b", "z"] * 20, "reward": [1, 0, 1] * 20, "propensity": [0.5] * 60}
    log = piwo.Log.from_arrays(**rows, unit=list(range(60)), actions=["a", "b", "z"])
    found = mips(log, piwo.policies.Uniform(log.actions), CATEGORIES)
    assert found.lower is None
    assert found.no_interval is not None
    assert found.no_interval.kind == "no-standard-error"
    assert "takes every category" in str(found)


def test_rows_that_were_chosen_by_their_rewards_have_no_interval() -> None:
    rows = {"action": ["a", "b", "z"] * 20, "reward": [1, 0, 0.5] * 20, "propensity": [0.5] * 60}
    log = piwo.read(pa.table(rows), where="reward > 0.2", actions=["a", "b", "z"])
    found = mips(log, piwo.policies.Uniform(log.actions), CATEGORIES)
    assert found.lower is None
    assert found.no_interval is not None
    assert found.no_interval.kind == "condition"
    assert [note.kind for note in found.notes].count("condition") == 1
