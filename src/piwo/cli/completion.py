"""`piwo --install-completion`: Tab completes commands, options, their words, and file names.

The scripts are those of cyclopts, which complete nothing where they know nothing. Most of our
arguments are files, and some are words of a list: both are added here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from piwo.cli.answer import Answer
from piwo.cli.learn_options import AUTO, ORACLES, POSTERIORS, SCORES
from piwo.errors import UsageError
from piwo.intervals import INTERVALS

__all__ = ["add_completion", "completed"]

Shell = Literal["bash", "zsh", "fish", "powershell"]
WORDS: Mapping[str, tuple[str, ...]] = {
    "oracle": (AUTO, *ORACLES, *POSTERIORS),
    "score": tuple(SCORES),
    "interval": tuple(INTERVALS),
}
"""Option -> what may follow it, for those that take one of a list and are plain text."""
_BASH = """
_piwo_words() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
  [[ "$cur" == "=" ]] && cur=""
  [[ "$prev" == "=" ]] && prev="${{COMP_WORDS[COMP_CWORD-2]}}"
  _piwo "$@"
  [[ ${{#COMPREPLY[@]}} -gt 0 ]] && return
  case "$prev" in
{cases}
  esac
}}

# where nothing is known, names of files
complete -o bashdefault -o default -F _piwo_words piwo
"""


def add_completion(app: App, whole: Callable[[], App]) -> None:
    """Give the command its option `--install-completion`.

    Args:
        app: the command.
        whole: makes the command with all of its options, which the script completes.
    """

    def install(
        *,
        shell: Annotated[
            Shell | None, Parameter(help="The shell. [default: the one that runs]", show=True)
        ] = None,
        output: Annotated[
            Path | None,
            Parameter(help="File for the script. [default: where the shell looks]", show=True),
        ] = None,
    ) -> Answer:
        """Install completion of commands, options and files in bash, zsh or fish."""
        from cyclopts.completion import ShellDetectionError, detect_shell

        if shell is None:
            try:
                shell = detect_shell()
            except ShellDetectionError:
                raise UsageError(
                    "the shell that runs is not known; give --shell bash, zsh, fish or powershell"
                ) from None
        path = whole().install_completion(shell=shell, output=output)
        path.write_text(completed(path.read_text("utf-8"), shell), "utf-8")
        return Answer(f"wrote {path}; start a new {shell}, and Tab completes piwo")

    app.command(install, name="--install-completion", sort_key=11)


def completed(script: str, shell: Shell) -> str:
    """Return the script of cyclopts with file names and words of options.

    Args:
        script: what cyclopts made.
        shell: for which shell.

    >>> completed("_arguments '*--log[Files.]:log'", "zsh")
    "_arguments '*--log[Files.]:log:_files'"
    """
    if shell == "bash":
        return _in_bash(script)
    if shell == "zsh":
        return _in_zsh(script)
    if shell == "fish":
        return _in_fish(script)
    return script


def _in_bash(script: str) -> str:
    # The shell itself completes names of files better: with / after folders, and quoted.
    script = script.replace('COMPREPLY=( $(compgen -f -- "${cur}") )', "COMPREPLY=()")
    cases = [
        f'    --{option}) COMPREPLY=( $(compgen -W "{" ".join(words)}" -- "$cur") ) ;;'
        for option, words in WORDS.items()
    ]
    return script + _BASH.format(cases="\n".join(cases))


def _in_zsh(script: str) -> str:
    for option, words in WORDS.items():
        script = script.replace(f"]:{option}'", f"]:{option}:({' '.join(words)})'")
    # an option, and an argument in its place, for which nothing was known
    script = re.sub(r"(?m)(\]:[a-z-]+)'( \\)?$", r"\1:_files'\2", script)
    return re.sub(r"(?m)^( +'(?:\*|\d):(?:[^':\\]|\\.|'\\'')+)'( \\)$", r"\1:_files'\2", script)


def _in_fish(script: str) -> str:
    lines = []
    for line in script.splitlines():
        found = re.search(r" -l ([a-z-]+) -r -d ", line)
        if found is not None and found[1] in WORDS:
            words = " ".join(WORDS[found[1]])
            line = line.replace(" -r -d ", f" -x -a '{words}' -d ", 1)  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines) + "\n"
