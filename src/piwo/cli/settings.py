"""Settings from the nearest `piwo.toml`, or `[tool.piwo]` of `pyproject.toml`, upwards from here.

A key is the name of an option (`reward-range` or `reward_range`). At the top it is for every
command that has the option; in a table named after a command, for that command alone. Options that
are typed win over PIWO_ variables, and these over files.

Assigning values to options is cyclopts' work. Three things it does not do are here: the nearest of
the two kinds of file counts and errors name it, a key at the top may be unknown to this command but
not to all, and a list can be the value of one option that takes a comma list.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.argument import ArgumentCollection
from cyclopts.config import Dict

from piwo.errors import UsageError
from piwo.files import read_file

__all__ = ["from_files", "settings_of"]


def from_files(
    root: App, app: App, commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Give the options that were not typed the values of the nearest settings file.

    Args:
        root: the whole command line, which knows every option.
        app: the command that was typed.
        commands: its name, such as ("policy", "act").
        arguments: its arguments.

    Raises:
        UsageError: for a file that is not TOML, and for keys that no command knows.
    """
    path, page = nearest(_here())
    if path is None:
        return
    _check_names(page, dict(_options(root)), path)
    several: set[str] = set()
    for one in arguments:
        _, takes_several = one.token_count()
        if takes_several:
            several.update(one.names)
    page = _joined(page, several)
    # the table of the command first: what has a value is left as it is
    for of_command in (True, False):
        Dict(page, source=str(path), use_commands_as_keys=of_command, allow_unknown=True)(
            app, commands, arguments
        )


def nearest(folder: Path) -> tuple[Path | None, Mapping[str, Any]]:
    """Return the nearest settings file, upwards from a folder, and what it says."""
    for place in (folder, *folder.parents):
        own, project = place / "piwo.toml", place / "pyproject.toml"
        # A folder of such a name is no settings file; anything else that is not a file is refused.
        if own.exists() and not own.is_dir():
            return own, _read(own)
        if project.exists() and not project.is_dir():
            tools = _read(project).get("tool", {})
            page = tools.get("piwo") if isinstance(tools, Mapping) else None
            if page is not None and not isinstance(page, Mapping):
                raise UsageError(f"{project}: tool.piwo is {page!r:.40}, expected a table")
            if page is not None:
                return project, page
    return None, {}


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "the working directory was removed; change to a folder that exists"
        ) from None


def settings_of(command: str) -> dict[str, str]:
    """Return what the nearest settings file gives a command: option -> its value as it is typed."""
    _, page = nearest(_here())
    own = page.get(command, {})
    values = {**page, **(own if isinstance(own, Mapping) else {})}
    found: dict[str, str] = {}
    for key, value in _joined(values, set()).items():
        if not isinstance(value, Mapping):
            if isinstance(value, bool):
                text = str(value).lower()
            else:
                text = str(value)
            found["--" + key.replace("_", "-")] = text
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(path).decode("utf-8"))
    except (ValueError, RecursionError) as cause:
        raise UsageError(f"{path} cannot be read as TOML: {cause}") from None


def _options(app: App, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yield every command with the names of its options; of a group of commands, none."""
    for name in app:
        if name.startswith("-"):
            continue
        command = app[name]
        known: set[str] = set()
        if command.default_command is not None:
            for argument in command.assemble_argument_collection():
                names = [x.removeprefix("--") for x in argument.names if x.startswith("--")]
                known.update(x for x in names if not x.startswith("empty-"))
        yield (*above, name), known
        yield from _options(command, (*above, name))


def _check_names(
    page: Mapping[str, Any],
    known: Mapping[tuple[str, ...], set[str]],
    path: Path,
    command: tuple[str, ...] = (),
) -> None:
    """Raise for tables that are not commands, and for keys that are not options."""
    if command:
        here = known[command]
    else:
        here = set().union(*known.values())
    for key, value in page.items():
        name = key.replace("_", "-")
        below = (*command, key)
        if isinstance(value, Mapping) and below not in known:
            tables = [x[-1] for x in known if x[:-1] == command]
            raise UsageError(
                f"{path}: no command is called {key!r}, expected one of {_listed(tables)}"
            )
        if isinstance(value, Mapping):
            _check_names(value, known, path, below)
        elif below in known:
            raise UsageError(f"{path}: {key!r} is a command, expected a table [{key}]")
        elif name not in here:
            near = difflib.get_close_matches(name, here, n=1)
            if near:
                hint = f"did you mean {near[0]!r}?"
            else:
                hint = f"known are {_listed(here)}"
            raise UsageError(f"{path}: no option is called {key!r}; {hint}")


def _joined(page: Mapping[str, Any], several: set[str]) -> dict[str, Any]:
    """Return the page with lists as comma lists, for options that take one text."""
    found: dict[str, Any] = {}
    for key, value in page.items():
        found[key] = value
        if isinstance(value, Mapping):
            found[key] = _joined(value, several)
        elif isinstance(value, list) and "--" + key.replace("_", "-") not in several:
            found[key] = ",".join(str(x) for x in value)
    return found


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
