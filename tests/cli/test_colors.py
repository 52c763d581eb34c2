"""Colors are for terminals, and NO_COLOR turns them off."""

import os
import re
import subprocess
import sys

COLOR = re.compile(rb"\x1b\[[0-9;]*3[0-9]")


def on_a_terminal(**variables: str) -> bytes:
    """Return what `piwo check --help` writes to a terminal."""
    ours, theirs = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [sys.executable, "-m", "piwo", "check", "--help"]
    settings = {**environment, "TERM": "xterm-256color", **variables}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    written = b""
    # Linux reports the end of a terminal as an error.
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return written


def test_color_on_a_terminal_but_not_with_no_color() -> None:
    assert COLOR.search(on_a_terminal())
    assert not COLOR.search(on_a_terminal(NO_COLOR="1"))


def test_no_escape_in_a_pipe() -> None:
    command = [sys.executable, "-m", "piwo", "check", "--help"]
    written = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert b"\x1b" not in written.stdout + written.stderr
