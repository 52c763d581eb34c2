"""House rule: no stray files. What examples and runs write does not stay in the tree.

The root of the repository holds a known list of files and folders, and no log, policy or report
lies anywhere: tests make theirs in temporary folders. A new file at the root gets its place in the
list here. Files that .gitignore names are left alone: caches, environments, what `make demo` made.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from house import Finding, files, main

RULE = "only known files at the root, no data left behind by an example or a run"
AT_ROOT = frozenset(
    {
        ".ci",
        ".github",
        ".gitattributes",
        ".gitignore",
        "benchmarks",
        "CHANGELOG.md",
        "conftest.py",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "docs",
        "experiments",
        "LICENSE",
        "Makefile",
        "mkdocs.yml",
        "packaging",
        "pyproject.toml",
        "README.md",
        "scripts",
        "SECURITY.md",
        "src",
        "tests",
    }
)
DATA = frozenset(
    {
        ".arrow",
        ".checkpoint",
        ".csv",
        ".db",
        ".dsjson",
        ".duckdb",
        ".gz",
        ".jsonl",
        ".monitor",
        ".npy",
        ".npz",
        ".parquet",
        ".piwo",
        ".tmp",
        ".vw",
        ".zip",
    }
)


def _ignored(root: Path, paths: list[Path]) -> set[Path]:
    """Which of the paths Git ignores; none outside of a repository."""
    if not paths or not (root / ".git").exists():
        return set()
    done = subprocess.run(
        ["git", "check-ignore", "--stdin"],  # noqa: S607 (Git is found on the path)
        cwd=root,
        input="\n".join(path.as_posix() for path in paths),
        capture_output=True,
        text=True,
        check=False,
    )
    return {Path(line) for line in done.stdout.splitlines()}


def check(root: Path) -> Iterator[Finding]:
    """Every file at the root that is not listed, and every data file."""
    found = []
    for path in files(root):
        place = path.relative_to(root)
        if place.parts[0] not in AT_ROOT:
            found.append((place, "not a known place at the root; remove it, or list it"))
        elif path.suffix in DATA:
            found.append((place, "data in the tree; write it in a temporary folder"))
    ignored = _ignored(root, [place for place, _ in found])
    for place, message in found:
        if place not in ignored:
            yield Finding(root / place, 1, message)


if __name__ == "__main__":
    main(RULE, check)
