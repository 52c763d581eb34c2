"""House rule: only `scores/` divides by a propensity.

Each formula has one home. A ratio pi / mu written in place is a spot that implicit exploration
cannot reach, so outside `src/piwo/scores/` no division has a propensity in its denominator, and no
logarithm of a propensity is subtracted. Sizes and sums (`len(propensity)`, `propensity.sum()`) may
divide. Where a name only looks like a propensity, say so on that line: `# not a propensity: the
mean of a bet`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from house import Finding, main, package_files, parse, waived

RULE = "only src/piwo/scores divides by a propensity (CONTRIBUTING.md, 'One home for each formula')"
PROPENSITY = re.compile(r"propensit|pscore|(^|_)mu(_|$)", re.IGNORECASE)
LOG_PROPENSITY = re.compile(r"log_?(propensit|pscore|mu(_|$))", re.IGNORECASE)
DIVIDING_CALLS = frozenset({"divide", "true_divide", "floor_divide"})
HARMLESS_ATTRIBUTES = frozenset({"size", "shape", "ndim", "sum", "nbytes", "itemsize"})
HARMLESS_CALLS = frozenset({"len", "sum", "norm"})


def called(node: ast.Call) -> str:
    """The last part of a called name: `divide` for `np.divide(...)`."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def names(node: ast.AST) -> Iterator[str]:
    """Names whose values are in an expression, except those used only for a size or a sum."""
    if isinstance(node, ast.Attribute) and node.attr in HARMLESS_ATTRIBUTES:
        return
    if isinstance(node, ast.Call) and called(node) in HARMLESS_CALLS:
        return
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from names(child)


def denominators(node: ast.AST) -> Iterator[ast.AST]:
    """What a node divides by."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.FloorDiv):
        yield node.right if isinstance(node, ast.BinOp) else node.value
    elif isinstance(node, ast.Call) and called(node) in DIVIDING_CALLS:
        yield from node.args[1:2]
    elif isinstance(node, ast.Call) and called(node) == "reciprocal":
        yield from node.args[:1]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and is_negative(node.right):
        yield node.left


def is_negative(node: ast.AST) -> bool:
    """Is it a number with a minus before it?"""
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def subtracted(node: ast.AST) -> Iterator[ast.AST]:
    """What a node subtracts."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Sub):
        yield node.right if isinstance(node, ast.BinOp) else node.value
    elif isinstance(node, ast.Call) and called(node) == "subtract":
        yield from node.args[1:2]


def check(root: Path) -> Iterator[Finding]:
    """Every division by a propensity outside `scores/`."""
    scores = root / "src" / "piwo" / "scores"
    for path in package_files(root):
        if path.is_relative_to(scores):
            continue
        tree, lines = parse(path)
        for node in ast.walk(tree):
            divides = [n for d in denominators(node) for n in names(d) if PROPENSITY.search(n)]
            subtracts = [n for s in subtracted(node) for n in names(s) if LOG_PROPENSITY.search(n)]
            if (divides or subtracts) and not waived(lines[node.lineno - 1], "not a propensity"):
                act = f"divides by {divides[0]!r}" if divides else f"subtracts {subtracts[0]!r}"
                yield Finding(path, node.lineno, f"{act}; move the formula to scores/")


if __name__ == "__main__":
    main(RULE, check)
