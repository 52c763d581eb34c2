"""Policies learned from features of items that change by row act on no row without them."""

import re
from pathlib import Path

import numpy as np
import pytest

import piwo
from piwo.errors import UsageError
from piwo.logs import Features
from piwo.policies import EpsilonGreedy, JointModel, JointSoftmax, Policy

WITHOUT = "learned from features of items that change by row"


def rows(n: int = 400) -> dict[str, list]:
    """Return rows in which the cheaper of two offers is better if hungry; prices change by row."""
    rng = np.random.default_rng(5)
    hunger, price = rng.choice([-1.0, 1.0], n), rng.normal(size=(n, 2))
    action = rng.integers(2, size=n)
    reward = (hunger * price[np.arange(n), action] < 0).astype(int)
    return {
        "hunger": hunger.tolist(),
        "could": [["soup", "tea"]] * n,
        "offers": [[{"price": x} for x in pair] for pair in price.tolist()],
        "action": np.array(["soup", "tea"])[action].tolist(),
        "propensity": [0.5] * n,
        "reward": reward.tolist(),
    }


def read(items: str | None) -> piwo.Log:
    return piwo.read(rows(), context="hunger", eligible="could", items=items, logger="fixed")


@pytest.mark.parametrize(
    "oracle",
    [
        piwo.oracles.JointDirect(),
        piwo.oracles.JointRidge(),
        piwo.oracles.ConditionalLogit(),
        piwo.oracles.JointBoosting(),
    ],
)
def test_rows_without_features_are_refused(oracle: piwo.oracles.Oracle, tmp_path: Path) -> None:
    learned = oracle.solve(read("offers"), piwo.IW())
    learned.save(tmp_path / "p.piwo")
    table, without = rows(), read(None)
    X, could = {"hunger": table["hunger"]}, table["could"]
    right = np.where(
        np.array(X["hunger"]) * [a["price"] - b["price"] for a, b in table["offers"]] < 0,
        "soup",
        "tea",
    )
    for policy in (learned, piwo.load(tmp_path / "p.piwo"), EpsilonGreedy(learned, 0.0)):
        assert isinstance(policy, Policy)
        act = policy.act(X, eligible=could, items=table["offers"]).actions
        assert np.mean(act == right) > 0.7
        with pytest.raises(UsageError, match=WITHOUT):
            policy.act(X, eligible=could)
        with pytest.raises(UsageError, match=WITHOUT):
            policy.act(X)
        with pytest.raises(UsageError, match=re.escape("name their column (items")):
            piwo.evaluate(without, policy)
        # a table says what all rows have
        items = {"action": ["soup", "tea"], "price": [-9.0, 9.0]}
        assert policy.act({"hunger": [1.0]}, items=items).actions.tolist() == ["soup"]


def test_the_mark_is_of_the_model_and_its_file(tmp_path: Path) -> None:
    features = Features.numeric(["price"])
    for by_row in (False, True):
        model = JointModel([[1.0]], [0.0], [[1.0], [2.0]], features, by_row=by_row)
        policy = JointSoftmax(model, ["a", "b"])
        policy.save(tmp_path / "p.piwo")
        assert piwo.load(tmp_path / "p.piwo").model.by_row == by_row  # type: ignore[attr-defined]
        # files say it only if it is so, and those of before do not
        assert ("item_by_row" in policy.state().parameters) == by_row
    with pytest.raises(UsageError, match="by_row is True, but features is None"):
        JointModel([[1.0]], [0.0], [[1.0]], by_row=True)
