"""Entry point of the `piwo` command: signals have their handlers before the package is imported."""

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
        signal.signal(signal.SIGINT, stop_at_once)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop_at_once)
    from piwo.cli.main import main as run

    return run()


def stop_at_once(number: int, *_: object) -> None:
    """End the process; `piwo.cli.interrupts` says the same.

    Args:
        number: of the signal.
    """
    said = b"piwo: interrupted\n" if number == signal.SIGINT else b"piwo: terminated\n"
    with suppress(OSError):
        os.write(2, said)
    os._exit(128 + number)
