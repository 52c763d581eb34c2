"""Positions of slates: logs of one position, values by position, and learned slates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo import UsageError, slates

RELEVANCE = {"a": 0.2, "b": 0.4, "c": 0.8}
SEEN = (1.0, 0.5)
"""A reader looks at the second position half of the time."""


def clicks(rows: int, seed: int, context: bool = False) -> dict[str, list[Any]]:
    """Slates of a logger that puts good items first; clicks by relevance times examination."""
    rng = np.random.default_rng(seed)
    items = list(RELEVANCE)
    mu = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
    young = rng.random(rows) < 0.5
    shown = np.stack([rng.choice(3, rows, p=mu[slot]) for slot in range(2)], axis=1)
    relevance = np.array(list(RELEVANCE.values()))[shown]
    if context:
        # the young like a, the others c
        relevance = np.where(young[:, None], 0.9 - relevance, relevance)
    rewards = (rng.random((rows, 2)) < relevance * np.array(SEEN)) * 1.0
    made: dict[str, list[Any]] = {"s": [[items[i] for i in row] for row in shown]}
    made["rs"] = rewards.tolist()
    made["mu"] = mu[np.arange(2), shown].tolist()
    made["young"] = (young * 1.0).tolist()
    return made


def log_of(table: dict[str, list[Any]], **options: Any) -> slates.SlateLog:
    return slates.read(
        table, slate="s", rewards="rs", propensities="mu", independent=True, **options
    )


def test_the_log_of_a_position_has_its_rows() -> None:
    table = {"s": [["a", "b"], ["b"], ["a", "a"]], "rs": [[1, 2], [3], [4, 5]]}
    table["mu"] = [[0.5, 0.25], [0.5], [0.5, 0.75]]  # type: ignore[list-item]
    log = log_of(table | {"x": [7.0, 8.0, 9.0]}, context="x", reward_range=(0, 5))
    second = log.position(2)
    assert second.actions.labels == ("a", "b")
    (batch,) = second.each_batch()
    assert second.actions.take(batch.action).tolist() == ["b", "a"]
    assert (batch.reward * 5).tolist() == [2.0, 5.0]
    assert batch.propensity.tolist() == [0.25, 0.75]
    assert piwo.evaluate(second, piwo.policies.Uniform(second.actions)).rows == 2
    assert second.has_context


def test_errors_in_a_position_name_the_rows_of_the_slate_log() -> None:
    table = {"s": [["a"], ["a", "b"]], "rs": [[1.0], [1.0, 7.0]], "mu": [[0.5], [0.5, 0.5]]}
    log = log_of(table)
    with pytest.raises(piwo.DataError, match=r"column 'rs' has a reward outside .* 0: 1\)"):
        piwo.evaluate(log.position(2), piwo.policies.Uniform(["a", "b"]))


def test_positions_that_there_are_not() -> None:
    log = log_of(clicks(10, 0))
    with pytest.raises(UsageError, match=r"position is 3, and slates have up to 2 slots"):
        log.position(3)
    with pytest.raises(UsageError, match="position is 0"):
        log.position(0)
    whole = slates.read(
        {"s": [["a"]], "r": [1], "p": [0.5]}, slate="s", reward="r", slate_propensity="p"
    )
    with pytest.raises(UsageError, match="needs the reward of each slot"):
        whole.position(1)


def test_a_position_evaluated_by_itself_is_the_slot_of_the_whole() -> None:
    log = log_of(clicks(2000, 1))
    target = slates.Factored([{"a": 0.6, "b": 0.2, "c": 0.2}, {"a": 0.1, "b": 0.1, "c": 0.8}])
    whole = slates.evaluate(log, target, estimator="independent")
    each = slates.by_position(log, target, interval="mixture", delta=0.1)
    for place, one in enumerate(each.positions):
        policy = piwo.policies.Tabular(list(target.slots[place].values()), log.actions)
        alone = piwo.evaluate(log.position(place + 1), policy, interval="mixture", delta=0.05)
        assert one.value == pytest.approx(alone.value)
        assert one.lower == pytest.approx(alone.lower, rel=1e-6)
        assert one.upper == pytest.approx(alone.upper, rel=1e-6)
        assert one.logging_value == pytest.approx(alone.logging_value)
        assert whole.by_slot[place].value == pytest.approx(alone.value)


def test_position_bias_is_what_the_position_leaves_of_the_same_items() -> None:
    log = log_of(clicks(40_000, 2))
    found = slates.by_position(log)
    first, second = found.positions
    # The logger puts good items first, so that logged means exaggerate the bias.
    assert second.logging_value / first.logging_value < 0.4
    assert second.relative == pytest.approx(SEEN[1], abs=0.03)
    truth = np.mean(list(RELEVANCE.values()))
    for one, seen in zip(found.positions, SEEN, strict=True):
        assert one.lower is not None
        assert one.upper is not None
        assert one.lower < truth * seen < one.upper
    # The same items in the second position are better than what the logger puts there.
    assert second.improvement_lower is not None
    assert second.improvement_lower > 0
    assert "of the first" in str(found)


def test_learned_slates_show_no_item_twice_and_are_better() -> None:
    log = log_of(clicks(4000, 3, context=True), context="young")
    learned = slates.learn(log, holdout=0.5)
    assert learned.policy.act([[1.0], [0.0]]).slates == [["a", "b"], ["c", "b"]]
    found = learned.evaluation
    assert found.estimator == "independent"
    assert found.improvement_lower is not None
    assert found.improvement_lower > 0
    assert found.rows < 4000


def test_a_policy_that_was_learned_from_these_rows_gets_no_interval() -> None:
    log = log_of(clicks(2000, 3, context=True), context="young")
    learned = slates.learn(log)
    found = slates.evaluate(log, learned.policy, estimator="independent")
    assert found.no_interval is not None
    assert found.no_interval.kind == "in-sample"
    assert found.lower is found.improvement_lower is None
    other = log.split(0.5, seed=0)
    again = slates.evaluate(other.test, learned.policy, estimator="independent")
    assert again.lower == learned.evaluation.lower
    assert slates.evaluate(other.train, learned.policy, estimator="independent").lower is None
    elsewhere = log_of(clicks(2000, 4, context=True), context="young")
    assert slates.evaluate(elsewhere, learned.policy, estimator="independent").lower is not None


def test_what_learning_needs() -> None:
    with pytest.raises(UsageError, match="linear in the context"):
        slates.learn(log_of(clicks(100, 3)))
    table = {"s": [["a", "a"]], "rs": [[1, 1]], "mu": [[1.0, 1.0]], "x": [1.0]}
    with pytest.raises(UsageError, match="1 actions and 2 slots"):
        slates.learn(log_of(table, context="x"))


def test_the_parts_of_a_split_have_all_rows() -> None:
    log = log_of(clicks(1000, 5))
    parts = log.split(holdout=0.3, seed=4)
    assert parts.train_rows + parts.test_rows == 1000
    assert len(parts.test) == parts.test_rows
    with pytest.raises(UsageError, match="cannot be split"):
        parts.train.split()


def test_the_rows_of_a_query_are_copied_to_learn_from_them(tmp_path: Path) -> None:
    table = pa.table(clicks(1000, 5, context=True))
    pq.write_table(table, tmp_path / "log.parquet")
    query: Any = f"select * from '{tmp_path / 'log.parquet'}'"
    how: dict[str, Any] = {"slate": "s", "rewards": "rs", "propensities": "mu"}
    how |= {"independent": True, "context": "young"}
    log = slates.read(query, **how)
    found, of_file = slates.learn(log), slates.learn(slates.read(table, **how))
    assert found.evaluation.value == of_file.evaluation.value
    assert found.evaluation.lower == of_file.evaluation.lower
    # of the query itself, and of another copy, it has seen rows
    for rows in (log, log.split().test, log.split().train):
        again = slates.evaluate(rows, found.policy, estimator="independent")
        assert again.no_interval is not None
        assert again.no_interval.kind == "in-sample"


def test_the_last_rows_are_held_out_if_the_logger_learned() -> None:
    log = log_of(clicks(1000, 5, context=True), context="young", logger="learning")
    parts = log.split(holdout=0.3, seed=4)
    assert (parts.train_rows, parts.test_rows) == (700, 300)
    keep = parts.test.selector
    assert keep is not None
    assert keep.keep(np.array([0, 699, 700, 999])).tolist() == [False, False, True, True]
    learned = slates.learn(log, holdout=0.3)
    assert learned.evaluation.rows == 300
    assert learned.evaluation.lower is not None
    again = slates.evaluate(parts.train, learned.policy, estimator="independent")
    assert again.lower is None


def test_positions_have_no_interval_if_one_contradicts_its_propensities() -> None:
    table = clicks(400, 6)
    # the second position's are ten times too small
    table["mu"] = [[first, second / 10] for first, second in table["mu"]]
    found = slates.by_position(log_of(table))
    assert found.propensity_p < 1e-3
    assert found.guarantee == "none"
    assert found.no_interval is not None
    assert found.no_interval.kind == "contradicted"
    for one in found.positions:
        assert one.lower is one.upper is one.improvement_lower is None
    assert "no interval" in str(found)
    assert "no lower end" not in str(found)


def test_positions_of_a_policy_learned_from_these_rows_have_no_interval() -> None:
    log = log_of(clicks(2000, 3, context=True), context="young")
    learned = slates.learn(log)
    found = slates.by_position(log, learned.policy)
    assert found.no_interval is not None
    assert found.no_interval.kind == "in-sample"
    assert found.positions[0].lower is None
    assert slates.by_position(log.split(0.5).test, learned.policy).positions[0].lower is not None


def test_positions_carry_the_notes_of_an_evaluation() -> None:
    log = log_of(clicks(100, 7), slots=3)

    def kinds(**options: Any) -> list[str]:
        return [note.kind for note in slates.by_position(log, **options).notes]

    assert kinds() == ["assumptions", "independent-rows"]
    assert kinds(interval="normal") == ["assumptions", "asymptotic"]
    target = slates.Factored([{"a": 0.5, "z": 0.5}] * 2)
    log = log_of(clicks(100, 7), slots=3, actions=["a", "b", "c", "z"])
    assert kinds(policy=target, interval="mixture") == ["assumptions", "unsupported"]
    shorter = clicks(100, 7)
    shorter["s"][0], shorter["rs"][0], shorter["mu"][0] = ["a"], [1.0], [0.2]
    assert "lengths" in [note.kind for note in slates.by_position(log_of(shorter)).notes]


def test_without_marginal_probabilities_the_first_slot_is_known() -> None:
    table = {"s": [["a", "b"], ["b", "a"]] * 50, "rs": [[1, 0], [0, 1]] * 50, "x": [1.0] * 100}
    given = {"slate": "s", "rewards": "rs", "context": "x"}
    log = slates.read(
        {**table, "above": [[0.25, 1.0], [0.75, 1.0]] * 50}, propensities="above", **given
    )
    target = slates.Deterministic(["a", "b"])
    # by hand: a has reward 1 in half of the rows, and propensity 1/4
    first = piwo.evaluate(log.position(1), piwo.policies.Constant("a", log.actions))
    assert first.value == pytest.approx(0.5 / 0.25)
    calls = {
        "slates.learn": lambda: slates.learn(log),
        "slates.by_position": lambda: slates.by_position(log),
        "slates.check": lambda: slates.check(log),
        "slates.choose": lambda: slates.choose(log, target),
        "slates.adapt": lambda: slates.adapt(log, target),
        "the log of slot 2": lambda: log.position(2),
    }
    for called, call in calls.items():
        with pytest.raises(UsageError, match=f"^{called} needs the marginal probability"):
            call()
    with pytest.raises(UsageError, match=r"fewer: estimators=\['standard', 'cascade'\]$"):
        slates.choose(log, target)
    assert slates.choose(log, target, estimators=["standard", "cascade"]).evaluation.rows > 0
    # of whole slates nothing is known by slot
    whole = slates.read({**table, "p": [0.25, 0.75] * 50}, slate_propensity="p", **given)
    with pytest.raises(UsageError, match=r"regard to the others$"):
        whole.position(1)
