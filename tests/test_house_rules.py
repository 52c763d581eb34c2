"""Each check script passes on a good tree and fails on a bad one, so that a silent check is
noticed."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"

DOCUMENTED = '''"""A module."""

__all__ = ["double"]


def double(x: int) -> int:
    """Return twice `x`.

    >>> double(2)
    4
    """
    return 2 * x
'''

GOOD = {
    "src/piwo/__init__.py": DOCUMENTED,
    "src/piwo/_version.py": '__version__ = "1.2.3"\n',
    "src/piwo/scores/ix.py": "def ix(pi, mu, gamma):\n    return pi / (mu + gamma)\n",
    "src/piwo/learners/sums.py": (
        "def mean(propensity):\n    return propensity.sum() / len(propensity)\n"
    ),
    "scripts/ok.py": "X = 1\n",
    "docs/reference.md": "`piwo.double(x)` doubles.\n",
    "CHANGELOG.md": "# Changelog\n\n## [1.2.3]\n",
}

BAD = {
    "check_divisions": [
        {"src/piwo/learners/a.py": "w = pi / propensity\n"},
        {"src/piwo/learners/a.py": "w = pi / (batch.propensity + gamma)\n"},
        {"src/piwo/learners/a.py": "w = pi / np.maximum(mu, gamma)\n"},
        {"src/piwo/learners/a.py": "w = pi / mu_full[rows]\n"},
        {"src/piwo/learners/a.py": "w /= batch['propensity']\n"},
        {"src/piwo/learners/a.py": "w = np.divide(pi, mu, where=mu > 0)\n"},
        {"src/piwo/learners/a.py": "w = np.reciprocal(mu)\n"},
        {"src/piwo/learners/a.py": "w = mu ** -1\n"},
        {"src/piwo/learners/a.py": "w = np.exp(log_pi - log_propensity)\n"},
    ],
    "check_words": [
        {"docs/a.md": "see " + "/ho" + "me/me/x\n"},
        {"src/piwo/a.py": 'PATH = "' + "/ro" + 'ot/x"\n'},
        {"docs/a.md": "https://py" + "pi.org/x\n"},
        {"src/piwo/utils.py": ""},
        {"src/piwo/logs/_helpers.py": ""},
        {"uv.lock": ""},
    ],
    "check_sizes": [
        {"src/piwo/a.py": "def f():\n" + "    x = 1\n" * 80},
        {"src/piwo/a.py": "x = 1\n" * 451},
        {"experiments/a.py": "x = 1\n" * 451},
        {"benchmarks/a.py": "x = 1\n" * 451},
    ],
    "check_lines": [
        {"src/piwo/a.py": "x = 1 if a else 2 if b else 3\n"},
        {"src/piwo/a.py": "x = [y for z in w for y in [v for v in z]]\n"},
        {"src/piwo/a.py": "x = f(\n  1, 2,\n)  # fmt: skip\n"},
        {"docs/a.md": "word " * 30 + "\n"},
    ],
    "check_stray": [
        {"log.dsjson": "{}\n"},
        {"notes.txt": "x\n"},
        {"scratch/a.py": "X = 1\n"},
        {"tests/left.parquet": "PAR1"},
    ],
    "check_docs": [
        {"docs/reference.md": "`piwo.halve(x)`\n"},
        {"mkdocs.yml": "nav:\n  - Home: index.md\n"},
        {"mkdocs.yml": "nav:\n  - Public names: reference.md\n"},
        {"CHANGELOG.md": "# Changelog\n"},
        {
            "src/piwo/__init__.py": DOCUMENTED.replace('["double"]', '["double", "scores"]'),
            "src/piwo/scores/__init__.py": '__all__ = ["ix", "ls"]\n',
            "mkdocs.yml": "nav:\n  - reference.md: reference.md\n"
            "  - a: reference/piwo.md\n  - b: reference/scores.md\n  - c: reference/scores-b.md\n",
            "docs/reference.md": "`piwo.double(x)` doubles; `piwo.scores`.\n",
            "docs/reference/piwo.md": "\n::: piwo.double\n\n::: piwo.scores\n",
            "docs/reference/scores.md": "\n::: piwo.scores\n      members:\n        - ix\n",
            "docs/reference/scores-b.md": "# A page that should list ls\n",
        },
    ],
    "check_docstrings": [
        {"src/piwo/__init__.py": DOCUMENTED.replace(">>> double(2)", "").replace("4\n", "")},
        {"src/piwo/__init__.py": DOCUMENTED.replace("Return twice", "Twice")},
        {"src/piwo/__init__.py": DOCUMENTED.replace('["double"]', '["double", "halve"]')},
        {
            "src/piwo/__init__.py": "from dataclasses import dataclass\n"
            + DOCUMENTED
            + "\n\n@dataclass\n"
            "class D:\n    x: int\n\n\n__all__ += ['D']\n"
        },
    ],
}


def run(script: str, tree: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Write the files, then run the script on their folder."""
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(SCRIPTS / f"{script}.py"), str(tree)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", sorted(BAD))
def test_a_good_tree_passes(script: str, tmp_path: Path) -> None:
    done = run(script, tmp_path, GOOD)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("script", "files"), [(script, files) for script in sorted(BAD) for files in BAD[script]]
)
def test_a_bad_tree_fails(script: str, files: dict[str, str], tmp_path: Path) -> None:
    done = run(script, tmp_path, GOOD | files)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Rule:" in done.stderr


def test_a_waiver_needs_a_reason(tmp_path: Path) -> None:
    files = {"src/piwo/a.py": "x = y / mu  # not a propensity: mean of a normal\n"}
    assert run("check_divisions", tmp_path, GOOD | files).returncode == 0
    files = {"src/piwo/a.py": "x = y / mu  # not a propensity:\n"}
    assert run("check_divisions", tmp_path, GOOD | files).returncode == 1


def test_every_check_script_is_run_by_make_and_tested_here() -> None:
    makefile = (SCRIPTS.parent / "Makefile").read_text(encoding="utf-8")
    scripts = {path.stem for path in SCRIPTS.glob("check_*.py")}
    assert scripts == set(BAD)
    assert [script for script in scripts if f"scripts/{script}.py" not in makefile] == []
