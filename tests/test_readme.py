"""The README and the guide do what they say: their Python is run as it stands, and so are their
commands."""

import ast
import contextlib
import io
import operator
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import sklearn

import piwo
from piwo.cli.app import parse
from piwo.cli.main import main

ROOT = Path(__file__).resolve().parent.parent


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run_python(page):
    """Run all Python blocks of a page, one after the other, as one program; return what they
    print."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        names = {"__name__": "__main__"}
        for block in blocks(page, "python"):
            exec(compile(block, page, "exec"), names)
    return told.getvalue(), names


def joined_lines(page, language):
    return "".join(blocks(page, language)).replace("\\\n", " ").splitlines()


def commands(page):
    return [line for line in joined_lines(page, "sh") if line.startswith("piwo ")]


def test_quick_start_is_short_and_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(blocks("README.md", "python")[0].splitlines()) <= 30
    told, names = run_python("README.md")
    assert "fit" in told.splitlines()[0]
    assert "held-out certificate" in told
    result, learner, bandit = names["result"], names["learner"], names["bandit"]
    assert result.lower <= bandit.value(names["uniform"]) <= result.upper
    assert learner.certificate_.certified
    assert learner.certificate_.value_lower <= bandit.value(learner.policy_)


def require_run(line, capsys):
    """Run one command, in this process; return what it prints.

    A page says so where a command does not end with 0: `piwo ... # exit code 1`. Of an error, what
    it prints is the error.
    """
    capsys.readouterr()
    code = main(shlex.split(line, comments=True)[1:])
    out, err = capsys.readouterr()
    said = re.search(r"# exit code (\d)$", line)
    assert code == (int(said.group(1)) if said else 0), (line, err)
    return out + err if code == 2 else out


@pytest.mark.parametrize(
    "page",
    [
        "docs/guide.md",
        "docs/adaptive.md",
        "docs/formats.md",
        "docs/scikit-learn.md",
        "docs/pessimism.md",
        "docs/promises.md",
        "docs/slates.md",
        "docs/tutorials/daily-look.md",
        "docs/tutorials/first.md",
        "docs/tutorials/open-bandit.md",
        "docs/tutorials/scikit-learn.md",
        "docs/tutorials/vowpal-wabbit.md",
        "docs/how-to/late-rewards.md",
        "docs/how-to/logger-learned.md",
        "docs/how-to/no-propensities.md",
        "docs/how-to/small-sample.md",
        "docs/how-to/users-repeat.md",
        "docs/how-to/wide-interval.md",
        "docs/scenarios/ads.md",
        "docs/scenarios/email.md",
        "docs/scenarios/news.md",
        "docs/scenarios/router.md",
        "docs/scenarios/slate.md",
    ],
)
def test_pages_run(page, tmp_path, monkeypatch, capsys):
    if page == "docs/tutorials/vowpal-wabbit.md":
        pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")
    monkeypatch.chdir(tmp_path)
    # a page may enable metadata routing
    with sklearn.config_context():
        printed, _ = run_python(page)
    for line in commands(page):
        printed += require_run(line, capsys)
    checked = ("docs/how-to/", "docs/tutorials/", "docs/scenarios/")
    if page.startswith((*checked, "docs/pessimism", "docs/promises")):
        written = [*tmp_path.glob("*.csv"), *tmp_path.glob("*.vw")]
        printed += "".join(file.read_text(encoding="utf-8") for file in written)
        shown = without_numbers(printed)
        for line in "".join(blocks(page, "text")).splitlines():
            assert without_numbers(line.removesuffix("...").strip()) in shown, line


def pages():
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(found) > 30
    return found


LANGUAGES = {"python", "sh", "text", "bash", "py", "dockerfile", "json", "sql", "toml", "yaml"}
"""Of blocks: `python` and `sh` are run, `py` and `bash` need what a test does not have."""


def test_every_block_says_its_language():
    for page in pages():
        fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(fences[::2]) <= LANGUAGES, page
        assert set(fences[1::2]) <= {""}, page


@pytest.mark.parametrize("page", ["docs/clusters.md", "docs/guide.md", "docs/slates.md"])
def test_commands_that_are_not_run_have_options_that_exist(page):
    listed = [line for line in joined_lines(page, "bash") if line.startswith("piwo ")]
    assert listed
    for line in listed:
        parse(shlex.split(line, comments=True)[1:])


def test_python_that_is_not_run_uses_names_that_exist():
    named = 0
    for page in pages():
        for block in blocks(page, "py"):
            tree = ast.parse(block)
            dotted = {ast.unparse(one) for one in ast.walk(tree) if isinstance(one, ast.Attribute)}
            for name in sorted(one for one in dotted if re.fullmatch(r"piwo(\.\w+)+", one)):
                operator.attrgetter(name.removeprefix("piwo."))(piwo)
                named += 1
    assert named


def without_numbers(text):
    """What is printed may differ in its last digits from one machine to the next, and in widths."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\d.,]*", "#", text))


def test_commands_of_the_readme_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    listed = commands("README.md")
    assert listed[0].startswith("piwo demo")
    assert {line.split()[1] for line in listed} >= {
        "demo",
        "check",
        "evaluate",
        "learn",
        "policy",
        "report",
    }
    for line in listed:
        assert require_run(line, capsys).strip()


def test_commands_of_the_landing_page_are_those_of_the_readme():
    listed = commands("docs/index.md")
    assert len(listed) == 2
    assert set(listed) <= set(commands("README.md"))


def test_links_lead_somewhere():
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text):
            assert (page.parent / target).exists(), (page, target)


def test_sections_that_docstrings_cite_exist():
    """`docs/theory.md, section "..."` in a docstring names a heading of that page."""
    headings = set(
        re.findall(
            r"^## (.+)$", (ROOT / "docs" / "theory.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    package = ROOT / "src" / "piwo"
    cited = set()
    for path in package.rglob("*.py"):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for rest in text.split("docs/theory.md, section")[1:]:
            head = rest[:120].lstrip("s").lstrip()
            names = re.match(r'"[^"]+"(?:(?:,| and) "[^"]+")*', head)
            assert names, (path, head)
            cited |= set(re.findall(r'"([^"]+)"', names.group()))
    assert cited
    assert cited <= headings


def test_the_readme_lists_the_extras_and_all_is_what_users_can_use():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| extra \|.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)
    assert set(
        re.findall(r"`([a-z]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()))
    ) == set(extras)
    (held,) = extras["all"]
    assert set(held.removeprefix("piwo[").removesuffix("]").split(",")) == set(extras) - {
        "all",
        "docs",
        "test",
        "dev",
    }
