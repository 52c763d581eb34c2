"""Help: the common options on one screen, all of them with --help-all."""

import pytest

from piwo.cli.app import make_app

LINES = 40
"""Lines of a small terminal window, which is 80 columns wide."""


def commands() -> list[tuple[str, ...]]:
    """Every command, and every command of a command."""
    found: list[tuple[str, ...]] = []
    app = make_app()
    for name in app:
        if name.startswith("-"):
            continue
        found.append((name,))
        found += [(name, inner) for inner in app[name] if not inner.startswith("-")]
    return found


def options(command: tuple[str, ...]) -> list[str]:
    app = make_app()
    for word in command:
        app = app[word]
    if app.default_command is None:
        return []
    names = [x.names[0] for x in app.assemble_argument_collection()]
    return [name for name in names if name.startswith("--")]


def test_the_commands_are_these() -> None:
    assert {*commands()} == {
        ("check",),
        ("convert",),
        ("demo",),
        ("evaluate",),
        ("join",),
        ("learn",),
        ("monitor",),
        ("policy",),
        ("policy", "act"),
        ("policy", "show"),
        ("report",),
        ("serve",),
        ("slates",),
    }


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_fits_one_screen(piwo, monkeypatch, command) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = piwo(*command, "--help")
    assert done.code == 0
    assert len(done.out.splitlines()) <= LINES
    assert max(map(len, done.out.splitlines())) <= 80
    rare = [x for x in options(command) if f"{x} " not in done.out]
    assert not rare or f"piwo {command[0]} --help-all" in done.out


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_all_lists_every_option(piwo, monkeypatch, command) -> None:
    monkeypatch.setenv("COLUMNS", "80")
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


@pytest.mark.parametrize("command", ["check", "evaluate", "learn", "report"])
def test_what_the_rows_are_is_declared_in_the_short_help(piwo, monkeypatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = piwo(command, "--help").out
    for option in ("--logger", "--unit", "--time"):
        assert f"{option} " in shown
    assert "fixed, or learning" in shown
