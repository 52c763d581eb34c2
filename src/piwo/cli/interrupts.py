"""Ctrl-C ends a command, even while a library does not react to it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "interruptible"]

INTERRUPTED = 128 + signal.SIGINT
"""The exit code after Ctrl-C: 130, by the convention of shells."""
GRACE = 2.0
"""Seconds that a command has to end by itself: to finish batches and remove half-written files."""
SHOW_CURSOR = b"\x1b[?25h"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets; a library may turn the interrupt into its own exception.

    Python runs signal handlers only between its own instructions, and a database or a solver may be
    busy for minutes inside one of them. Then a thread that the operating system wakes ends the
    process.
    """
    pressed, ended = threading.Event(), threading.Event()
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Only the main thread may set handlers; and a shell that has the command ignore Ctrl-C
        # (nohup, jobs in the background) is obeyed.
        yield pressed
        return

    def stop(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.default_int_handler(number, frame)

    receiver, sender = socket.socketpair()
    sender.settimeout(0)
    before = signal.signal(signal.SIGINT, stop)
    channel = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(receiver, ended), daemon=True)
    watcher.start()
    try:
        yield pressed
    finally:
        ended.set()
        signal.set_wakeup_fd(channel)
        signal.signal(signal.SIGINT, before)
        sender.close()
        watcher.join()
        receiver.close()


def _watch(receiver: socket.socket, ended: threading.Event) -> None:
    """End the process if it has not ended some time after Ctrl-C."""
    while numbers := receiver.recv(64):
        if signal.SIGINT in numbers and not ended.wait(GRACE):
            if sys.stderr.isatty():
                # the progress bar has hidden the cursor
                os.write(2, SHOW_CURSOR)
            os._exit(INTERRUPTED)
