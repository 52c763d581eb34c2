"""Completion in shells: a script for each, which names commands and options."""

import shutil
import subprocess

import pytest

from piwo.cli.app import make_app


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_commands_and_options(shell, tmp_path) -> None:
    script = make_app().generate_completion(shell=shell)
    for word in ("evaluate", "monitor", "policy", "gate"):
        assert word in script
    file = tmp_path / f"piwo.{shell}"
    file.write_text(script, encoding="utf-8")
    found = shutil.which(shell)
    if found is None:
        return
    # read, not run: is it the language of this shell?
    checked = subprocess.run([found, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_it_is_installed_below_the_home_of_the_user(piwo, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    done = piwo("--install-completion", "--shell", "bash")
    assert done.code == 0, done.err
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("piwo" in path.name for path in written)
