"""House rule: a function can be seen as a whole, a module is read in one sitting.

A function has at most 80 lines and a module at most 450, in lines of code: blank lines, comments
and docstrings are not counted, so that explaining is never punished. The limits are wide on
purpose: code is not folded to meet them (`check_lines.py`).
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from house import Finding, files, main, parse

FUNCTION_LINES = 80
MODULE_LINES = 450
RULE = f"functions of at most {FUNCTION_LINES} and modules of at most {MODULE_LINES} lines of code"
LAYOUT = frozenset(
    {
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.COMMENT,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


def docstring_lines(tree: ast.AST) -> set[int]:
    """Lines of every statement that is only a string."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def code_lines(text: str, tree: ast.AST) -> set[int]:
    """Numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(tree)


def check(root: Path) -> Iterator[Finding]:
    """Every function and module that is too long; tests may be longer."""
    folders = (root / name for name in ("src/piwo", "scripts", "experiments", "benchmarks"))
    for path in (
        p for folder in folders if folder.is_dir() for p in files(folder) if p.suffix == ".py"
    ):
        tree, _ = parse(path)
        lines = code_lines(path.read_text(encoding="utf-8"), tree)
        if len(lines) > MODULE_LINES:
            yield Finding(
                path, 1, f"module has {len(lines)} lines of code, at most {MODULE_LINES}: split it"
            )
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = sum(
                    node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines
                )
                if size > FUNCTION_LINES:
                    message = f"{node.name}() has {size} lines, at most {FUNCTION_LINES}: split it"
                    yield Finding(path, node.lineno, message)


if __name__ == "__main__":
    main(RULE, check)
