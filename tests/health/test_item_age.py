"""Weights by the age of actions: by hand, beside a naive twin, and a logger that misstates them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.reductions.item_ages import AGES


def made(n: int, seed: int, wrong: float = 1.0) -> dict[str, list]:
    """A new article every 50 rows; the propensities of the newest one are off by a factor."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list] = {x: [] for x in ("t", "action", "reward", "propensity", "could")}
    for t in range(n):
        newest = 4 + t // 50
        could = rng.permutation(np.arange(newest - 3, newest + 1))
        chance = np.where(could == newest, 0.4, 0.2)
        at = rng.choice(4, p=chance)
        rows["t"].append(t)
        rows["action"].append(int(could[at]))
        rows["reward"].append(int(rng.integers(2)))
        rows["propensity"].append(chance[at] * (wrong if could[at] == newest else 1.0))
        rows["could"].append(could.tolist())
    return rows


def checked(rows: dict[str, list]) -> Any:
    return piwo.check(piwo.read(pa.table(rows), eligible="could", time="t"))


def test_by_hand() -> None:
    rows = {
        "t": [0, 1, 2, 3],
        "action": ["a", "a", "b", "b"],
        "reward": [1, 0, 1, 1],
        "propensity": [1.0, 0.5, 0.5, 1.0],
        "could": [["a"], ["a", "b"], ["a", "b"], ["b"]],
    }
    young, middle, old = checked(rows).by_age
    assert (young.least, middle.least, old.least) == (0.0, 0.1, 0.3)
    # "a" is first listed at 0, "b" at 1: ages 0; 1/4, 0; 2/4, 1/4; 2/4 of the rows.
    assert (young.rows, middle.rows, old.rows) == (1, 2, 1)
    assert (young.weight, middle.weight, old.weight) == (0.25, 0.5, 0.25)
    assert (young.listed, middle.listed, old.listed) == (0.375, 0.25, 0.375)
    assert (young.mean_reward, middle.mean_reward, old.mean_reward) == (1.0, 0.5, 1.0)


def test_beside_a_naive_twin_in_any_order_of_the_rows() -> None:
    rows, n = made(500, 0), 500
    first: dict[int, int] = {}
    for t, could in zip(rows["t"], rows["could"], strict=True):
        for a in could:
            first[a] = min(first.get(a, t), t)
    weight, listed, squares = np.zeros((3, len(AGES)))
    for t, a, p, could in zip(
        rows["t"], rows["action"], rows["propensity"], rows["could"], strict=True
    ):
        ages = [np.searchsorted(AGES, (t - first[b]) / n, side="right") - 1 for b in could]
        share = np.bincount(ages, minlength=len(AGES)) / 4
        mine = np.zeros(len(AGES))
        mine[ages[could.index(a)]] = 0.25 / p
        weight, listed, squares = weight + mine, listed + share, squares + (mine - share) ** 2
    order = np.random.default_rng(1).permutation(n)
    found = checked({name: [values[i] for i in order] for name, values in rows.items()}).by_age
    for row in found:
        i = AGES.index(row.least)
        assert row.weight == pytest.approx(weight[i] / n)
        assert row.listed == pytest.approx(listed[i] / n)
        assert row.z == pytest.approx((weight[i] - listed[i]) / np.sqrt(squares[i]))


def test_propensities_that_are_wrong_for_new_items_are_found() -> None:
    fine, wrong = checked(made(3000, 2)), checked(made(3000, 2, wrong=0.5))
    assert not [one for one in fine.findings if one.kind == "item-age"]
    finding = next(one for one in wrong.findings if one.kind == "item-age")
    assert finding.severity == "care"
    assert "actions first eligible 0 % of the log ago" in finding.text
    assert "by age of the action" in str(wrong)


def test_only_with_times_and_changing_actions() -> None:
    rows = made(60, 3)
    assert piwo.check(piwo.read(pa.table(rows), eligible="could")).by_age == ()
    assert piwo.check(piwo.read(pa.table(rows), time="t")).by_age == ()
    units = pa.table({**rows, "user": [t // 2 for t in rows["t"]]})
    assert piwo.check(piwo.read(units, eligible="could", time="t", unit="user")).by_age == ()
