"""Slates whose slots can show different actions: values by a loop over rows, refusals, learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from piwo import DataError, UsageError, slates
from piwo.slates import Deterministic, EpsilonSlate, Factored, SlateLog, Uniform
from tests.slates.test_eligible import ITEMS, ORDER, TWO, greedy

DISJOINT = [["a", "b"], ["c", "d"]]
TABLE: dict[str, list[Any]] = {
    "s": [["a", "c"], ["b"], ["b", "a"], ["d", "b"]],
    "could": [
        DISJOINT,
        [["b", "d"]],
        [["b"], ["a", "c", "b"]],
        [["d", "a", "b"], ["a", "b", "c"]],
    ],
    "rs": [[1.0, 0.5], [1.0], [0.25, 1.0], [0.5, 1.0]],
    "mu": [[1 / 2, 1 / 2], [1 / 2], [1, 1 / 2], [1 / 4, 1 / 3]],
    "x": [0.0, 1.0, 2.0, 3.0],
}


def read(changes: dict[str, Any] | None = None, **options: Any) -> SlateLog:
    named = {"slate": "s", "eligible": "could", "rewards": "rs", "propensities": "mu", **options}
    return slates.read({**TABLE, **(changes or {})}, **named)


def shown_by(score: Any, could: list[list[str]]) -> list[str]:
    made: list[str] = []
    for slot, one in enumerate(could):
        made.append(max((x for x in sorted(one) if x not in made), key=lambda x: score(slot, x)))
    return made


def certain(score: Any) -> Any:
    def chances(could: list[list[str]], shown: list[str]) -> list[float]:
        return [float(x == y) for x, y in zip(shown_by(score, could), shown, strict=True)]

    return chances


def uniform(could: list[list[str]], shown: list[str]) -> list[float]:
    return [1 / len(set(one) - set(shown[:slot])) for slot, one in enumerate(could)]


def factored(could: list[list[str]], shown: list[str]) -> list[float]:
    return [TWO[slot][x] / sum(TWO[slot][y] for y in could[slot]) for slot, x in enumerate(shown)]


def explored(could: list[list[str]], shown: list[str]) -> list[float]:
    own = np.cumprod(certain(by_order)(could, shown))
    both = 0.75 * own + 0.25 * np.cumprod(uniform(could, shown))
    return (both / np.append(1.0, both[:-1])).tolist()


def by_order(_: int, label: str) -> int:
    return -ORDER.index(label)


POLICIES: dict[str, Any] = {
    "order": (Deterministic(ORDER), certain(by_order)),
    "greedy": (
        greedy(ITEMS),
        certain(lambda slot, x: greedy(ITEMS).intercept[slot, ITEMS.index(x)]),
    ),
    "uniform": (Uniform(ITEMS), uniform),
    "factored": (Factored(TWO), factored),
    "epsilon": (EpsilonSlate(Deterministic(ORDER), 0.25), explored),
}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_values_are_those_of_a_loop_over_rows(name: str) -> None:
    policy, twin = POLICIES[name]
    total = 0.0
    for could, shown, rewards, mu in zip(
        TABLE["could"], TABLE["s"], TABLE["rs"], TABLE["mu"], strict=True
    ):
        weights = np.cumprod(np.array(twin(could, shown)) / np.array(mu))
        total += float(weights @ np.array(rewards))
    found = slates.evaluate(read(), policy, estimator="cascade").value
    assert found == pytest.approx(total / 4, rel=1e-12)


def test_marginals_are_known_if_slots_share_no_item() -> None:
    table = {name: values[:2] for name, values in TABLE.items()}
    log = slates.read(
        table, slate="s", eligible="could", rewards="rs", propensities="mu", independent=True
    )
    # the logger itself
    found = slates.evaluate(log, Uniform(ITEMS), estimator="independent").value
    assert found == pytest.approx((1.5 + 1) / 2)
    with pytest.raises(UsageError, match="an item could be shown in several slots, whose lists"):
        slates.evaluate(read(independent=True), Uniform(ITEMS), estimator="independent")


def test_a_comparison_leaves_out_estimators_whose_probabilities_rows_leave_unknown() -> None:
    policies = {"uniform": Uniform(ITEMS), "order": Deterministic(ORDER)}
    found = slates.compare(read(independent=True), policies)
    why = "an item could be shown in several slots"
    lost = found.left_out["uniform"]
    assert [name for name, text in lost.items() if why in text] == ["independent", "pseudo-inverse"]
    assert not any(why in text for text in found.left_out["order"].values())
    by_name = [(one.name, one.estimator) for one in found.evaluations]
    assert by_name[:2] == [("uniform", "standard"), ("uniform", "cascade")]
    assert len(by_name) == 6
    # delta was divided before the rows were read
    assert found.delta_each == pytest.approx(0.05 / 8)
    assert "delta is shared by 8 intervals, 0.00625 each" in str(found.notes[0])
    values = {one.estimator: one.value for one in found.evaluations if one.name == "uniform"}
    alone = slates.evaluate(read(independent=True), policies["uniform"], estimator="cascade")
    assert values["cascade"] == alone.value
    with pytest.raises(UsageError, match=why):
        slates.compare(read(independent=True), policies, estimators=["standard", "independent"])


def test_a_position_has_the_lists_of_its_slot() -> None:
    log = read(independent=True, context="x")
    second = log.position(2)
    assert [len(log.position(1)), len(second)] == [4, 3]
    (batch,) = second.each_batch()
    assert batch.eligible is not None
    assert batch.eligible.sizes.tolist() == [2, 3, 3]
    big = {name: values * 40 for name, values in TABLE.items()}
    many = slates.read(
        big,
        slate="s",
        eligible="could",
        rewards="rs",
        propensities="mu",
        independent=True,
        context="x",
    )
    assert slates.learn(many).policy.most_slots == 2


REFUSED = {
    "does not hold one list for each slot in 1 row (row number from 0: 1)": [
        DISJOINT,
        [],
        *TABLE["could"][2:],
    ],
    "'s' shows actions that 'could' does not list in 1 row": [
        [["a", "b"], ["a", "d"]],
        *TABLE["could"][1:],
    ],
    "has no eligible action in 1 row": [*TABLE["could"][:3], [["d"], []]],
    "lists an action twice in 1 row": [*TABLE["could"][:3], [["d", "d"], ["b"]]],
    "row 3: a ranking of the items may leave none for slot 2": [
        *TABLE["could"][:3],
        [["d", "b"], ["b"]],
    ],
}


@pytest.mark.parametrize("message", sorted(REFUSED))
def test_lists_that_cannot_be_are_refused(message: str) -> None:
    with pytest.raises(DataError) as refused:
        slates.evaluate(read({"could": REFUSED[message]}), Uniform(ITEMS))
    assert message.split(" (", maxsplit=1)[0] in str(refused.value)


def test_a_slot_without_a_choice_left_is_refused() -> None:
    changes = {"could": [*TABLE["could"][:3], [["d", "b"], ["b"]]]}
    for policy in (Deterministic(["b", "a", "c"]), Deterministic(["a", "c", "b"])):
        with pytest.raises(DataError, match=r"no eligible label left for slot 2"):
            slates.evaluate(read(changes), policy)
    scores = greedy(ITEMS)
    scores.intercept[0] = [0.0, 9.0, 0.0, 1.0]
    with pytest.raises(DataError, match=r"row 3: .* no eligible action left for slot 2"):
        slates.evaluate(read(changes), scores)
