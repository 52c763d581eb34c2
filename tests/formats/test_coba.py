"""Logged interactions of coba: contexts of every kind, labels, and what is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from piwo.errors import DataError, UsageError
from piwo.evaluation import evaluate
from piwo.formats import from_coba
from piwo.policies import Constant


def one(**more: Any) -> dict[str, Any]:
    return {
        "context": (1.0, "a"),
        "action": "x",
        "reward": 1.0,
        "probability": 0.5,
        "actions": ["x", "y"],
    } | more


def test_a_value_by_hand() -> None:
    log = from_coba([one(), one(action="y"), one(reward=0.25, probability=0.8, actions=["y", "x"])])
    assert log.actions.labels == ("x", "y")
    assert evaluate(log, Constant("x", log.actions)).value == pytest.approx((2 + 0.25 / 0.8) / 3)


@pytest.mark.parametrize(
    ("contexts", "names", "rows"),
    [
        ([None, None], None, None),
        ([3, 4], ("x0",), [[3.0], [4.0]]),
        (["a", "b"], ("x0=a", "x0=b"), [[1.0, 0.0], [0.0, 1.0]]),
        ([[1, 2], (3, 4)], ("x0", "x1"), [[1.0, 2.0], [3.0, 4.0]]),
        ([{"u": 2}, {"v": 3}], ("u", "v"), [[2.0, 0.0], [0.0, 3.0]]),
    ],
)
def test_contexts_become_columns(contexts: Any, names: Any, rows: Any) -> None:
    log = from_coba(one(context=x) for x in contexts)
    assert log.features is None if names is None else log.features.names == names
    batch = next(log.each_batch(context=names is not None))
    if rows is not None:
        assert batch.context is not None
        assert batch.context.tolist() == rows


def test_labels_and_objects() -> None:
    log = from_coba([SimpleNamespace(**one(action=(1, 0), actions=[(0, 1), (1, 0)]))])
    assert log.actions.labels == ("(0, 1)", "(1, 0)")
    assert from_coba([one(action=3, actions=None), one(action=2, actions=None)]).actions.labels == (
        2,
        3,
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no interactions"),
        ([one(), one(probability=None)], "interaction 1 has no 'probability'"),
        ([one(), one(actions=["x", "z"])], "interaction 1 has other actions"),
        ([one(), one(actions=["x"])], "interaction 1 has other actions"),
        ([one(), one(context=(1, 2, 3))], "different numbers of values"),
    ],
)
def test_what_is_refused(rows: Any, message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        from_coba(rows)


def test_coba_itself() -> None:
    coba = pytest.importorskip("coba", reason="coba is not installed")
    made = coba.LoggedInteraction((1, 2), 1, 0.5, probability=0.25, actions=[0, 1])
    log = from_coba([made])
    assert evaluate(log, Constant(1, log.actions)).value == pytest.approx(2.0)
