"""Acting with a list of eligible labels for each slot, and uniform rankings of such lists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from piwo import DataError, PiwoWarning, UsageError, slates
from piwo.slates import Deterministic, EpsilonSlate, Factored, SlatePolicy, Uniform
from tests.slates.test_eligible import ITEMS, ORDER, TWO, greedy

APART = [[["a", "b"], ["c", "d"]], [["d", "e", "c"]], [["b", "c"], ["c", "b"]]]
"""Lists of the slots of three rows; e is not an item of the policies."""
LAPPED = [[["a", "b"], ["b", "c"]], [["a", "b"], ["b", "a", "d"]]]
POLICIES: dict[str, SlatePolicy] = {
    "order": Deterministic(ORDER),
    "greedy": greedy(ITEMS),
    "uniform": Uniform(ITEMS),
    "factored": Factored(TWO),
    "epsilon": EpsilonSlate(Deterministic(ORDER), 0.25),
}


def rankings(could: list[list[str]]) -> dict[tuple[str, ...], float]:
    """The probability of each slate of a uniform ranking of lists of slots, by enumeration."""
    found: dict[tuple[str, ...], float] = {}
    for slate in itertools.product(*could):
        if len(set(slate)) == len(slate):
            p = 1.0
            for slot, one in enumerate(could):
                p /= len(set(one) - set(slate[:slot]))
            found[slate] = p
    return found


def test_slates_by_hand() -> None:
    # d, b, c, a in this order of preference: of a, b then of c, d; of d, e, c; of b, c twice
    made = Deterministic(ORDER).act(n=3, eligible=APART)
    assert made.slates == [["b", "d"], ["d"], ["b", "c"]]
    assert made.marginals == [[1.0, 1.0], [1.0], [1.0, 1.0]]
    assert Deterministic(ORDER).act(n=1, slots=1, eligible=APART[:1]).slates == [["b"]]
    # 2 of the first list, 2 of the second; of d and c alone; 1/2, and what is left
    drawn = Uniform(ITEMS).act(None, 0, n=3, eligible=APART)
    assert drawn.propensities == [[0.5, 0.5], [0.5], [0.5, 1.0]]
    assert drawn.marginals == [[0.5, 0.5], [0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("name", "could"),
    [
        *((name, APART) for name in sorted(POLICIES)),
        # uniform rankings of these have no marginals, see below
        *((name, LAPPED) for name in ("order", "greedy", "factored")),
    ],
)
def test_what_is_stated_is_what_a_log_of_it_has(name: str, could: list[Any]) -> None:
    policy = POLICIES[name]
    kept = [[[x for x in one if x in ITEMS] for one in row] for row in could]
    made = policy.act(None, 5, n=len(could), eligible=could)
    for slate, row in zip(made.slates, kept, strict=True):
        assert len(slate) == len(row)
        assert all(x in one for x, one in zip(slate, row, strict=True))
    table = {
        "slate": made.slates,
        "could": kept,
        "rs": [[1.0] * len(x) for x in made.slates],
        "ps": made.propensities,
        "ms": made.marginals,
    }
    named = {"rewards": "rs", "propensities": "ps", "marginals": "ms", "eligible": "could"}
    log = slates.read(table, **named, actions=ITEMS)
    # the parser and the restriction of evaluation give the same probabilities: all weights are 1
    for estimator in ("standard", "cascade", "independent"):
        found = slates.evaluate(log, policy, estimator=estimator, interval="normal")
        assert found.mean_weight == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 0.25])
def test_frequencies_are_those_of_an_enumeration(epsilon: float) -> None:
    could = [["a", "b", "c"], ["a", "b", "c"], ["d", "e"], ["c", "b", "a"], ["e", "d"]]
    items = ["a", "b", "c", "d", "e"]
    own = ("c", "a", "e", "b", "d")
    policy = EpsilonSlate(Deterministic(["c", "a", "e", "b", "d"]), epsilon, items)
    exact = {x: epsilon * p for x, p in rankings(could).items()}
    exact[own] += 1 - epsilon
    assert sum(exact.values()) == pytest.approx(1.0)
    n = 20_000
    made = policy.act(None, 3, n=n, eligible=[could] * n)
    counts: dict[tuple[str, ...], int] = {}
    for slate, above, marginal in zip(
        made.slates, made.propensities, made.marginals or [], strict=True
    ):
        shown = tuple(slate)
        counts[shown] = counts.get(shown, 0) + 1
        if counts[shown] == 1:
            assert np.prod(above) == pytest.approx(exact[shown])
            alone = [
                sum(p for x, p in exact.items() if x[slot] == label)
                for slot, label in enumerate(slate)
            ]
            assert marginal == pytest.approx(alone)
    for slate, p in exact.items():
        # five standard errors
        assert abs(counts[slate] / n - p) < 5 * np.sqrt(p / n)


def test_a_uniform_ranking_of_one_list_by_hand() -> None:
    # 3 slots, one list of 4 items: 1/4 in each slot, and the slate is one of 4 3 2 = 24
    could = [["a", "b", "c", "d"]] * 3
    table = {
        "slate": [["b", "d", "a"]],
        "could": [could],
        "rs": [[1.0, 0.0, 0.5]],
        "ps": [[1 / 5, 1 / 4, 1 / 3]],
        "ms": [[1 / 5, 1 / 5, 1 / 5]],
    }
    named = {"rewards": "rs", "propensities": "ps", "marginals": "ms", "eligible": "could"}
    log = slates.read(table, **named)
    uniform = Uniform(["a", "b", "c", "d"])
    assert len(rankings(could)) == 24
    alone = slates.evaluate(log, uniform, estimator="independent").value
    assert alone == pytest.approx(5 / 4 * (1 + 0 + 0.5))
    whole = slates.evaluate(log, uniform, estimator="standard").value
    assert whole == pytest.approx(60 / 24 * 1.5)


def test_lists_that_overlap_leave_marginals_unknown() -> None:
    with pytest.warns(PiwoWarning, match="an item could be shown in several slots, whose lists"):
        made = Uniform(ITEMS).act(None, 1, n=2, eligible=LAPPED)
    assert made.marginals is None
    for slate, above, could in zip(made.slates, made.propensities, LAPPED, strict=True):
        assert np.prod(above) == pytest.approx(rankings(could)[tuple(slate)])


def test_slots_are_left_something_by_those_that_share_a_list() -> None:
    # four slots, two lists of two: the third slot takes one of c, d, and the fourth the other
    could = [["a", "b"], ["a", "b"], ["c", "d"], ["c", "d"]]
    made = Uniform(ITEMS).act(None, 1, eligible=[could])
    assert made.propensities == [[0.5, 1.0, 0.5, 1.0]]
    assert made.marginals == [[0.5, 0.5, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("could", "slots", "message"),
    [
        ([[["a"], []]], None, r"row 0: no eligible action is an action of the policy \(slot 2\)"),
        ([[["a"], ["z"]]], None, r"row 0: no eligible action is .* \(slot 2\)"),
        ([[["a"], ["b", "b"]]], None, r"an eligible action is listed twice; .* \(slot 2\)"),
        ([[["a"], ["a"]]], None, "no eligible label left for slot 2"),
        ([[["a"]]], 2, "eligible has 1 lists for 2 slots; give one for each slot"),
        ([[]], None, "no eligible action"),
    ],
)
def test_lists_that_cannot_be_are_refused(could: Any, slots: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Deterministic(["a", "b"]).act(n=1, slots=slots, eligible=could)


def test_the_number_of_rows_is_checked() -> None:
    with pytest.raises(UsageError, match="has the lists of 2 rows, expected 3"):
        Deterministic(["a"]).act(n=3, eligible=[[["a"]]] * 2)
