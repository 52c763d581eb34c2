"""Sums of trees decide as their nodes say, in either form of the compiled loop."""

import numpy as np
import pytest

from piwo.errors import FileError, UsageError
from piwo.files import array_bytes, pack, unpack
from piwo.policies import Trees, load
from piwo.policies.trees import _masked

LABELS = ["a", "b", "c"]
STUMP = [[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]]


def grown(leaves, trees, rng, width=3):
    """Random trees as rows of nodes, and their roots."""
    nodes, roots = [], []
    for _ in range(trees):
        roots.append(len(nodes))
        nodes.append([-1, 0, rng.integers(3), rng.normal()])
        mine = [len(nodes) - 1]
        for _ in range(leaves - 1):
            place = mine.pop(rng.integers(len(mine)))
            child = len(nodes)
            nodes[place] = [rng.integers(width), np.round(rng.normal(), 1), child, 0]
            for _ in range(2):
                nodes.append([-1, 0, rng.integers(3), rng.normal()])
            mine += [child, child + 1]
    return nodes, roots


def naive(nodes, roots, offset, x):
    scores = np.array(offset)
    for root in roots:
        column, threshold, child, value = nodes[int(root)]
        while column >= 0:
            place = int(child) + (x[int(column)] > threshold)
            column, threshold, child, value = nodes[place]
        scores[int(child)] += value
    return scores.argmax()


@pytest.mark.parametrize("leaves", [1, 2, 7, 16, 17, 40])
def test_every_form_decides_as_the_nodes_say(leaves):
    rng = np.random.default_rng(leaves)
    nodes, roots = grown(leaves, 9, rng)
    X = np.round(rng.normal(size=(300, 3)), 1)  # many numbers are at a threshold
    policy = Trees(nodes, roots, [0.0, 0.1, -0.2], LABELS, width=3)
    expected = [naive(nodes, roots, [0.0, 0.1, -0.2], x) for x in X]
    assert policy.choose(X).tolist() == expected
    assert (_masked(policy) is None) == (leaves > 16)


def test_trees_may_share_nodes_and_leave_nodes_unused():
    nodes = [[0, 0.0, 2, 0], [0, 1.0, 2, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0], [-1, 0, 2, 9.0]]
    policy = Trees(nodes, [0, 1], [0.0, 0.0, 0.0], LABELS, width=1)
    assert policy.act([[-1.0], [0.5], [2.0]]).actions.tolist() == ["a", "a", "b"]


def test_without_trees_the_offset_decides():
    policy = Trees(np.zeros((0, 4)), [], [0.0, 1.0, -np.inf], LABELS, width=1)
    assert policy.act([[0.0]]).actions.tolist() == ["b"]


@pytest.mark.parametrize(
    "node",
    [
        [1, 0.5, 1, 0],
        [-2, 0.5, 1, 0],
        [0.5, 0.5, 1, 0],
        [0, 0.5, 0, 0],
        [0, 0.5, 2, 0],
        [0, 0.5, 1.5, 0],
        [0, np.nan, 1, 0],
        [-1, 0, 3, 0],
        [-1, 0, -1, 0],
        [-1, 0, 0, np.inf],
    ],
)
def test_nodes_that_lead_nowhere_are_refused(node, tmp_path):
    with pytest.raises(UsageError, match="node 0 is"):
        Trees([node, *STUMP[1:]], [0], [0.0] * 3, LABELS, width=1)
    path = tmp_path / "p.piwo"
    Trees(STUMP, [0], [0.0] * 3, LABELS, width=1).save(path)
    members = unpack(path.read_bytes())
    members["policy/nodes.npy"] = array_bytes(np.array([node, *STUMP[1:]], np.float64))
    path.write_bytes(pack(members))
    with pytest.raises(FileError, match=r"node 0|leave|finite|infinite|NaN"):
        load(path)


@pytest.mark.parametrize("root", [-1, 3, 0.5, np.nan])
def test_roots_that_lead_nowhere_are_refused(root):
    with pytest.raises(UsageError, match="a root is not one of the 3 nodes"):
        Trees(STUMP, [root], [0.0] * 3, LABELS, width=1)
