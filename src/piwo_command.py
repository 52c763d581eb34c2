"""Where the `piwo` command begins: Ctrl-C is listened to before the package, which takes a while, is imported."""

from __future__ import annotations

import os
import signal

__all__ = ["main"]

INTERRUPTED = 130
"""The exit code, as in `piwo.cli.interrupts`."""


def main() -> int:
    """Run the command that was typed.

    Nothing is begun while modules are imported, so that the process may end at once;
    `piwo.cli.main` listens from then on. A shell that has the command ignore Ctrl-C (`nohup`, jobs
    in the background) is obeyed.

    Returns:
        The exit code.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from piwo.cli.main import main as run

    return run()
