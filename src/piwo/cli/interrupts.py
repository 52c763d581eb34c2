"""Ctrl-C and SIGTERM end a command, even while a library is busy and does not react to them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from piwo.files import remove_unfinished

__all__ = ["ending_of", "goes_on", "interruptible"]

GRACE = 2.0
"""Seconds in which a command may end by itself: finish a batch, remove a half-written file."""
_presses = {"handled": 0, "pardoned": 0}
"""How often Ctrl-C was pressed, and how many of these times the command goes on."""
_running: list[list[int]] = []
"""The signals that each running command was sent."""
SHOW_CURSOR = b"\x1b[?25h"


def ending_of(number: int) -> tuple[int, str]:
    """Return the exit code after a signal, by the convention of shells, and the last line.

    `piwo_command.py` has the same.

    >>> ending_of(signal.SIGINT), ending_of(signal.SIGTERM)
    ((130, 'piwo: interrupted'), (143, 'piwo: terminated'))
    """
    if number == signal.SIGINT:
        return 128 + number, "piwo: interrupted"
    return 128 + number, "piwo: terminated"


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Yield a list of the signals that should end the command, and end it if nothing else does.

    These are Ctrl-C, SIGTERM, and SIGHUP where there is one. Python runs signal handlers only
    between its own instructions, and a database or a solver may take minutes in one of them. A
    thread that the operating system wakes then ends the process.
    """
    # The list is needed as libraries turn KeyboardInterrupt into exceptions of their own.
    signals: list[int] = []
    ended = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if number == signal.SIGINT:
            _presses["handled"] += 1
            signal.default_int_handler(number, frame)
        # Not a KeyboardInterrupt: a search goes on with what it has after that.
        raise SystemExit(ending_of(number)[0])

    old_handlers = _handled(stop)
    if not old_handlers:
        yield signals
        return
    # Python writes the number of each signal to `sender` at once, before any handler runs.
    receiver, sender = socket.socketpair()
    sender.settimeout(0)
    old_wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_watch, args=(receiver, ended, tuple(old_handlers)), daemon=True
    )
    _presses.update(handled=0, pardoned=0)
    _running.append(signals)
    watcher.start()
    try:
        yield signals
    finally:
        _running.remove(signals)
        ended.set()
        signal.set_wakeup_fd(old_wakeup)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        # `_watch` then receives nothing, and returns.
        sender.close()
        watcher.join()
        receiver.close()


def _handled(stop: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Make a function the handler of the signals that end a command; return the old handlers."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set handlers.
        return {}
    old_handlers: dict[int, Any] = {}
    # A shell may have the command ignore Ctrl-C or the end of the terminal (nohup, jobs in the
    # background), and that is kept.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        old_handlers[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # A program that runs the command in its own process may handle them itself.
        if number is not None and _is_ours(signal.getsignal(number)):
            old_handlers[number] = signal.signal(number, stop)
    return old_handlers


def _is_ours(handler: Any) -> bool:
    """Return whether a signal has no handler, or that of the start of the command."""
    return handler is signal.SIG_DFL or getattr(handler, "__module__", "") == "piwo_command"


def goes_on() -> None:
    """Let a command continue after Ctrl-C: it has caught the interrupt, and ends with a result."""
    _presses["pardoned"] = _presses["handled"]
    for signals in _running:
        signals[:] = [x for x in signals if x != signal.SIGINT]


def _watch(receiver: socket.socket, ended: threading.Event, ending: tuple[int, ...]) -> None:
    """End the process if it has not ended `GRACE` seconds after one of the signals `ending`."""
    seen = 0
    while numbers := receiver.recv(64):
        seen += numbers.count(signal.SIGINT)
        found = [x for x in numbers if x in ending]
        if not found or ended.wait(GRACE):
            continue
        # Ctrl-C may be pardoned, the others are not.
        number = max(found, key=lambda x: x != signal.SIGINT)
        if number == signal.SIGINT and seen <= _presses["pardoned"]:
            continue
        code, message = ending_of(number)
        text = f"{message}\n".encode()
        if sys.stderr.isatty():
            # The progress bar has hidden the cursor, and its line has no end.
            text = SHOW_CURSOR + b"\n" + text
        remove_unfinished()
        with suppress(OSError):
            os.write(2, text)
        os._exit(code)
