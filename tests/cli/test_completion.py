"""Completion in shells: Tab gives commands, options, their words, and else names of files."""

import os
import shutil
import subprocess

import pytest

from piwo.cli.app import make_app
from piwo.cli.completion import completed

FILES = ("dec.csv", "pages.piwo")
TYPED = {
    "piwo evaluate dec.c": "dec.csv",
    "piwo serve pag": "pages.piwo",
    "piwo policy show pag": "pages.piwo",
    "piwo serve pages.piwo --log fol": "folder",
    "piwo evaluate dec.csv --items pag": "pages.piwo",
    "piwo evaluate dec.csv --elig": "--eligible",
    "piwo evaluate --policy pag": "pages.piwo",
    "piwo learn dec.csv --oracle joint-di": "joint-direct",
    "piwo learn dec.csv --oracle=joint-di": "joint-direct",
    "piwo evaluate dec.csv --interval clop": "clopper-pearson",
    "piwo evaluate dec.csv --logger lear": "learning",
    "piwo mon": "monitor",
    "piwo convert dec.csv fol": "folder/",
    "piwo learn --out fol": "folder/",
}
"""What is typed before Tab -> what the last word then is or begins with."""


def script_of(shell: str) -> str:
    return completed(make_app(all_options=True).generate_completion(shell=shell), shell)


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in FILES:
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_commands_and_options(shell, tmp_path) -> None:
    script = script_of(shell)
    for word in ("evaluate", "monitor", "policy", "gate", "eligible", "joint-direct"):
        assert word in script
    file = tmp_path / f"piwo.{shell}"
    file.write_text(script, encoding="utf-8")
    found = shutil.which(shell)
    if found is None:
        return
    # read, not run: is it the language of this shell?
    checked = subprocess.run([found, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def interactive(shell: str, words: list[str], first: str, here) -> dict[str, str]:
    """Type each line and Tab in a shell that runs in a terminal; return the lines as they are."""
    pexpect = pytest.importorskip("pexpect", reason="pexpect is not installed")
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell}")
    here.joinpath("script").write_text(script_of(shell), encoding="utf-8")
    env = {**os.environ, "PS1": "ready>", "TERM": "dumb", "HOME": str(here), "INPUTRC": os.devnull}
    lines = {}
    shown = pexpect.spawn(found, words, env=env, encoding="utf-8", dimensions=(50, 500), timeout=60)
    try:
        shown.expect_exact("ready>")
        shown.sendline(first)
        shown.expect_exact("ready>")
        for line in TYPED:
            # Ctrl-A and # make the line a comment, which is not run.
            shown.send(f"{line}\t\x01#\x05<end>\r")
            shown.expect_exact("<end>")
            lines[line] = shown.before
            shown.expect_exact("ready>")
    finally:
        shown.close(force=True)
    return lines


def test_tab_completes_files_options_and_words_in_bash(here) -> None:
    lines = interactive("bash", ["--norc", "--noprofile", "-i"], ". ./script", here)
    for typed, word in TYPED.items():
        assert word in lines[typed], (typed, lines[typed])


def test_tab_completes_files_options_and_words_in_zsh(here) -> None:
    first = "setopt interactivecomments; autoload -U compinit; compinit -u; . ./script; "
    first += "compdef _cyclopts_piwo piwo"
    lines = interactive("zsh", ["-f", "-i"], first, here)
    for typed, word in TYPED.items():
        if "=" not in typed:
            assert word in lines[typed], (typed, lines[typed])


def test_fish_knows_the_same(here) -> None:
    found = shutil.which("fish")
    if found is None:
        pytest.skip("there is no fish")
    here.joinpath("script").write_text(script_of("fish"), encoding="utf-8")
    for typed, word in TYPED.items():
        asked = [found, "--no-config", "-c", f"source script; complete -C '{typed}'"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
        assert word in done.stdout, (typed, done.stdout, done.stderr)


def test_it_is_installed_below_the_home_of_the_user(piwo, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    done = piwo("--install-completion", "--shell", "bash")
    assert done.code == 0, done.err
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    (script,) = [path for path in written if path.name == "piwo"]
    assert script.read_text("utf-8") == script_of("bash")
    assert str(script) in (tmp_path / ".bashrc").read_text("utf-8")
