"""Settings from files: `piwo.toml`, or `[tool.piwo]` in a `pyproject.toml`, here or in a folder above.

A key is an option's name (`reward-range` or `reward_range`). It may stand at the top, for every
command that has the option, or in a table named after the command. What is typed wins over PIWO_
variables, and these over files.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.argument import ArgumentCollection

from piwo.errors import UsageError

__all__ = ["from_files", "settings_of"]


def from_files(root: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give the options that were not typed the values of the nearest settings file.

    Args:
        root: the whole command line, which knows every option.
        commands: the command that was typed, such as ("policy", "act").
        arguments: its arguments, in which those that were typed have tokens already.

    Raises:
        UsageError: for a file that is not TOML, and for keys that no command knows.
    """
    from cyclopts import Token

    path, page = nearest(Path.cwd())
    if path is None:
        return
    for key, value in _for_command(page, commands, path, root).items():
        argument = next((x for x in arguments if _option(key) in x.names), None)
        if argument is None or argument.tokens:
            continue
        for index, text in enumerate(_texts(value, several=argument.token_count()[1])):
            argument.append(Token(keyword=key, value=text, source=str(path), index=index))


def nearest(folder: Path) -> tuple[Path | None, Mapping[str, Any]]:
    """Return the nearest settings file, upwards from a folder, and what it says."""
    for place in (folder, *folder.parents):
        own, project = place / "piwo.toml", place / "pyproject.toml"
        if own.is_file():
            return own, _read(own)
        if project.is_file():
            page = _read(project).get("tool", {}).get("piwo")
            if page is not None:
                return project, page
    return None, {}


def settings_of(command: str) -> dict[str, str]:
    """Return what the nearest settings file gives a command: option -> the text that it stands for."""
    _, page = nearest(Path.cwd())
    own = page.get(command, {})
    found = {**page, **(own if isinstance(own, Mapping) else {})}
    return {
        _option(key): ",".join(_texts(value, several=True))
        for key, value in found.items()
        if not isinstance(value, Mapping)
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise UsageError(f"{path} cannot be read as TOML: {cause}") from None


def _for_command(
    page: Mapping[str, Any], commands: tuple[str, ...], path: Path, root: App
) -> dict[str, Any]:
    """Return the top-level keys overridden by those of the command's own table."""
    known = dict(_tables(root))
    every = {option for options in known.values() for option in options}
    here: Mapping[str, Any] = page
    found = _checked({k: v for k, v in page.items() if not isinstance(v, Mapping)}, every, path)
    for key, value in page.items():
        if isinstance(value, Mapping) and (key,) not in {x[:1] for x in known}:
            raise UsageError(
                f"{path}: no command is called {key!r}, expected one of "
                f"{_listed({x[0] for x in known})}"
            )
    for word in commands:
        here = here.get(word, {})
        if not isinstance(here, Mapping):
            raise UsageError(f"{path}: {word!r} is a command, expected a table [{word}]")
    own = {k: v for k, v in here.items() if not isinstance(v, Mapping)} if commands else {}
    return {**found, **_checked(own, known.get(commands, every), path)}


def _checked(values: dict[str, Any], known: set[str], path: Path) -> dict[str, Any]:
    for key in values:
        if _option(key) not in known:
            near = difflib.get_close_matches(_option(key), known, n=1)
            hint = (
                f"did you mean {near[0][2:]!r}?"
                if near
                else f"known are {_listed(x[2:] for x in known)}"
            )
            raise UsageError(f"{path}: no option is called {key!r}; {hint}")
    return {key.replace("_", "-"): value for key, value in values.items()}


def _tables(app: App, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yield every command with the names of its options."""
    for name in app:
        if name.startswith("-"):
            continue
        command = app[name]
        if command.default_command is not None:
            yield (
                (*above, name),
                {x for one in command.assemble_argument_collection() for x in one.names},
            )
        yield from _tables(command, (*above, name))


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))


def _texts(value: Any, several: bool) -> list[str]:
    """Return what would have been typed: a list is several words, or one with commas."""
    listed = [_text(x) for x in value] if isinstance(value, list) else [_text(value)]
    return listed if several else [",".join(listed)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
