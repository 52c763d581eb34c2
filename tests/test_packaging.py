"""The conda recipe says what pyproject.toml says, and the workflows run what the pages promise."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import piwo

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONDA_NAMES = {"duckdb": "python-duckdb"}
"""Name on the Python registry -> in conda-forge, where they differ."""


def loaded(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def recipe():
    return loaded(ROOT / "packaging" / "conda" / "recipe.yaml")


def floors(requirements):
    """Name -> floor, of `name>=floor` or `name >=floor`."""
    split = [re.fullmatch(r"([\w-]+) ?>=(\S.*)", text) for text in requirements]
    assert None not in split, requirements
    return {found[1]: found[2] for found in split if found}


def test_the_recipe_needs_what_the_wheel_needs(recipe):
    needed = floors(PROJECT["project"]["dependencies"])
    expected = {CONDA_NAMES.get(name, name): floor for name, floor in needed.items()}
    run = floors(recipe["requirements"]["run"])
    assert run.pop("python") == "${{ python_min }}"
    assert run == expected
    python = recipe["context"]["python_min"]
    assert PROJECT["project"]["requires-python"] == f">={python}"
    host = recipe["requirements"]["host"]
    assert host[:2] == ["python ${{ python_min }}.*", "pip"]
    assert floors(host[2:]) == floors(PROJECT["build-system"]["requires"])


def test_the_recipe_is_of_this_version_and_installs_the_command(recipe):
    assert recipe["schema_version"] == 1
    assert recipe["context"]["version"] == piwo.__version__
    assert recipe["package"] == {"name": "piwo", "version": "${{ version }}"}
    assert re.fullmatch(r"[0-9a-f]{64}", recipe["source"]["sha256"])
    assert recipe["build"]["noarch"] == "python"
    scripts = [f"{name} = {target}" for name, target in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    about = recipe["about"]
    assert about["license"] == PROJECT["project"]["license"]
    assert about["summary"] == PROJECT["project"]["description"]
    assert [about["license_file"]] == PROJECT["project"]["license-files"]
    assert (ROOT / about["license_file"]).exists()
    imported, ran = recipe["tests"]
    assert imported["python"]["imports"] == ["piwo"]
    assert ran["script"] == ["piwo --help"]


def test_every_change_is_tested_on_each_system_and_python():
    (changes,) = (loaded(path) for path in WORKFLOWS if path.name == "ci.yml")
    # YAML reads the key `on` as true.
    assert set(changes[True]) == {"push", "pull_request"}
    pythons = ["3.11", "3.12", "3.13", "3.14"]
    (everything,) = changes["jobs"].values()
    assert everything["strategy"]["matrix"] == {
        "system": ["ubuntu-latest", "macos-latest", "windows-latest"],
        "python": pythons,
    }
    assert everything["runs-on"] == "${{ matrix.system }}"
    assert commands(everything) == ["PYTHON=python .ci/run"]
    assert everything["strategy"]["fail-fast"] is False


def test_windows_keeps_programs_in_another_folder():
    make = shutil.which("make")
    if make is None:
        pytest.skip("needs make")
    # a `make` that runs this test has settings of its own for those below it
    clean = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    for system, folder in (("Windows_NT", "Scripts"), ("", "bin")):
        ran = subprocess.run(
            [make, "--dry-run", "test", f"OS={system}", "VENV=an/environment"],
            cwd=ROOT,
            env=clean,
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"an/environment/{folder}/python -m pytest" in ran.stdout


def test_the_oldest_dependencies_are_tested_every_week():
    (oldest,) = (loaded(path) for path in WORKFLOWS if path.name == "oldest.yml")
    (time,) = oldest[True]["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", time["cron"])
    job = oldest["jobs"]["oldest"]
    assert commands(job) == ["make oldest"]
    (python,) = [step["with"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
    assert PROJECT["project"]["requires-python"] == f">={python['python-version']}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read_and_run_what_exists(path):
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        assert job["steps"][0]["uses"].startswith("actions/checkout@")
        for line in commands(job):
            assert set(re.findall(r"\bmake ([\w-]+)", line)) <= targets
            assert all((ROOT / script).exists() for script in re.findall(r"\.ci/\w+", line))


def commands(job):
    """What the steps of a job run."""
    return [step["run"].strip() for step in job["steps"] if "run" in step]
