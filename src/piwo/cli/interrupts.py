"""Ctrl-C ends a command, even while a library is busy and does not react to it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["INTERRUPTED", "MESSAGE", "goes_on", "interruptible"]

INTERRUPTED = 128 + signal.SIGINT
"""The exit code after Ctrl-C: 130, by the convention of shells."""
MESSAGE = "piwo: interrupted"
"""The last line on standard error; `piwo_command.py` has the same."""
GRACE = 2.0
"""Seconds in which a command may end by itself: finish a batch, remove a half-written file."""
_presses = {"handled": 0, "pardoned": 0}
"""How often Ctrl-C was pressed, and how many of these times the command goes on."""
_events: list[threading.Event] = []
SHOW_CURSOR = b"\x1b[?25h"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that is set once Ctrl-C was pressed, and end the process if nothing else does.

    Python runs signal handlers only between its own instructions, and a database or a solver may
    take minutes in one of them. A thread that the operating system wakes then ends the process.
    """
    # The event is needed as libraries turn KeyboardInterrupt into exceptions of their own.
    pressed, ended = threading.Event(), threading.Event()
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Only the main thread may set handlers. A shell may have the command ignore Ctrl-C (nohup,
        # jobs in the background), and that is kept.
        yield pressed
        return

    def stop(number: int, frame: FrameType | None) -> None:
        _presses["handled"] += 1
        pressed.set()
        signal.default_int_handler(number, frame)

    # Python writes the number of each signal to `sender` at once, before any handler runs.
    receiver, sender = socket.socketpair()
    sender.settimeout(0)
    old_handler = signal.signal(signal.SIGINT, stop)
    old_wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(receiver, ended), daemon=True)
    _presses.update(handled=0, pardoned=0)
    _events.append(pressed)
    watcher.start()
    try:
        yield pressed
    finally:
        _events.remove(pressed)
        ended.set()
        signal.set_wakeup_fd(old_wakeup)
        signal.signal(signal.SIGINT, old_handler)
        # `_watch` then receives nothing, and returns.
        sender.close()
        watcher.join()
        receiver.close()


def goes_on() -> None:
    """Let a command continue after Ctrl-C: it has caught the interrupt, and ends with a result."""
    _presses["pardoned"] = _presses["handled"]
    for pressed in _events:
        pressed.clear()


def _watch(receiver: socket.socket, ended: threading.Event) -> None:
    """End the process if it has not ended `GRACE` seconds after Ctrl-C."""
    seen = 0
    while numbers := receiver.recv(64):
        seen += numbers.count(signal.SIGINT)
        if signal.SIGINT not in numbers or ended.wait(GRACE):
            continue
        if seen > _presses["pardoned"]:
            text = f"{MESSAGE}\n".encode()
            if sys.stderr.isatty():
                # The progress bar has hidden the cursor, and its line has no end.
                text = SHOW_CURSOR + b"\n" + text
            with suppress(OSError):
                os.write(2, text)
            os._exit(INTERRUPTED)
