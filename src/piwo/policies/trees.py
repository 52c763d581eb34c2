"""Sums of decision trees, and the action with the highest sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_kind, numbers
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.policies.blocks import Codes
from piwo.policies.policy import ActionList, DeterministicPolicy, action_list
from piwo.policies.rules import tree_rules
from piwo.policies.state import State

__all__ = ["COLUMNS", "MOST_LEAVES", "Masked", "Trees", "check_nodes", "masked"]

COLUMNS = 4
"""Numbers of a node."""

MOST_LEAVES = 16
"""Leaves of a tree that fit the bits of a mask."""
_MOST_EDGES = 2**16 - 1
# Rows whose codes are made at a time.
_ROWS = 2**14


@final
class Trees(DeterministicPolicy):
    """pi(x) = argmax_a offset_a + the sum of the values of x's leaves that name the action a.

    The boosting and tree oracles learn such policies. Of equal scores the lowest code wins.

    A node is a row of four numbers. An inner node is (column, threshold, child, 0): x goes to the
    node `child` if x[column] <= threshold, else to the one after it. A leaf is (-1, 0, action,
    value): it adds `value` to the score of the action with this code. Children come after their
    parent.

    Args:
        nodes: (N, 4).
        roots: (T,) the node at which each tree starts.
        offset: (K,); -inf: this action is not available.
        actions: the K labels.
        width: the number of context columns.
        features: how data frames become the context matrix; None: plain matrices only.

    Raises:
        UsageError: for other shapes, NaN and infinite numbers, and nodes that are not as above.

    >>> nodes = [[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]]
    >>> Trees(nodes, [0], [0.0, 0.0], ["low", "high"], width=1).act([[0.2], [0.7]]).actions.tolist()
    ['low', 'high']
    """

    kind: ClassVar[str] = "trees"

    def __init__(
        self,
        nodes: Any,
        roots: Any,
        offset: Any,
        actions: ActionList,
        width: int,
        features: Features | None = None,
    ) -> None:
        self.listed = action_list(actions)
        check_kind("features", features, (Features, type(None)))
        check_count("width", width, 1, "the number of context columns")
        self.nodes = numbers("nodes", nodes).copy()
        self.roots = numbers("roots", roots).copy()
        self.offset = numbers("offset", offset).copy()
        if features is not None and features.width != width:
            raise UsageError(
                f"{argument('width')} is {width}, the features make {features.width} columns: "
                f"{', '.join(features.names[:8])}"
            )
        check_nodes(self.nodes, self.roots, width, len(self.listed))
        available = self.offset > -np.inf
        right = self.offset.shape == (len(self.listed),) and (self.offset < np.inf).all()
        if not (right and available.any()):
            raise UsageError(
                f"{argument('offset')} has shape {self.offset.shape}, expected one number for each "
                f"of {len(self.listed)} actions, finite or -inf, and not all -inf"
            )
        for array in (self.nodes, self.roots, self.offset):
            array.flags.writeable = False
        self.features = features
        self.width = width

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the action with the highest score in each row, (n,) codes."""
        from piwo.policies.kernels import decide_by_masks, decide_by_trees

        assert context is not None
        out = np.empty(n, np.int32)
        masks = _masks_of(self)
        if masks is None:
            column, threshold, child, value = np.ascontiguousarray(self.nodes.T)
            decide_by_trees(
                np.ascontiguousarray(context, np.float64),
                column.astype(np.int32),
                threshold,
                child.astype(np.int64),
                value,
                self.roots.astype(np.int64),
                self.offset,
                out,
            )
            return out
        for at in range(0, n, _ROWS):
            rows = slice(at, min(at + _ROWS, n))
            codes = masks.codes(context[rows])
            arguments = (codes, *masks.arrays, self.offset, out[rows])
            decide_by_masks(*arguments)
        return out

    def rules(self) -> tuple[str, ...]:
        """Return the rules of a single tree, at most 63 lines; none for sums of trees.

        >>> nodes = [[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]]
        >>> print(Trees(nodes, [0], [0.0, 0.0], ["low", "high"], width=1))
        Trees(2 actions)
        x[0] <= 0.5 -> 'low'
        x[0] > 0.5 -> 'high'
        """
        if len(self.roots) != 1:
            return ()
        return tree_rules(self.nodes, int(self.roots[0]), self.offset, self.actions, self.features)

    def state(self) -> State:
        """Return nodes, roots and offsets."""
        arrays = {"nodes": self.nodes, "roots": self.roots, "offset": self.offset}
        return State(self.actions, self.features, {"width": self.width}, arrays)

    @classmethod
    def from_state(cls, state: State) -> Trees:
        """Return the policy of a state."""
        nodes, roots = state.array("nodes", -1, COLUMNS), state.array("roots", -1)
        offset, width = state.array("offset", len(state.known())), state.parameters["width"]
        return cls(nodes, roots, offset, state.known(), width, state.features)


def check_nodes(nodes: Floats, roots: Floats, width: int, actions: int) -> None:
    """Check that compiled code can follow the nodes: all places exist, and no path is a circle.

    Args:
        nodes: (N, 4); see `Trees`.
        roots: (T,).
        width: the number of columns.
        actions: K; leaves name 0..K-1.

    Raises:
        UsageError: naming the first node that is wrong.

    >>> check_nodes(np.array([[-1.0, 0.0, 0.0, 1.0]]), np.zeros(1), 1, 1)
    """
    if nodes.ndim != 2 or nodes.shape[1] != COLUMNS or roots.ndim != 1:
        raise UsageError(
            f"{argument('nodes')} and {argument('roots')} have the shapes {nodes.shape} and "
            f"{roots.shape}, expected (n, {COLUMNS}) and (trees,)"
        )
    if len(nodes) > 2**31 - 2:
        raise UsageError(f"got {len(nodes)} nodes, expected fewer than 2^31")
    column, _, child, _ = nodes.T
    place = np.arange(len(nodes))
    leaf = column == -1
    with np.errstate(invalid="ignore"):
        whole = (np.floor(column) == column) & (np.floor(child) == child)
        inner = (column >= 0) & (column < width) & (child > place) & (child < len(nodes) - 1)
        last = leaf & (child >= 0) & (child < actions)
    wrong = ~(np.isfinite(nodes).all(axis=1) & whole & (inner | last))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise UsageError(
            f"node {row} is {nodes[row].tolist()}, expected (column, threshold, child, 0) with a "
            f"column below {width} and a later child, or (-1, 0, action, value) with an action "
            f"below {actions}"
        )
    if not ((roots >= 0) & (roots < len(nodes)) & (np.floor(roots) == roots)).all():
        raise UsageError(f"a root is not one of the {len(nodes)} nodes")


@dataclass(frozen=True)
class Masked:
    """Trees in the form of `piwo.policies.kernels.decide_by_masks`.

    >>> nodes = np.array([[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]])
    >>> masked(nodes, np.zeros(1), 1).codes(np.array([[0.2], [0.7]])).tolist()
    [[0, 1]]
    """

    edges: tuple[Floats, ...]
    """The thresholds of each column, ascending."""
    arrays: tuple[npt.NDArray[Any], ...]
    """What the loop takes between codes and offset."""

    def codes(self, context: Floats) -> npt.NDArray[np.uint16]:
        """Return how many thresholds of its column are below each number, (d, n)."""
        found = np.zeros((len(self.edges), len(context)), np.uint16)
        for f, edges in enumerate(self.edges):
            if len(edges):
                found[f] = np.searchsorted(edges, context[:, f], "left")
        return found


# Acting changes no policy, so what is derived from its nodes is kept here.
_DERIVED: WeakKeyDictionary[Trees, Masked | None] = WeakKeyDictionary()


def _masks_of(policy: Trees) -> Masked | None:
    """Return trees as masks of leaves; None if one has too many leaves, or they share nodes."""
    if policy not in _DERIVED:
        _DERIVED[policy] = masked(policy.nodes, policy.roots, policy.width or 0)
    return _DERIVED[policy]


def masked(nodes: Floats, roots: Floats, width: int) -> Masked | None:
    """Return trees as masks of leaves; None if one has too many leaves, or they share nodes.

    Args:
        nodes: (N, 4), checked; see `Trees`.
        roots: (T,).
        width: the number of columns.

    >>> nodes = np.array([[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]])
    >>> masked(nodes, np.zeros(1), 1).edges
    (array([0.5]),)
    """
    from piwo.policies.kernels import lay_out

    column, threshold = nodes[:, 0].astype(np.int32), nodes[:, 1]
    child = nodes[:, 2].astype(np.int64)
    owner, first, below = np.empty((3, len(nodes)), np.int64)
    apart = lay_out(column, child, roots.astype(np.int64), owner, first, below)
    edges = tuple(np.unique(threshold[column == f]) for f in range(width))
    if not apart or below.max(initial=1) > MOST_LEAVES:
        return None
    if max(len(x) for x in edges) > _MOST_EDGES:
        return None
    used = owner >= 0
    inner = np.flatnonzero(used & (column >= 0))
    inner = inner[np.argsort(owner[inner], kind="stable")]
    leaf = np.flatnonzero(used & (column < 0))
    leaf = leaf[np.lexsort((first[leaf], owner[leaf]))]
    places = np.arange(len(roots) + 1)
    code = np.empty(len(inner), np.uint16)
    for f, known in enumerate(edges):
        here = column[inner] == f
        code[here] = np.searchsorted(known, threshold[inner[here]], "left")
    # to the right of a node, the leaves under its left child are out
    under = child[inner]
    gone = ((1 << below[under]) - 1) << first[under]
    arrays = (
        column[inner],
        code,
        (0xFFFF & ~gone).astype(np.uint16),
        np.searchsorted(owner[inner], places),
        np.searchsorted(owner[leaf], places),
        child[leaf],
        nodes[leaf, 3],
    )
    return Masked(edges, arrays)
