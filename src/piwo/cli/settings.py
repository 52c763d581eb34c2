"""Settings files: `piwo.toml`, or the table `[tool.piwo]` of `pyproject.toml`.

The nearest file is used, from the working directory upwards. A key is the name of an option
(`reward-range` or `reward_range`). At the top of the file, it is for every command that has the
option; in a table named after a command, for that command only. A typed option comes before a
variable PIWO_..., and a variable before the file.

Cyclopts assigns the values to the options. This module adds what cyclopts lacks: the search for the
nearest of two kinds of file, keys that are valid for some commands only, and lists as values of
options that take a comma list.
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
    """Give options that have no value yet the values of the nearest settings file.

    Args:
        root: the whole command line, with every option.
        app: the command that was typed.
        commands: its name, such as ("policy", "act").
        arguments: its arguments.

    Raises:
        UsageError: for a file that is not TOML, and for keys that are not an option of any command.
    """
    path, settings = nearest(_working_directory())
    if path is None:
        return
    _check_keys(settings, dict(_options(root)), path)
    repeatable: set[str] = set()
    for one in arguments:
        _, takes_several = one.token_count()
        if takes_several:
            repeatable.update(one.names)
    settings = _joined(settings, repeatable)
    # The table of the command comes first, as an option that has a value keeps it.
    for own_table in (True, False):
        assign = Dict(
            settings, source=str(path), use_commands_as_keys=own_table, allow_unknown=True
        )
        assign(app, commands, arguments)


def nearest(folder: Path) -> tuple[Path | None, Mapping[str, Any]]:
    """Return the nearest settings file, from a folder upwards, and its contents."""
    for place in (folder, *folder.parents):
        own, project = place / "piwo.toml", place / "pyproject.toml"
        # A folder of this name is passed over. A device or a pipe is not: `_read` refuses it.
        if own.exists() and not own.is_dir():
            return own, _read(own)
        if project.exists() and not project.is_dir():
            tools = _read(project).get("tool", {})
            table = None
            if isinstance(tools, Mapping):
                table = tools.get("piwo")
            # Most projects have no table for piwo; the search goes on above them.
            if table is None:
                continue
            if not isinstance(table, Mapping):
                raise UsageError(f"{project}: tool.piwo is {table!r:.40}, expected a table")
            return project, table
    return None, {}


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "the working directory was removed; change to a folder that exists"
        ) from None


def settings_of(command: str) -> dict[str, str]:
    """Return the settings of a command in the nearest file: option -> value, as it is typed."""
    _, settings = nearest(_working_directory())
    values = dict(settings)
    own = settings.get(command)
    if isinstance(own, Mapping):
        values |= own
    found: dict[str, str] = {}
    for key, value in _joined(values, set()).items():
        # The tables of other commands.
        if isinstance(value, Mapping):
            continue
        text = str(value)
        if isinstance(value, bool):
            text = text.lower()
        found["--" + key.replace("_", "-")] = text
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(path).decode("utf-8"))
    except (ValueError, RecursionError) as cause:
        raise UsageError(f"{path} cannot be read as TOML: {cause}") from None


def _options(app: App, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yield every command with the names of its options; a group such as `policy` has none."""
    for name in app:
        # --help and --version are commands to cyclopts.
        if name.startswith("-"):
            continue
        command = app[name]
        names: set[str] = set()
        if command.default_command is not None:
            for argument in command.assemble_argument_collection():
                names.update(argument.names)
        options: set[str] = set()
        for option in names:
            # A file sets `refit = false`, not --no-refit, and an empty list, not --empty-context.
            negative = option.startswith(("--no-", "--empty-"))
            if option.startswith("--") and not negative:
                options.add(option.removeprefix("--"))
        yield (*above, name), options
        yield from _options(command, (*above, name))


def _check_keys(
    settings: Mapping[str, Any],
    known: Mapping[tuple[str, ...], set[str]],
    path: Path,
    command: tuple[str, ...] = (),
) -> None:
    """Raise for tables that are not commands, and for keys that are not options.

    Args:
        settings: the contents of the file, or of the table of a command.
        known: command -> names of its options.
        path: of the file.
        command: of the table; empty for the top of the file, where any command's option may be set.
    """
    if command:
        options = known[command]
    else:
        options = set().union(*known.values())
    for key, value in settings.items():
        name = key.replace("_", "-")
        below = (*command, key)
        if isinstance(value, Mapping) and below not in known:
            tables = [x[-1] for x in known if x[:-1] == command]
            raise UsageError(
                f"{path}: no command is called {key!r}, expected one of {_listed(tables)}"
            )
        if isinstance(value, Mapping):
            _check_keys(value, known, path, below)
        elif below in known:
            raise UsageError(f"{path}: {key!r} is a command, expected a table [{key}]")
        elif name not in options:
            near = difflib.get_close_matches(name, options, n=1)
            if near:
                hint = f"did you mean {near[0]!r}?"
            else:
                hint = f"expected one of {_listed(options)}"
            raise UsageError(f"{path}: no option is called {key!r}; {hint}")


def _joined(settings: Mapping[str, Any], repeatable: set[str]) -> dict[str, Any]:
    """Return the settings with each list as a comma list, but for options that may be repeated."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found[key] = value
        if isinstance(value, Mapping):
            found[key] = _joined(value, repeatable)
        elif isinstance(value, list) and "--" + key.replace("_", "-") not in repeatable:
            found[key] = ",".join(map(str, value))
    return found


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
