"""Help: the common options on one screen, all of them with --help-all."""

import pytest

from piwo.cli.app import make_app

COMMANDS = [("check",), ("evaluate",), ("learn",), ("report",), ("demo",), ("policy", "act")]
LINES = 40


def options(command: tuple[str, ...]) -> list[str]:
    app = make_app()
    for word in command:
        app = app[word]
    names = [x.names[0] for x in app.assemble_argument_collection()]
    return [name for name in names if name.startswith("--")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_one_screen(piwo, monkeypatch, command) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = piwo(*command, "--help")
    assert done.code == 0
    assert len(done.out.splitlines()) <= LINES
    rare = [x for x in options(command) if f"{x} " not in done.out]
    assert not rare or f"piwo {command[0]} --help-all" in done.out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_all_lists_every_option(piwo, monkeypatch, command) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = piwo(*command, "--help-all")
    assert done.code == 0
    for option in options(command):
        assert f"{option} " in done.out
    assert "--help-all" not in done.out


@pytest.mark.parametrize("command", ["evaluate", "learn"])
def test_what_a_first_call_needs_is_common(piwo, command: str) -> None:
    shown = piwo(command, "--help").out
    for option in ("--action", "--reward", "--cost", "--propensity", "--context", "--delta"):
        assert f"{option} " in shown
    assert "--hash-size" not in shown
