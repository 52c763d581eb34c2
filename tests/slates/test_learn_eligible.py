"""Slates learned from logs whose actions change: a twin by hand, and a world with a known best."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import piwo
from piwo import slates
from piwo.slates import Uniform

ITEMS = ["a", "b", "c", "d", "e"]
# P(click) of an item in the first slot, young readers and others; "e" is the best, seldom offered
INTEREST = np.array([[0.2, 0.5, 0.3, 0.1, 0.9], [0.6, 0.2, 0.4, 0.3, 0.9]])
POSITION = np.array([1.0, 0.5])
OFFERED = np.array([0.8, 0.8, 0.8, 0.8, 0.1])

Numbers = npt.NDArray[Any]


def world(n: int, seed: int) -> dict[str, Any]:
    """Rows of two slots, ranked uniformly among what is eligible, with independent clicks."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {"shown": [], "clicks": [], "could": [], "young": []}
    for _ in range(n):
        could = np.flatnonzero(rng.random(5) < OFFERED)
        while len(could) < 2:
            could = np.flatnonzero(rng.random(5) < OFFERED)
        young = int(rng.integers(2))
        shown = rng.permutation(could)[:2]
        clicks = rng.random(2) < INTEREST[young, shown] * POSITION
        made["shown"].append([ITEMS[i] for i in shown])
        made["could"].append([ITEMS[i] for i in could])
        made["clicks"].append(clicks.astype(float).tolist())
        made["young"].append(float(young))
    return made


def read(table: dict[str, Any]) -> slates.SlateLog:
    return slates.read(
        table,
        slate="shown",
        rewards="clicks",
        behavior=Uniform(ITEMS),
        eligible="could",
        context="young",
        actions=ITEMS,
    )


def test_the_learned_slate_is_nearly_the_best_eligible_one() -> None:
    table = world(12_000, 3)
    learned = slates.learn(read(table))
    fresh = world(3000, 8)
    values, best = [], []
    for could, young in zip(fresh["could"], fresh["young"], strict=True):
        interest = INTEREST[int(young), [ITEMS.index(x) for x in could]]
        best.append(np.sort(interest)[::-1][:2] @ POSITION)
        (shown,) = learned.policy.act([[young]], eligible=[could]).slates
        assert set(shown) <= set(could)
        assert len(set(shown)) == 2
        values.append(INTEREST[int(young), [ITEMS.index(x) for x in shown]] @ POSITION)
    assert np.mean(best) - np.mean(values) < 0.005
    # the value on held-out rows is that of the truth
    found = learned.evaluation
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < np.mean(values) < found.upper
    assert found.improvement_lower is not None
    assert found.improvement_lower > 0


def test_scores_are_those_of_a_regression_over_the_rows_where_an_item_is_eligible() -> None:
    table = world(400, 5)
    learned = slates.learn(read(table), score=piwo.IX(0.1), alpha=2.0).policy
    train = read(table).split(0.5, 0).train
    for place in range(2):
        gains: dict[str, list[tuple[float, float]]] = {x: [] for x in ITEMS}
        kept = [
            int(number)
            for rows in map(train.reader().read, train.source.fragments(list(table)))
            for part in rows
            for number in part.rows
        ]
        for i in kept:
            for item in table["could"][i]:
                gain = 0.0
                if table["shown"][i][place] == item:
                    gain = table["clicks"][i][place] / (1 / len(table["could"][i]) + 0.1)
                gains[item].append((table["young"][i], gain))
        for code, item in enumerate(ITEMS):
            x, g = np.array(gains[item]).T
            slope = ((x - x.mean()) * g).sum() / (((x - x.mean()) ** 2).sum() + 2.0)
            assert learned.coef[place, code, 0] == pytest.approx(slope, rel=1e-9)
            level = g.mean() - slope * x.mean()
            assert learned.intercept[place, code] == pytest.approx(level, rel=1e-9)


def test_a_slot_that_no_row_to_learn_from_fills_is_named() -> None:
    made = world(200, 0)
    longest = made["could"].index(next(x for x in made["could"] if len(x) > 2))
    for name in ("shown", "clicks"):
        made[name] = [x if i == longest else x[:1] for i, x in enumerate(made[name])]
    read = {"slate": "shown", "rewards": "clicks", "eligible": "could", "context": "young"}
    log = slates.read(made, behavior=Uniform(ITEMS), **read)
    refused = []
    for seed in range(8):
        try:
            slates.learn(log, random_state=seed)
        except piwo.DataError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 8
    assert all("to learn from fills slot 2" in one for one in refused)
