"""Sums of trees decide as their nodes say, in either form of the compiled loop."""

import numpy as np
import pytest

from piwo.errors import FileError, UsageError
from piwo.files import array_bytes, pack, unpack
from piwo.logs.features import Feature, Features
from piwo.policies import Trees, load
from piwo.policies.trees import _masks_of

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
    assert (_masks_of(policy) is None) == (leaves > 16)


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


def read_back(lines, names, x):
    """The action that printed rules give one row."""
    depth = 0
    for line in lines:
        indent = (len(line) - len(line.lstrip())) // 2
        condition, _, action = line.strip().partition(" -> ")
        name, sign, threshold = condition.split()
        value = x[names.index(name)]
        if indent == depth and (value <= float(threshold)) == (sign == "<="):
            if action:
                return action
            depth += 1
    raise AssertionError("no rule")


@pytest.mark.parametrize("leaves", [2, 5, 32])
def test_printed_rules_decide_as_the_policy_does(leaves):
    rng = np.random.default_rng(leaves)
    nodes, roots = grown(leaves, 1, rng)
    nodes = np.array(nodes, float)
    nodes[:, 1] += rng.choice([0.0, 1e-9], len(nodes))
    names = ["x[0]", "x[1]", "x[2]"]
    policy = Trees(nodes, roots, [0.0, 0.1, -0.2], LABELS, width=3)
    lines = policy.rules()
    assert len(lines) == 2 * leaves - 2
    assert str(policy).splitlines() == ["Trees(3 actions)", *lines]
    X = np.round(rng.normal(size=(200, 3)), 1)
    expected = [repr(action) for action in policy.act(X).actions.tolist()]
    assert [read_back(lines, names, x) for x in X] == expected


def test_rules_name_columns_and_escape_labels():
    features = Features(
        (Feature("age", missing=True), Feature("shop", "levels", ("a\x1b[2J", "b"), missing=True))
    )
    assert features.names[1:3] == ("age is missing", "shop=a\x1b[2J")
    nodes = [
        [0, 30.5, 1, 0],
        [2, 0.5, 3, 0],
        [1, 0.5, 5, 0],
        *([-1, 0, 0, 1.0], [-1, 0, 1, 1.0]) * 2,
    ]
    policy = Trees(nodes, [0], [0.0, 0.0], ["red\n-> 1", "b"], width=5, features=features)
    assert policy.rules() == (
        "age <= 30.5",
        r"  shop != 'a\x1b[2J' -> 'red\n-> 1'",
        r"  shop = 'a\x1b[2J' -> 'b'",
        "age > 30.5",
        r"  age is not missing -> 'red\n-> 1'",
        "  age is missing -> 'b'",
    )


def test_rules_are_bounded_and_of_single_trees():
    nodes, roots = grown(200, 1, np.random.default_rng(0))
    lines = Trees(nodes, roots, [0.0] * 3, LABELS, width=3).rules()
    assert (len(lines), lines[-1]) == (64, "... (399 nodes in all)")
    nodes, roots = grown(3, 2, np.random.default_rng(0))
    assert Trees(nodes, roots, [0.0] * 3, LABELS, width=3).rules() == ()
    assert Trees([[-1, 0, 1, 1.0]], [0], [0.0] * 3, LABELS, width=1).rules() == ("-> 'b'",)
    # what the leaf adds is not enough, or the action is not available
    assert Trees([[-1, 0, 1, 1.0]], [0], [2.0, 0, 0], LABELS, width=1).rules() == ("-> 'a'",)
