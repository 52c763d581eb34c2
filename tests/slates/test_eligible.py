"""Slates whose actions change from row to row: values by hand, a naive twin, refusals, coverage."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from piwo import DataError, UsageError, slates
from piwo.logs.actions import Actions
from piwo.slates import Deterministic, EpsilonSlate, Factored, SlateLog, SlatePolicy, Uniform
from piwo.slates.greedy import GreedySlate
from tests.slates.simulator import misses

TABLE: dict[str, list[Any]] = {
    "s": [["a", "b"], ["c"], ["b", "c"]],
    "could": [["b", "a", "d"], ["c", "a"], ["c", "d", "b", "a"]],
    "rs": [[1.0, 0.0], [1.0], [0.0, 1.0]],
    "mu": [[1 / 3, 1 / 2], [1 / 2], [1 / 4, 1 / 3]],
    "alone": [[1 / 3, 1 / 3], [1 / 2], [1 / 4, 1 / 4]],
}


def read(changes: dict[str, Any] | None = None, **options: Any) -> SlateLog:
    named = {"slate": "s", "eligible": "could", "rewards": "rs", "propensities": "mu", **options}
    return slates.read({**TABLE, **(changes or {})}, **named)


def test_values_by_hand() -> None:
    log = read(marginals="alone")
    assert log.actions.labels == ("a", "b", "c", "d")
    # of c, b, a the rows could show b, a; c; and c, b: only the second one did, w = 1/0.5
    assert slates.evaluate(log, Deterministic(["c", "b", "a"])).value == pytest.approx(2 / 3)
    # the logger was uniform over what could be shown
    for estimator in ("standard", "cascade", "independent"):
        found = slates.evaluate(log, Uniform(["d", "c", "b", "a"]), estimator=estimator)
        assert found.value == pytest.approx(1.0)
    # uniform over a, b, c alone: weights 3/2, (3/2) 2 | 1 | 4/3, (4/3) (3/2)
    found = slates.evaluate(log, Uniform(["a", "b", "c"]), estimator="cascade")
    assert found.value == pytest.approx((3 / 2 + 1 + 2) / 3)
    # .5/.75 of a in row 0, which lacks c; .25/.75 of c in row 1; .5 of c in slot 2 of row 2
    mixed = Factored([{"a": 0.5, "b": 0.25, "c": 0.25}, {"b": 0.5, "c": 0.5}])
    found = slates.evaluate(log, mixed, estimator="independent")
    assert found.value == pytest.approx((3 * 2 / 3 + 2 / 3 + 4 * 0.5) / 3)


def test_a_uniform_logger_ranks_what_is_eligible() -> None:
    one = read()
    two = read(propensities=None, behavior=Uniform(["a", "b", "c", "d"]))
    target = Deterministic(["c", "b", "a"])
    assert slates.evaluate(one, target).value == slates.evaluate(two, target).value
    with pytest.raises(UsageError, match="uniform rankings presumes one list of items, and here"):
        slates.evaluate(two, target, estimator="pseudo-inverse")
    independent = read(independent=True)
    # slots drawn independently need no list: 0 + 0 - 1 in rows 0 and 2, and 1/.5 in row 1
    found = slates.evaluate(independent, target, estimator="pseudo-inverse")
    assert found.value == pytest.approx((-1 + 2 - 1) / 3, abs=1e-12)


def greedy(actions: list[str]) -> GreedySlate:
    scores = np.array([[1.0, 2.0, 0.5, 2.0], [0.0, 1.0, 3.0, 2.0]])
    return GreedySlate(Actions(actions), None, np.zeros((2, 4, 0)), scores)


ORDER = ["d", "b", "c", "a"]
ITEMS = ["a", "b", "c", "d"]
TWO = [{"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}, {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}]


def of_order(could: list[str], length: int) -> list[str]:
    return [x for x in ORDER if x in could][:length]


def of_scores(could: list[str], length: int) -> list[str]:
    policy, shown = greedy(ITEMS), []
    for slot in range(length):
        left = [x for x in sorted(could) if x not in shown]
        shown.append(max(left, key=lambda x: policy.intercept[slot, ITEMS.index(x)]))
    return shown


def certain(choice: Callable[[list[str], int], list[str]], could: Any, shown: Any) -> Any:
    same = [float(x == y) for x, y in zip(choice(could, len(shown)), shown, strict=True)]
    return same, same


def ranked(could: list[str], shown: list[str]) -> Any:
    m = len(could)
    return [1 / (m - slot) for slot in range(len(shown))], [1 / m] * len(shown)


def factored(could: list[str], shown: list[str]) -> Any:
    each = [TWO[i][x] / sum(TWO[i][y] for y in could) for i, x in enumerate(shown)]
    return each, each


def explored(could: list[str], shown: list[str]) -> Any:
    own, _ = certain(of_order, could, shown)
    other, alone = ranked(could, shown)
    begins = [
        0.75 * np.prod(own[:slot]) + 0.25 * np.prod(other[:slot]) for slot in range(len(shown) + 1)
    ]
    above = [b / a if a else 0.0 for a, b in itertools.pairwise(begins)]
    return above, [0.75 * x + 0.25 * y for x, y in zip(own, alone, strict=True)]


TWINS: dict[str, tuple[SlatePolicy, Callable[[list[str], list[str]], Any]]] = {
    "order": (Deterministic(ORDER), lambda could, shown: certain(of_order, could, shown)),
    "greedy": (greedy(ITEMS), lambda could, shown: certain(of_scores, could, shown)),
    "uniform": (Uniform(ITEMS), ranked),
    "factored": (Factored(TWO), factored),
    "epsilon": (EpsilonSlate(Deterministic(ORDER), 0.25), explored),
}


def drawn(rows: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(5)
    made: dict[str, list[Any]] = {name: [] for name in ("s", "could", "rs", "mu", "alone")}
    for _ in range(rows):
        could = rng.permutation(ITEMS)[: rng.integers(2, 5)].tolist()
        shown = rng.permutation(could)[: rng.integers(1, 3)].tolist()
        made["could"].append(could)
        made["s"].append(shown)
        made["rs"].append(rng.integers(0, 2, len(shown)).astype(float).tolist())
        above, alone = ranked(could, shown)
        made["mu"].append(above)
        made["alone"].append(alone)
    return made


@pytest.mark.parametrize("name", sorted(TWINS))
def test_values_are_those_of_a_loop_over_rows(name: str) -> None:
    table = drawn(300)
    log = slates.read(
        table,
        slate="s",
        eligible="could",
        rewards="rs",
        propensities="mu",
        marginals="alone",
    )
    policy, twin = TWINS[name]
    totals = {"standard": 0.0, "cascade": 0.0, "independent": 0.0}
    for could, shown, rewards, above, alone in zip(
        table["could"], table["s"], table["rs"], table["mu"], table["alone"], strict=True
    ):
        pi_above, pi_alone = twin(could, shown)
        cascade = np.cumprod(np.array(pi_above) / above)
        totals["standard"] += cascade[-1] * sum(rewards)
        totals["cascade"] += float(cascade @ rewards)
        totals["independent"] += float(np.array(pi_alone) / alone @ rewards)
    for estimator, total in totals.items():
        found = slates.evaluate(log, policy, estimator=estimator)
        assert found.value == pytest.approx(total / 300, rel=1e-12), estimator


def test_one_list_in_every_row_is_no_list() -> None:
    table = {
        "s": [["a", "b"], ["c", "a"]] * 20,
        "rs": [[1.0, 0.0], [0.0, 1.0]] * 20,
        "could": [["a", "b", "c"], ["c", "a", "b"]] * 20,
    }
    options: dict[str, Any] = {"slate": "s", "rewards": "rs", "behavior": Uniform(["a", "b", "c"])}
    plain, listed = slates.read(table, **options), slates.read(table, eligible="could", **options)
    for policy in (Deterministic(["c", "a"]), Uniform(["a", "b", "c"])):
        for estimator in ("standard", "cascade", "independent"):
            one = slates.evaluate(plain, policy, estimator=estimator)
            two = slates.evaluate(listed, policy, estimator=estimator)
            assert (one.value, one.lower, one.upper) == (two.value, two.lower, two.upper)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"could": [["a", "b"], ["a"], ["b", "c"]]}, r"'s' .* 'could' .* 0: 1\); such as 'c'"),
        ({"could": [["a", "b", "b"], ["c"], ["b", "c"]]}, r"'could' lists an .* 0\); .* as 'b'"),
        ({"could": [["a", "b"], [], ["b", "c"]]}, r"'could' has no eligible action .* 1\)"),
        ({"could": [["a", "b"], ["c", None], ["b", "c"]]}, r"missing or not in the action list"),
    ],
)
def test_rows_that_break_a_rule_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as raised:
        slates.evaluate(read(changes), Uniform(["a", "b", "c"]))
    assert "\n" not in str(raised.value)


def test_policies_that_cannot_fill_a_row_name_it() -> None:
    policies: tuple[tuple[SlatePolicy, str], ...] = (
        (Deterministic(["d", "c"]), r"row .*0.* shows 2 actions, .* has 1 eligible labels"),
        (Uniform(["c", "a"]), r"row .*0.* shows 2 actions, .* has 1 eligible items"),
        (Factored([{"b": 1.0}, {"d": 1.0}]), r"row .*1.* probability 0 in slot 1"),
    )
    for policy, rule in policies:
        with pytest.raises(DataError, match=rule):
            slates.evaluate(read(), policy)
    listed = {"best": [["a", "c"], ["c"], ["b", "c"]]}
    with pytest.raises(DataError, match=r"'best' shows actions that 'could' .* 0\); such as 'c'"):
        slates.evaluate(read(listed), Deterministic("best"))


def test_columns_that_are_no_lists_of_labels() -> None:
    with pytest.raises(DataError, match=r"column 'could' has .*, expected lists of the actions"):
        read({"could": ["a", "b", "c"]})
    with pytest.raises(DataError, match=r"'could' has lists of .* and 's' lists of"):
        read({"could": [[1], [2], [3]]})
    with pytest.raises(DataError, match=r"no column 'cold' for the eligible actions"):
        read(None, eligible="cold")
    with pytest.raises(UsageError, match=r"column 's' has another role"):
        read(None, eligible="s")
    with pytest.raises(UsageError, match=r"eligible=1 is not a column name"):
        read(None, eligible=1)


def test_conditions_and_positions_take_what_could_be_shown(tmp_path: Path) -> None:
    log = read(marginals="alone")
    position = log.position(2)
    assert position.columns.eligible == "could"
    assert len(position) == 2
    found = slates.by_position(log)
    # uniform over what is eligible, as the logger
    assert [one.value for one in found.positions] == pytest.approx([2 / 3, 1 / 2])
    whole = read(rewards=None, reward="r", independent=True, changes={"r": [1.0, 0.0, 1.0]})
    assert slates.write_dsjson(whole, tmp_path / "log.dsjson").rows == 3


STRENGTH = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 1.5}
QUALITY = {"a": 0.7, "b": 0.3, "c": 0.2, "d": 0.6}
SETS = [list(x) for size in (2, 3, 4) for x in itertools.combinations(ITEMS, size)]


def chances(shown: list[str]) -> list[float]:
    """Who liked what is above has less left for the second slot."""
    return [QUALITY[shown[0]], 0.8 * QUALITY[shown[1]] * (1.2 - QUALITY[shown[0]])]


def simulated(rows: int, seed: int) -> SlateLog:
    """Two slots, drawn in turn in proportion to strengths, of a set that is drawn uniformly."""
    rng = np.random.default_rng(seed)
    made: dict[str, list[Any]] = {name: [] for name in ("s", "could", "rs", "mu")}
    for _ in range(rows):
        could = SETS[rng.integers(len(SETS))]
        left, shown, mu = list(could), [], []
        for _ in range(2):
            weights = np.array([STRENGTH[x] for x in left])
            place = int(rng.choice(len(left), p=weights / weights.sum()))
            mu.append(float(weights[place] / weights.sum()))
            shown.append(left.pop(place))
        made["could"].append(could)
        made["s"].append(shown)
        made["mu"].append(mu)
        made["rs"].append((rng.random(2) < chances(shown)).astype(float).tolist())
    return slates.read(made, slate="s", eligible="could", rewards="rs", propensities="mu")


def truth_of(policy: Callable[[list[str], list[str]], Any]) -> float:
    total = 0.0
    for could in SETS:
        for shown in itertools.permutations(could, 2):
            above, _ = policy(could, list(shown))
            total += np.prod(above) * sum(chances(list(shown)))
    return float(total / len(SETS))


@pytest.mark.statistics
@pytest.mark.parametrize("name", ["order", "uniform", "epsilon"])
def test_intervals_cover_the_truth(name: str) -> None:
    policy, twin = TWINS[name]
    truth, wrong, narrow, values = truth_of(twin), 0, 0, []
    for seed in range(200):
        found = slates.evaluate(simulated(200, seed), policy, estimator="cascade", delta=0.1)
        wrong += misses(found, truth)
        narrow += found.upper is not None and found.upper - (found.lower or 0.0) < 1.0
        assert found.value is not None
        values.append(found.value)
    # Of 200 intervals at 90 %, more than 33 wrong ones have a probability below .002.
    assert wrong <= 33
    assert narrow > 100
    error = np.std(values) / np.sqrt(200)
    assert abs(np.mean(values) - truth) < 4 * error
    print(name, truth, np.mean(values), wrong)


ACTED = [["d", "a", "c"], ["b", "a"], ["c", "a", "d", "b"]]


@pytest.mark.parametrize("name", sorted(TWINS))
def test_acting_shows_eligible_actions_with_their_probabilities(name: str) -> None:
    policy, twin = TWINS[name]
    # every policy fills two of the slots; a label that it lacks is not shown
    lists = [[*one, "z"] for one in ACTED] * 2000
    made = policy.act(None, 11, n=len(lists), slots=2, eligible=lists)
    counts: dict[tuple[int, tuple[str, ...]], int] = {}
    for i, (shown, above, alone) in enumerate(
        zip(made.slates, made.propensities, made.marginals, strict=True)
    ):
        row = i % 3
        pi_above, pi_alone = twin(ACTED[row], shown)
        assert above == pytest.approx(pi_above, abs=1e-12)
        assert alone == pytest.approx(pi_alone, abs=1e-12)
        key = row, tuple(shown)
        counts[key] = counts.get(key, 0) + 1
    for (_, shown), count in counts.items():
        assert name == "factored" or len(set(shown)) == 2
        assert count > 0
    for row, could in enumerate(ACTED):
        for shown in itertools.product(could, repeat=2):
            if name != "factored" and shown[0] == shown[1]:
                continue
            chance = float(np.prod(twin(could, list(shown))[0]))
            share = counts.get((row, shown), 0) / 2000
            assert abs(share - chance) < 4 * np.sqrt(chance * (1 - chance) / 2000) + 1e-12
    again = policy.act(None, 11, n=len(lists), slots=2, eligible=lists)
    assert again == made


def test_acting_fills_what_can_be_filled() -> None:
    order = Deterministic(ORDER)
    assert order.act(n=2, eligible=[["a"], ["a", "b", "d"]]).slates == [["a"], ["d", "b", "a"]]
    assert order.act(n=2, eligible=["b", "c"]).slates == [["b", "c"]] * 2
    assert [len(x) for x in Uniform(ITEMS).act(n=2, eligible=[["a"], ["a", "b"]]).slates] == [1, 2]
    assert [len(x) for x in greedy(ITEMS).act(n=2, eligible=[["a"], ITEMS]).slates] == [1, 2]
    # another order of actions, and items that the policy itself does not show
    mixed = EpsilonSlate(Deterministic(["b", "a"]), 0.5, ["d", "a", "b", "c"])
    made = mixed.act(n=400, random_state=2, eligible=["c", "b", "d"])
    assert {len(x) for x in made.slates} == {1}
    shares = [sum(x == [y] for x in made.slates) / 400 for y in "bcd"]
    assert shares == pytest.approx([2 / 3, 1 / 6, 1 / 6], abs=0.1)
    for above, shown in zip(made.propensities, made.slates, strict=True):
        assert above == pytest.approx([2 / 3] if shown == ["b"] else [1 / 6])


REFUSED = {
    "row 1: the policy has 1 eligible actions for 2 slots; leave out slots": (
        Deterministic(ORDER),
        {"slots": 2, "eligible": [["a", "b"], ["a", "z"]]},
    ),
    "row 1: no eligible action is an action of the policy": (
        Uniform(ITEMS),
        {"eligible": [["a", "b"], ["z"]]},
    ),
    "row 0: the policy has 0 eligible actions for 1 slots; give it one of its own": (
        EpsilonSlate(Deterministic(["a"]), 0.5, ITEMS),
        {"eligible": [["b"], ["a"]]},
    ),
    "row 1: the policy gives each eligible action probability 0 in slot 1": (
        Factored([{"a": 1.0}, {"b": 1.0}]),
        {"eligible": [["a", "b"], ["b"]]},
    ),
    "listed twice": (Uniform(ITEMS), {"eligible": [["a", "a"], ["b"]]}),
    "has 1 lists, expected one for each of 2 rows": (Uniform(ITEMS), {"eligible": [["a"]]}),
}


@pytest.mark.parametrize("message", sorted(REFUSED))
def test_acting_refuses_what_it_cannot_fill(message: str) -> None:
    policy, options = REFUSED[message]
    with pytest.raises((DataError, UsageError)) as refused:
        policy.act(n=2, **options)
    assert message in str(refused.value)
