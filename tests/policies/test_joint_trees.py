"""Trees on columns of context and item, against a walk through the nodes of each pair."""

from pathlib import Path

import numpy as np
import pytest

import piwo
from piwo.errors import UsageError
from piwo.logs.features import Features
from piwo.policies import EpsilonGreedy, JointModel, JointTrees

RANDOM = np.random.default_rng(8)
N, K, D, F, T = 150, 9, 3, 2, 7
X, Z = RANDOM.normal(size=(N, D)), RANDOM.normal(size=(K, F))
LABELS = [f"ad {a}" for a in range(K)]
MODEL = JointModel(
    RANDOM.normal(size=(D, F)) / 4, RANDOM.normal(size=F), Z, Features.numeric(["price", "age"])
)


def grown() -> tuple[list[list[float]], list[int]]:
    """Trees of random splits: some of one leaf, some deep."""
    nodes: list[list[float]] = []
    roots = []
    for t in range(T):
        roots.append(len(nodes))
        nodes.append([-1, 0, 0, RANDOM.normal()])
        for _ in range(2 * t):
            leaves = [i for i in range(roots[-1], len(nodes)) if nodes[i][0] < 0]
            split = int(RANDOM.choice(leaves))
            nodes[split] = [int(RANDOM.integers(D + F)), RANDOM.normal(), len(nodes), 0]
            nodes += [[-1, 0, 0, RANDOM.normal()], [-1, 0, 0, RANDOM.normal()]]
    return nodes, roots


NODES, ROOTS = grown()
POLICY = JointTrees(MODEL, NODES, ROOTS, LABELS)


def naive(x: np.ndarray, z: np.ndarray) -> float:
    """The score of a pair, node by node."""
    total = float(x @ MODEL.cross @ z + MODEL.item @ z)
    both = [*x, *z]
    for root in ROOTS:
        node = NODES[root]
        while node[0] >= 0:
            node = NODES[int(node[2]) + int(both[int(node[0])] > node[1])]
        total += node[3]
    return total


SCORES = np.array([[naive(x, z) for z in Z] for x in X])


def test_the_score_by_hand() -> None:
    # x'Wz = 1 * 2 * 3 = 6; x = 1 is above .5, and z = 3 is above 2: 6 + 0.25
    model = JointModel([[2.0]], [0.0], [[3.0], [1.0]])
    nodes = [[0, 0.5, 1, 0], [-1, 0, 0, 9.0], [1, 2.0, 3, 0], [-1, 0, 0, 8.0], [-1, 0, 0, 0.25]]
    policy = JointTrees(model, nodes, [0], ["a", "b"])
    every = piwo.logs.eligible.Eligible(np.array([0, 2]), np.arange(2, dtype=np.int32))
    # z = 1 is below 2: 2 + 8
    assert policy.scores(np.array([[1.0]]), every).tolist() == [6.25, 10.0]
    assert policy.act([[1.0]]).actions.tolist() == ["b"]


def test_choices_are_those_of_a_walk() -> None:
    assert (POLICY.choose(X) == SCORES.argmax(axis=1)).all()
    lists = [[LABELS[a] for a in RANDOM.permutation(K)[: 1 + i % K]] for i in range(N)]
    acted = POLICY.act(X, eligible=lists)
    for i, could in enumerate(lists):
        codes = sorted(LABELS.index(x) for x in could)
        assert acted.actions[i] == LABELS[codes[int(np.argmax(SCORES[i, codes]))]]
    assert (acted.propensities == 1.0).all()


def test_new_items_and_features_of_each_row() -> None:
    new = {"action": ["x", "y", "w"], "price": RANDOM.normal(size=3), "age": RANDOM.normal(size=3)}
    z = np.column_stack([new["price"], new["age"]])
    best = np.array([[naive(x, one) for one in z] for x in X]).argmax(axis=1)
    assert POLICY.act(X, items=new).actions.tolist() == np.array(["x", "y", "w"])[best].tolist()
    lists, offers, expected = [], [], []
    for x in X:
        own = RANDOM.normal(size=(RANDOM.integers(1, 5), F))
        names = [f"n{j}" for j in range(len(own))]
        lists.append(names)
        offers.append([{"price": p, "age": a} for p, a in own.tolist()])
        expected.append(names[int(np.argmax([naive(x, one) for one in own]))])
    assert POLICY.act(X, eligible=lists, items=offers).actions.tolist() == expected


def test_more_rows_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [[LABELS[a] for a in RANDOM.permutation(K)[:4]] for _ in range(N)]
    whole = POLICY.act(X, eligible=lists).actions.tolist()
    monkeypatch.setattr("piwo.policies.joint_trees._ROWS", 7)
    assert POLICY.act(X, eligible=lists).actions.tolist() == whole


def test_files_hold_the_trees(tmp_path: Path) -> None:
    mixed = EpsilonGreedy(POLICY, 0.1)
    mixed.save(tmp_path / "p.piwo")
    assert piwo.load(tmp_path / "p.piwo").probabilities(X).tolist() == (
        mixed.probabilities(X).tolist()
    )


def test_without_trees_it_is_the_linear_policy(tmp_path: Path) -> None:
    bare = JointTrees(MODEL, np.empty((0, 4)), [], LABELS)
    linear = piwo.policies.JointLinear(MODEL, LABELS)
    assert (bare.choose(X) == linear.choose(X)).all()
    bare.save(tmp_path / "p.piwo")
    assert (piwo.load(tmp_path / "p.piwo").choose(X) == bare.choose(X)).all()


def test_what_is_wrong_is_one_line() -> None:
    leaf = [-1, 0, 0, 1.0]
    with pytest.raises(UsageError, match="an action below 1"):
        JointTrees(MODEL, [[-1, 0, 1, 1.0]], [0], LABELS)
    with pytest.raises(UsageError, match="a column below 5"):
        JointTrees(MODEL, [[5, 0.5, 1, 0], leaf, leaf], [0], LABELS)
    with pytest.raises(UsageError, match="share nodes"):
        JointTrees(MODEL, [[0, 0.5, 1, 0], leaf, leaf], [0, 0], LABELS)
    deep = [row for i in range(16) for row in ([0, float(i), 2 * i + 1, 0], leaf)] + [leaf]
    with pytest.raises(UsageError, match="more than 16 leaves"):
        JointTrees(MODEL, deep, [0], LABELS)
    with pytest.raises(UsageError, match="has 9 items"):
        JointTrees(MODEL, NODES, ROOTS, LABELS[1:])
    with pytest.raises(UsageError, match="has 3 columns of context"):
        JointTrees(MODEL, NODES, ROOTS, LABELS, Features.numeric(2))
