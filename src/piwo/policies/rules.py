"""A decision tree as lines to read: a condition a line, below it what follows, then the action."""

from __future__ import annotations

from collections.abc import Callable

from piwo.checks import shown
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.visible import exact, visible

__all__ = ["MOST_RULES", "tree_rules"]

MOST_RULES = 63
"""Most lines of one tree; a tree of depth 5 has 62."""


def tree_rules(
    nodes: Floats,
    root: int,
    offset: Floats,
    actions: Actions,
    features: Features | None = None,
) -> tuple[str, ...]:
    """Return the rules of one tree (`piwo.policies.Trees`); a last line says if some are left out.

    Thresholds have all their digits, so that the rules decide as the policy does. The two sides of
    a column of 0 and 1 are in words: `shop = 'a'`, `age is missing`.

    Args:
        nodes: (N, 4).
        root: the node at which the tree starts.
        offset: (K,) what is added to the scores.
        actions: the K labels.
        features: the names of the columns; None: they are called x[0], x[1], ...

    >>> import numpy as np
    >>> nodes = np.array([[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]])
    >>> for line in tree_rules(nodes, 0, np.zeros(2), Actions(["low", "high"])):
    ...     print(line)
    x[0] <= 0.5 -> 'low'
    x[0] > 0.5 -> 'high'
    """
    sides = _sides(features)
    lines: list[str] = []

    def action(leaf: int) -> str:
        scores = offset.copy()
        scores[int(nodes[leaf, 2])] += nodes[leaf, 3]
        return f"-> {shown(actions.labels[int(scores.argmax())])}"

    if nodes[root, 0] < 0:
        return (visible(action(root)),)
    # (node above, side, depth), the next one last
    pending = [(root, 1, 0), (root, 0, 0)]
    while pending:
        if len(lines) == MOST_RULES:
            lines.append(f"... ({len(nodes)} nodes in all)")
            break
        above, side, depth = pending.pop()
        column, threshold, child, _ = nodes[above]
        line = "  " * depth + sides(int(column), float(threshold))[side]
        node = int(child) + side
        if nodes[node, 0] < 0:
            line = f"{line} {action(node)}"
        else:
            pending += [(node, 1, depth + 1), (node, 0, depth + 1)]
        lines.append(visible(line))
    return tuple(lines)


def _sides(features: Features | None) -> Callable[[int, float], tuple[str, str]]:
    """Return the function that gives, for a column and its threshold, both sides in words."""
    words: dict[int, tuple[str, str]] = {}
    names: tuple[str, ...] = ()
    if features is not None:
        names, start = features.names, 0
        for item in features.items:
            if item.kind == "levels":
                for i, level in enumerate(item.levels):
                    value = shown(level)
                    words[start + i] = (f"{item.column} != {value}", f"{item.column} = {value}")
            start += item.width
            if item.missing:
                words[start - 1] = (f"{item.column} is not missing", f"{item.column} is missing")

    def both(column: int, threshold: float) -> tuple[str, str]:
        # such columns are 0 or 1
        if column in words and 0.0 <= threshold < 1.0:
            return words[column]
        name = names[column] if names else f"x[{column}]"
        return f"{name} <= {exact(threshold)}", f"{name} > {exact(threshold)}"

    return both
