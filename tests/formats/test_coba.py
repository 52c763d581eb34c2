"""Logged interactions of coba: contexts of every kind, labels, and what is refused."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError, PiwoWarning
from piwo.evaluation import evaluate
from piwo.formats import from_coba
from piwo.learners import PIWO
from piwo.oracles import JointRidge
from piwo.policies import Constant, Uniform


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


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_actions_are_the_same_as_lists_tuples_and_arrays(kind: Any) -> None:
    actions = [kind([0, 1]), kind([1, 0])]
    log = from_coba([one(action=kind([1, 0]), actions=actions), one(action=(0, 1), actions=None)])
    assert log.actions.labels == ("(0, 1)", "(1, 0)")
    assert next(log.each_batch()).action.tolist() == [1, 0]


def test_whole_numbers_of_numpy_are_labels_as_others_are() -> None:
    fixed = [one(action=np.int64(2), actions=np.array([1, 2]))]
    changing = [*fixed, one(action=np.int64(3), actions=[1, 3])]
    assert from_coba(fixed).actions.labels == (1, 2)
    assert from_coba(changing).actions.labels == (1, 2, 3)


def test_text_that_changes_becomes_eligible_actions() -> None:
    log = from_coba(
        [
            one(probability=0.5),
            one(action="z", probability=0.25, actions=["z", "x", "y", "w"]),
            one(reward=0.5, probability=1.0, actions=["x"]),
        ]
    )
    assert log.actions.labels == ("w", "x", "y", "z")
    batch = next(log.each_batch())
    assert batch.eligible is not None
    assert batch.eligible.sizes.tolist() == [2, 4, 1]
    # 1/2 of x, 1/4 of z, and the only one: weights 1, 1, 1
    assert evaluate(log, Uniform(log.actions)).value == pytest.approx((1 + 1 + 0.5) / 3)
    numbers = from_coba([one(action=1, actions=[1, 3]), one(action=3, actions=[3, 2])])
    assert numbers.actions.labels == (1, 2, 3)
    with pytest.raises(DataError, match="does not list"):
        list(from_coba([one(), one(action="y", actions=["x"])]).each_batch())


@pytest.mark.parametrize("sparse", [False, True])
def test_values_that_change_become_features_of_places(sparse: bool) -> None:
    def made(*values: float) -> Any:
        return dict(zip("uv", values, strict=True)) if sparse else list(values)

    first = [made(1.0, 0.0), made(0.0, 2.0)]
    second = [made(3.0, 0.5), made(0.25, 4.0), made(1.0, 0.0)]
    rows = [
        one(action=first[1], actions=first, probability=0.25),
        one(action=second[0], actions=tuple(second), reward=0.5, probability=0.5),
    ]
    with pytest.warns(PiwoWarning, match="a label is a place in the list, from 1"):
        log = from_coba(rows)
    assert log.actions.labels == (1, 2, 3)
    batch = next(log.each_batch(context=True))
    assert batch.eligible is not None
    assert batch.eligible.inline is not None
    assert batch.action.tolist() == [1, 0]
    u, v = ("u", "v") if sparse else ("a0", "a1")
    assert batch.eligible.inline[u].to_pylist() == [1.0, 0.0, 3.0, 0.25, 1.0]
    assert batch.eligible.inline[v].to_pylist() == [0.0, 2.0, 0.5, 4.0, 0.0]
    # 1/2 over 1/4, and 1/3 over 1/2
    expected = (2 * 1.0 + 2 / 3 * 0.5) / 2
    assert evaluate(log, Uniform(log.actions)).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no interactions"),
        ([one(), one(probability=None)], "interaction 1 has no 'probability'"),
        ([one(), one(actions=["x"]), one(actions=None)], "interaction 2 has no 'actions', and"),
        ([one(), one(actions=["x", (1.0, 2.0)])], "some actions are single labels and others have"),
        (
            [one(action=(1,), actions=[(1,), (2,)]), one(action=(1,), actions=[(2,), (3,)])],
            "interaction 1 lists the action that was taken 0 times",
        ),
        (
            [one(action=(1,), actions=[(1,), (2,)]), one(action=[1], actions=[[1], [1]])],
            "interaction 1 lists the action that was taken 2 times",
        ),
        (
            [one(action=(1,), actions=[(1,), (2,)]), one(action=(3,), actions=[(3,), (4, 5)])],
            "the actions have different numbers of values",
        ),
        ([one(), one(context=(1, 2, 3))], "different numbers of values"),
        ([one(), one(context=("b", "a"))], "the contexts have values of several kinds in 'x0'"),
        (
            [one(action=(1,), actions=[(1,), ("a",)]), one(action=(1,), actions=[(1,)])],
            "the actions have values of several kinds in 'a0'",
        ),
    ],
)
def test_what_is_refused(rows: Any, message: str) -> None:
    # that places are labels
    warnings.simplefilter("ignore", PiwoWarning)
    with pytest.raises(DataError, match=message):
        from_coba(rows)


def test_the_synthetic_environment_of_coba_is_read_and_learned_from() -> None:
    coba = pytest.importorskip("coba", reason="coba is not installed")
    environment = coba.Environments.from_linear_synthetic(3000, seed=2)[0]
    logged = coba.Environments(environment).logged(coba.RandomLearner())[0]
    seen = list(logged.read())
    with pytest.warns(PiwoWarning, match="change and have values"):
        log = from_coba(seen, reward_range=(-1, 2))
    assert log.actions.labels == (1, 2, 3, 4, 5)
    # the logger is uniform, so that all weights are 1
    mean = np.mean([x["reward"] for x in seen])
    assert evaluate(log, Uniform(log.actions)).value == pytest.approx(mean, abs=1e-12)
    policy = PIWO(oracle=JointRidge()).fit(log).policy_
    # coba says what every action would have earned
    items = []
    for x in seen:
        items.append([{f"a{i}": value for i, value in enumerate(a)} for a in x["actions"]])
    eligible = [[1, 2, 3, 4, 5]] * len(seen)
    X = np.array([x["context"] for x in seen])
    found = policy.act(X, eligible=eligible, items=items, random_state=0).actions
    earned, best = [], []
    for x, place in zip(seen, found.tolist(), strict=True):
        rewards = [x["rewards"](a) for a in x["actions"]]
        earned.append(rewards[place - 1])
        best.append(max(rewards))
    # on the rows that it learned from: most of what a choice can gain
    assert np.mean(earned) > mean + 0.6 * (np.mean(best) - mean)


def test_coba_itself() -> None:
    coba = pytest.importorskip("coba", reason="coba is not installed")
    made = coba.LoggedInteraction((1, 2), 1, 0.5, probability=0.25, actions=[0, 1])
    log = from_coba([made])
    assert evaluate(log, Constant(1, log.actions)).value == pytest.approx(2.0)
