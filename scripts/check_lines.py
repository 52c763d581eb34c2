"""House rules on lines: nothing is folded to meet a size, and pages can be read in a terminal.

No conditional expression is inside another one, no call is kept from the formatter, and in the
package no comprehension is inside another one. Prose in Markdown is at most 120 columns wide; rows
of tables and code blocks cannot be wrapped and are left alone.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from house import Finding, files, main, parse

RULE = "no nested conditionals or comprehensions, no unformatted calls, prose of 120 columns"
PROSE = 120
CODE_FOLDERS = ("src", "scripts", "experiments", "benchmarks")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _nested(tree: ast.Module, kinds: tuple[type[ast.AST], ...]) -> Iterator[int]:
    """Lines of nodes of some kinds that lie inside another one of them."""
    for outer in ast.walk(tree):
        if not isinstance(outer, kinds):
            continue
        for inner in ast.walk(outer):
            if inner is not outer and isinstance(inner, kinds):
                yield getattr(inner, "lineno", 1)


def _unformatted(text: str, tree: ast.Module) -> Iterator[int]:
    """Lines of `fmt: skip` that end a call."""
    comments = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and re.search(r"fmt:\s*(skip|off)", token.string)
    }
    calls = {node.end_lineno for node in ast.walk(tree) if isinstance(node, ast.Call)}
    yield from sorted(comments & calls)


def _code(path: Path, place: Path) -> Iterator[Finding]:
    tree, _ = parse(path)
    for line in sorted(set(_nested(tree, (ast.IfExp,)))):
        yield Finding(path, line, "a conditional expression inside another; write statements")
    for line in sorted(set(_nested(tree, COMPREHENSIONS))) if "src" in place.parts else ():
        yield Finding(path, line, "a comprehension inside another; write a loop or a function")
    for line in _unformatted(path.read_text(encoding="utf-8"), tree):
        yield Finding(path, line, "a call kept from the formatter; let ruff format it")


def _prose(path: Path) -> Iterator[Finding]:
    in_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        formula = line.startswith("    ")  # an indented block
        table = line.lstrip().startswith("|")
        unwrappable = in_code or formula or table or " " not in line.strip()
        if len(line) > PROSE and not unwrappable:
            yield Finding(path, number, f"{len(line)} columns, at most {PROSE}: wrap it")


def check(root: Path) -> Iterator[Finding]:
    """Every folded expression, and every line of prose that is too wide."""
    for path in files(root):
        if path.suffix == ".md":
            yield from _prose(path)
        place = path.relative_to(root)
        if path.suffix == ".py" and place.parts[0] in CODE_FOLDERS:
            yield from _code(path, place)


if __name__ == "__main__":
    main(RULE, check)
