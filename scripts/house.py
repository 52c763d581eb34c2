"""What the check scripts share: which files they read, and how they say what they found."""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SKIPPED_FOLDERS = frozenset({"build", "dist", "__pycache__", "site", "node_modules", "htmlcov"})
KEPT_DOT_FOLDERS = frozenset({".ci", ".github"})


@dataclass(frozen=True)
class Finding:
    """One place where a rule is broken."""

    path: Path
    line: int
    message: str


def files(root: Path) -> Iterator[Path]:
    """Every file of the project under `root`, in order, without environments, caches and builds."""
    for path in sorted(root.iterdir()):
        if path.is_symlink() or path.name == ".git":  # a file, in a second worktree
            continue
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name not in KEPT_DOT_FOLDERS
            if (
                not hidden
                and path.name not in SKIPPED_FOLDERS
                and not path.name.endswith(".egg-info")
            ):
                yield from files(path)
        else:
            yield path


def package_files(root: Path) -> Iterator[Path]:
    """The Python files of the package."""
    return (path for path in files(root / "src" / "piwo") if path.suffix == ".py")


def parse(path: Path) -> tuple[ast.Module, list[str]]:
    """The syntax tree of a file, and its lines."""
    text = path.read_text(encoding="utf-8")
    return ast.parse(text, filename=str(path)), text.splitlines()


def waived(line: str, tag: str) -> bool:
    """Is the line excused by a comment `# tag: reason`? The reason must be there."""
    return re.search(rf"#\s*{re.escape(tag)}:\s*\S", line) is not None


def main(rule: str, check: Callable[[Path], Iterable[Finding]]) -> None:
    """Run a check from the command line: `check_x.py [ROOT]`; exit code 1 if the rule is broken."""
    parser = argparse.ArgumentParser(description=rule)
    parser.add_argument(
        "root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent
    )
    root = parser.parse_args().root.resolve()
    found = list(check(root))
    for finding in found:
        path = finding.path.relative_to(root) if finding.path.is_relative_to(root) else finding.path
        print(f"{path.as_posix()}:{finding.line}: {finding.message}")
    name = Path(sys.argv[0]).stem
    if found:
        print(f"{name}: {len(found)} found. Rule: {rule}", file=sys.stderr)
        sys.exit(1)
    print(f"{name}: ok")
