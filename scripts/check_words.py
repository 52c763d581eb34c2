"""House rules on the text and the names of files.

Nothing in the project depends on one machine (no absolute paths of it, no registry hosts, no lock
files that record where packages came from), and the tree is the table of contents (no `utils.py`
and the like). Unpickling and global random state are forbidden too; ruff checks those (TID251,
S301, NPY002 in pyproject.toml). Where a line needs such a word, say why on it: `# allowed: reason`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from house import Finding, files, main, waived

RULE = "no machine paths, registry hosts, lock files or catch-all modules"
EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "core", "common", "misc"})
LOCK_FILES = re.compile(r".*\.lock|conda-lock\.ya?ml|pylock(\..*)?\.toml|.*requirements.*\.txt")
BINARY = frozenset(
    {".parquet", ".png", ".npy", ".npz", ".piwo", ".pdf", ".ico", ".woff2", ".zip", ".gz"}
)

# Written with [.] and the like, so that this file does not break the rule that it checks.
MACHINE_PATH = re.compile(
    r"(?<![\w.:/\\}$)\]*-])/(root|home|Users|mnt|tmp|work|workspace|builds)/[\w.-]|(?<!\w)[A-Z]:\\+Users\\"
)
REGISTRY = re.compile(
    r"pypi[.]org|pythonhosted[.]org|anaconda[.]org|index[-]url|/simple[/]", re.IGNORECASE
)
FORBIDDEN = (
    (MACHINE_PATH, "absolute path of one machine; use a relative or a temporary one"),
    (REGISTRY, "a package registry; pip knows its own"),
)


def check(root: Path) -> Iterator[Finding]:
    """Every forbidden file name and every forbidden text."""
    for path in files(root):
        if path.suffix == ".py" and path.stem.strip("_") in EMPTY_NAMES:
            yield Finding(
                path, 1, f"{path.name} says nothing; name it after the one thing that it holds"
            )
        if LOCK_FILES.fullmatch(path.name):
            yield Finding(
                path, 1, "lock file; dependencies are declared in pyproject.toml, with floors"
            )
        if path.suffix in BINARY:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for pattern, message in FORBIDDEN:
                found = pattern.search(line)
                if found and not waived(line, "allowed"):
                    yield Finding(path, number, f"{found.group().strip()!r}: {message}")


if __name__ == "__main__":
    main(RULE, check)
