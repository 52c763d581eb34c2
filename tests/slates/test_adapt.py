"""User behaviors estimated by trees: by hand, beside a naive twin, and with a known value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from piwo import DataError, UsageError, slates
from piwo.logs.hashing import uniform
from piwo.oracles.bins import binned
from piwo.slates.behaviors import BehaviorTree, errors_of, fit_tree, sums_of

SLOTS = 4
TARGET = np.array([0.6, 0.3, 0.1])
QUALITY = np.array([0.6, 0.3, 0.1])


def world(
    rows: int, seed: int, drawn: bool = True
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Slates of 4 of 3 actions; what a slot earns depends on x: on all, on those above, on itself.

    Returns context, actions and mean rewards; the actions are the logger's, or the target's.
    """
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (rows, 3))
    action = rng.integers(0, 3, (rows, SLOTS)) if drawn else rng.choice(3, (rows, SLOTS), p=TARGET)
    tempting = (action == 0) * 1.0
    above = np.cumsum(tempting, axis=1) - tempting
    below = tempting.sum(axis=1, keepdims=True) - tempting - above
    above, below = above / np.maximum(1, range(SLOTS)), below / np.maximum(1, range(SLOTS)[::-1])
    others = np.where(x[:, 1:2] == 1, 0.4 * (above + below), 0.8 * above)
    chance = QUALITY[action] * (1.0 - np.where(x[:, :1] == 0, 0.0, others))
    behavior = np.where(x[:, 0] == 0, 2, np.where(x[:, 1] == 0, 1, 0))
    names = {f"x{i}": x[:, i].astype(float) for i in range(3)}
    names["behavior"] = np.array(slates.USER_BEHAVIORS)[behavior]
    return names, action, chance


def lists(table: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), SLOTS)


def log_of(rows: int, seed: int, **options: Any) -> slates.SlateLog:
    context, action, chance = world(rows, seed)
    rewards = (np.random.default_rng(seed + 500).random(chance.shape) < chance) * 1.0
    table = pa.table(
        {
            "slate": lists(action),
            "rs": lists(rewards),
            "mu": lists(np.full(action.shape, 1 / 3)),
            "pi": lists(TARGET[action]),
            "unit": np.arange(1, rows + 1),
            **context,
        }
    )
    how: dict[str, Any] = {"rewards": "rs", "propensities": "mu", "independent": True, "slots": 4}
    how |= {"context": ["x0", "x1", "x2"], "user_behavior": "behavior", "actions": [0, 1, 2]}
    return slates.read(table, **how | options)


NEW = slates.FromColumns("pi", independent=True)


def test_errors_worked_by_hand() -> None:
    # standard: mean 1, variance 1; cascade: mean 3, variance 4; independent: mean 3, variance 0
    earned = np.array([[0.0, 1.0, 3.0], [2.0, 5.0, 3.0], [0.0, 1.0, 3.0], [2.0, 5.0, 3.0]])
    found = errors_of(sums_of(earned).sum(axis=0)[None], 8.0)[0]
    # cascade: D = 2, S^2 = 1, so b^2 = 4 - 1/4; independent: 0 - 4/4 < 0 against cascade
    assert found == pytest.approx([1 / 2 * (1 / 8), 1 / 2 * (3.75 + 4 / 8), 1 / 2 * 3.75])


def test_a_tree_parts_contexts_that_differ() -> None:
    n = 400
    x = np.column_stack([np.arange(n) % 2, np.arange(n) % 5]).astype(float)
    noise = np.where(np.arange(n) // 2 % 2 == 0, 1.0, -1.0)
    bias = np.where(x[:, 0] == 0, 0.0, 3.0)
    earned = np.column_stack([noise, 0.5 * noise, 0.1 * noise + bias])
    tree = fit_tree(binned(x), sums_of(earned), 3, 50)
    assert tree.rules(["a", "b"]) == ["a <= 0.5: independent", "a > 0.5: cascade"]
    assert fit_tree(binned(x), sums_of(earned), 0, 50) == BehaviorTree(1, 0.25 / n)
    assert fit_tree(binned(x), sums_of(earned), 3, 201).below is None


def test_a_naive_twin_agrees() -> None:
    rows, depth = 600, 2
    log = log_of(rows, 3)
    found = slates.adapt(log, NEW, depth=depth, folds=3, random_state=5)
    table = log.source.table.to_pydict()  # type: ignore[attr-defined]
    earned = np.zeros((rows, 3))
    for row in range(rows):
        for slot in range(SLOTS):
            ratios = np.divide(table["pi"][row], table["mu"][row])
            weights = (np.prod(ratios), np.prod(ratios[: slot + 1]), ratios[slot])
            earned[row] += table["rs"][row][slot] * np.array(weights)
    x = np.column_stack([table[f"x{i}"] for i in range(3)])
    folds = np.floor(uniform(5, np.arange(rows)) * 3)
    total = 0.0
    for part in range(3):
        other = folds != part
        tree = fit_tree(binned(x[other]), sums_of(earned[other]), depth, 50)
        assert tuple(tree.rules(["x0", "x1", "x2"])) == found.rules[part]
        chosen = tree.places(x)
        total += sum(earned[row, chosen[row]] for row in range(rows) if folds[row] == part)
    assert found.evaluation.value == pytest.approx(total / rows, rel=1e-12)
    one = found.evaluation
    assert (one.lower, one.upper, one.improvement_lower) == (None, None, None)
    assert one.guarantee == "none"
    assert one.no_interval is not None
    assert "they trade bias for variance, and no interval counts that bias" in str(found)
    assert "which nothing certifies" in one.assumption
    assert found.evaluation == slates.adapt(log, NEW, depth=2, folds=3, random_state=5).evaluation


def test_the_error_is_below_that_of_every_single_behavior() -> None:
    context, _, chance = world(400_000, 99, drawn=False)
    del context
    truth = chance.sum(axis=1).mean()
    errors: dict[str, list[float]] = {}
    for seed in range(8):
        log = log_of(20_000, seed)
        for name in ("standard", "cascade", "independent", "adaptive"):
            found = slates.evaluate(log, NEW, estimator=name, interval="normal")
            errors.setdefault(name, []).append((found.value or 0.0) - truth)
        adapted = slates.adapt(log, NEW).evaluation.value
        errors.setdefault("estimated", []).append((adapted or 0.0) - truth)
    root = {name: float(np.sqrt(np.mean(np.square(x)))) for name, x in errors.items()}
    print(root)
    assert root["estimated"] < min(root["standard"], root["cascade"], root["independent"])
    assert root["estimated"] < 1.5 * root["adaptive"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": ()}, "estimated from the context, and .* was read without; name its columns"),
        ({"unit": "unit"}, "has unit, and the trees take rows as independent and equally likely"),
        ({"weight": "unit"}, "has weight, and the trees take rows as independent"),
        ({"logger": "learning"}, "learned from earlier rows, so that parts of the rows depend"),
        ({"rewards": None, "reward": "x0", "context": "x1"}, "needs the reward of each slot"),
    ],
)
def test_what_cannot_be_estimated_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        slates.adapt(log_of(200, 0, **options), NEW)


def test_few_rows_and_wrong_arguments_are_refused() -> None:
    with pytest.raises(DataError, match="has 99 rows, expected at least 100 to estimate"):
        slates.adapt(log_of(99, 0), NEW)
    for wrong in ({"depth": -1}, {"folds": 1}, {"random_state": "a"}):
        with pytest.raises(UsageError):
            slates.adapt(log_of(200, 0), NEW, **wrong)  # type: ignore[arg-type]


def test_a_context_without_a_number_is_named_with_its_row() -> None:
    table = log_of(200, 0).source.table  # type: ignore[attr-defined]
    values = table["x1"].to_pylist()
    values[7] = float("nan")
    table = table.set_column(table.column_names.index("x1"), "x1", pa.array(values))
    how: dict[str, Any] = {"rewards": "rs", "propensities": "mu", "independent": True, "slots": 4}
    log = slates.read(table, context=["x0", "x1"], actions=[0, 1, 2], **how)
    with pytest.raises(DataError, match=r"context 'x1' is nan in row 7, expected a finite number"):
        slates.adapt(log, NEW)
