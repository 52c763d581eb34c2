"""Trees on columns of context and item, next to a linear model; they act on new items."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, numbers
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.logs.inline import encoded_pairs
from piwo.messages import argument
from piwo.policies.blocks import Codes, row_blocks
from piwo.policies.joint import JointModel, JointPolicy, check_model
from piwo.policies.linear import pair_scores
from piwo.policies.policy import ActionList, DeterministicPolicy, Policy, action_list
from piwo.policies.restricted import highest, taken
from piwo.policies.state import State
from piwo.policies.trees import COLUMNS, MOST_LEAVES, check_nodes, masked

__all__ = ["JointTrees"]

_ROWS = 2**12
"""Rows whose pairs are scored at a time."""


@final
class JointTrees(JointPolicy, DeterministicPolicy):
    """pi(x) = argmax over the (eligible) items a of x'W z_a + v'z_a + the leaves of (x, z_a).

    The joint boosting oracle learns such policies. Items with features act whether they were seen
    in training or not, as with `JointLinear`; of equal scores the first item is taken.

    Formula: the scores of `JointModel`, plus the sum over the trees of the value of the leaf in
    which the columns of (x, z_a) end.

    Args:
        model: the linear part of the scores; see `JointModel`.
        nodes: (N, 4) as those of `Trees`: (column, threshold, child, 0), columns 0..d-1 of the
            context and d..d+f-1 of the item, or leaves (-1, 0, 0, value).
        roots: (T,) the node at which each tree starts. A tree has at most 16 leaves.
        actions: the K labels of the model's items.
        features: how data frames become the context matrix of width d; None: plain matrices only.

    Raises:
        UsageError: for other shapes, NaN and infinite numbers, larger trees, and nodes that are not
            as above.

    >>> model = JointModel(np.zeros((1, 1)), [0.0], [[0.0], [1.0]])
    >>> nodes = [[0, 0.5, 1, 0], [-1, 0, 0, 0.0], [1, 0.5, 3, 0], [-1, 0, 0, 0.0], [-1, 0, 0, 1.0]]
    >>> JointTrees(model, nodes, [0], ["tea", "soup"]).act([[0.0], [1.0]]).actions.tolist()
    ['tea', 'soup']
    """

    kind: ClassVar[str] = "joint-trees"

    def __init__(
        self,
        model: JointModel,
        nodes: Any,
        roots: Any,
        actions: ActionList,
        features: Features | None = None,
    ) -> None:
        check_model(model)
        check_kind("features", features, (Features, type(None)))
        self.listed = action_list(actions)
        if len(self.listed) != len(model.table):
            raise UsageError(
                f"the model has {len(model.table)} items, {argument('actions')} has "
                f"{len(self.listed)} labels; give one for each"
            )
        self.width, width = len(model.cross), sum(model.cross.shape)
        if features is not None and features.width != self.width:
            raise UsageError(
                f"{argument('model')} has {self.width} columns of context, the features make "
                f"{features.width}"
            )
        self.nodes, self.roots = numbers("nodes", nodes).copy(), numbers("roots", roots).copy()
        check_nodes(self.nodes, self.roots, width, 1)
        self._split_nodes(width)
        for array in (self.nodes, self.roots):
            array.flags.writeable = False
        self.model, self.features = model, features
        self.item_features, self.item_label = model.features, model.label
        # (K, d) the linear coefficients of each item, (K, T) the leaves that each leaves open
        self._coef, self._table_leaves = model.coef, self._open(model.table, self._of_item)

    def _split_nodes(self, width: int) -> None:
        """Keep the inner nodes on the context and those on the item apart.

        Each side leaves some leaves of a tree open, whatever the other side is, so that what is
        known of an item serves all rows.
        """
        masks = masked(self.nodes, self.roots, width)
        if masks is None:
            raise UsageError(
                f"{argument('nodes')} has a tree with more than {MOST_LEAVES} leaves, or trees "
                "that share nodes; give each tree nodes of its own, and fewer leaves"
            )
        column, code, mask, tree_nodes, leaves, _, value = masks.arrays
        threshold = np.empty(len(column))
        for f, edges in enumerate(masks.edges):
            threshold[column == f] = edges[code[column == f]]
        tree = np.repeat(np.arange(len(self.roots)), np.diff(tree_nodes))
        places = np.arange(len(self.roots) + 1)

        def side(here: npt.NDArray[np.bool_], first: int) -> tuple[npt.NDArray[Any], ...]:
            starts = np.searchsorted(tree[here], places)
            return column[here] - first, threshold[here], mask[here], starts

        self._of_context = side(column < self.width, 0)
        self._of_item = side(column >= self.width, self.width or 0)
        self._leaves = leaves, value

    def _open(self, columns: Floats, side: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[np.uint16]:
        """Return the leaves of each tree that some columns leave open, (n, T)."""
        from piwo.policies.kernels import open_leaves

        found = np.empty((len(columns), len(self.roots)), np.uint16)
        arguments = (np.ascontiguousarray(columns, np.float64), *side, found)
        open_leaves(*arguments)
        return found

    def scores(self, context: Floats, eligible: Eligible) -> Floats:
        """Return the scores of all pairs, (m,).

        Args:
            context: (n, d).
            eligible: of n rows; pairs that bring their own features are scored by these.
        """
        found = np.empty(len(eligible.codes))
        for at in range(0, len(eligible), _ROWS):
            rows = slice(at, min(at + _ROWS, len(eligible)))
            pairs = slice(eligible.starts[rows.start], eligible.starts[rows.stop])
            found[pairs] = self._scores(context[rows], eligible.take(rows))
        return found

    def _scores(self, context: Floats, eligible: Eligible) -> Floats:
        from piwo.policies.kernels import add_leaves

        model = self.model
        if self._brings(eligible):
            assert model.features is not None
            own = encoded_pairs(eligible, model.features)
            eligible, of_items = eligible.apart(), self._open(own, self._of_item)
            found = pair_scores(context, eligible, own @ model.cross.T, own @ model.item)
        else:
            self.require_table()
            of_items = self._table_leaves
            found = pair_scores(context, eligible, self._coef, model.intercept)
        of_rows = self._open(context, self._of_context)
        add_leaves(eligible.starts, eligible.codes, of_rows, of_items, *self._leaves, found)
        return found

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the item with the highest score in each row, (n,) codes."""
        assert context is not None
        count = len(self.actions)
        codes = np.empty(n, np.int32)
        for block in row_blocks(n, count):
            rows = block.stop - block.start
            every = np.tile(np.arange(count, dtype=np.int32), rows)
            pairs = Eligible(np.arange(rows + 1) * count, every)
            codes[block] = highest(self.scores(context[block], pairs), pairs)
        return codes

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return 1 for the best eligible item of each row, else 0, (m,)."""
        assert context is not None
        return taken(highest(self.scores(context, eligible), eligible), eligible)

    def over(self, model: JointModel, actions: Actions) -> Policy:
        """Return the policy with the scores of other items."""
        return JointTrees(model, self.nodes, self.roots, actions, self.features)

    def state(self) -> State:
        """Return the model, its items and the trees."""
        known = self.model.state(self.actions, self.features)
        arrays = {**known.arrays, "nodes": self.nodes, "roots": self.roots}
        return State(known.actions, known.features, known.parameters, arrays)

    @classmethod
    def from_state(cls, state: State) -> JointTrees:
        """Return the policy of a state."""
        nodes, roots = state.array("nodes", -1, COLUMNS), state.array("roots", -1)
        return cls(JointModel.from_state(state), nodes, roots, state.known(), state.features)
