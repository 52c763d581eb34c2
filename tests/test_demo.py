"""`piwo demo` in an empty folder: what it says is true, and the commands that it prints do what
they say."""

import json
import os
import shlex
import subprocess
import sys
import venv

import pytest

import piwo

RUN = [sys.executable, "-c", "import sys; from piwo.cli.main import main; sys.exit(main())"]


def run(folder, *words):
    return subprocess.run(
        [*RUN, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def told(folder):
    done = run(folder, "demo")
    assert done.returncode == 0, done.stderr
    # A busy machine gets lines of progress.
    assert all(" rows, " in line for line in done.stderr.splitlines()), done.stderr
    return done.stdout


def commands(told):
    """The commands on the files that the demo wrote."""
    by_hand = told.split("The same by hand;")[1].split("On your own log")[0]
    return [line.strip() for line in by_hand.splitlines() if line.strip().startswith("piwo ")]


def test_it_tells_the_whole_story_and_leaves_a_policy_and_its_log(told, folder):
    for number, name in enumerate(("check", "evaluate", "learn", "policy act"), start=2):
        assert f"{number}. " in told
        assert f"(piwo {name})" in told
    assert len(told.splitlines()) < 60
    assert max(map(len, told.splitlines())) <= 120
    assert sorted(x.name for x in folder.iterdir()) == ["digits-log.parquet", "digits.piwo"]


def test_the_commands_that_it_prints_run(told, folder):
    listed = commands(told)
    assert [shlex.split(x)[1] for x in listed] == ["check", "evaluate", "learn", "policy", "policy"]
    for line in listed:
        done = run(folder, *shlex.split(line)[1:])
        assert done.returncode == 0, (line, done.stderr)
        assert done.stdout.strip()
    # and learn says what the demo said
    learned = json.loads(run(folder, *shlex.split(listed[2])[1:], "--json").stdout)["certificate"]
    assert f"{learned['value_lower']:.3f}" in told
    assert f"{learned['improvement_lower']:+.3f}" in told


def test_its_numbers_hold(tmp_path):
    done = run(tmp_path, "demo", "--json", "--quiet", "--out", "mine.piwo")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "fit"
    assert [one["name"] for one in found["evaluations"]] == ["uniform", "constant:1", "greedy"]
    for one in found["evaluations"]:
        assert one["lower"] <= one["truth"] <= one["upper"]
        assert one["simultaneous"] == 3
    certificate = found["certificate"]
    assert certificate["certified"]
    assert certificate["value_lower"] <= found["truth"]
    assert certificate["improvement_lower"] <= found["truth"] - found["true_logging_value"]
    saved = piwo.policies.load_with_metadata(tmp_path / "mine.piwo")
    assert saved.metadata["certificate"]["value_lower"] == certificate["value_lower"]
    assert (tmp_path / "mine-log.parquet").exists()


def test_a_missing_folder_is_one_line(tmp_path):
    done = run(tmp_path, "demo", "--out", "nowhere/digits.piwo")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="the line is for a POSIX shell")
def test_the_first_line_activates_the_environment(tmp_path):
    venv.create(tmp_path / ".venv", symlinks=True)
    programs = tmp_path / ".venv" / "bin"
    (programs / "piwo").write_text("#!/bin/sh\necho here\n", "utf-8")
    (programs / "piwo").chmod(0o755)
    # the new environment is empty: the libraries are those of this one
    libraries = os.pathsep.join(x for x in sys.path if x)
    ask = "from piwo.cli.demo import activation; print(*activation())"

    def line(path: str) -> str:
        return subprocess.run(
            [programs / "python", "-c", ask],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": libraries, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    plain = os.defpath
    assert line(plain) == ". .venv/bin/activate"
    typed = subprocess.run(
        f"{line(plain)}; piwo check digits-log.parquet",
        shell=True,
        cwd=tmp_path,
        env={"PATH": plain},
        capture_output=True,
        text=True,
        check=True,
    )
    assert typed.stdout == "here\n"
    assert line(os.pathsep.join([str(programs), plain])) == ""


def test_quiet_prints_its_files_alone(tmp_path):
    done = run(tmp_path, "demo", "--quiet", "--out", "mine.piwo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "wrote mine-log.parquet and mine.piwo\n"
