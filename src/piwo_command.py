"""Entry point of the `piwo` command: Ctrl-C has its handler before the package is imported."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["main"]


def main() -> int:
    """Run the command that was typed.

    Returns:
        The exit code.
    """
    # This file is not in the package: importing anything of it runs piwo/__init__.py first, which
    # takes most of the start (measured: 3.2 of 3.7 s on a busy machine). Until piwo.cli.main
    # listens, nothing needs cleaning up and the process may end at once.
    # A shell that has the command ignore Ctrl-C (nohup, jobs in the background) is obeyed.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _stop)
    from piwo.cli.main import main as run

    return run()


def _stop(*_: object) -> None:
    """End the process; `piwo.cli.interrupts` says the same."""
    with suppress(OSError):
        os.write(2, b"piwo: interrupted\n")
    os._exit(128 + signal.SIGINT)
