"""Ctrl-C ends a command, also where a library does not listen."""

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

INTERRUPTED = 130
"""The exit code."""
GRACE = 2.0
"""Seconds that a command has to end by itself: workers finish their batch, half-written files are
removed."""
SHOW_CURSOR = b"\x1b[?25h"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets: a library may turn the interrupt into an exception of its own.

    Python runs signal handlers between its own instructions only, and a database or a solver may be
    busy for minutes inside one of them. A thread that the operating system wakes ends the process
    then.
    """
    pressed, ended = threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield pressed
        return

    def stop(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.default_int_handler(number, frame)

    heard, told = socket.socketpair()
    told.settimeout(0)
    before = signal.signal(signal.SIGINT, stop)
    channel = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(heard, ended), daemon=True)
    watcher.start()
    try:
        yield pressed
    finally:
        ended.set()
        signal.set_wakeup_fd(channel)
        signal.signal(signal.SIGINT, before)
        told.close()
        watcher.join()
        heard.close()


def _watch(heard: socket.socket, ended: threading.Event) -> None:
    """End the process where it has not ended some time after Ctrl-C."""
    while numbers := heard.recv(64):
        if signal.SIGINT in numbers and not ended.wait(GRACE):
            if sys.stderr.isatty():  # the progress bar had hidden it
                os.write(2, SHOW_CURSOR)
            os._exit(INTERRUPTED)
