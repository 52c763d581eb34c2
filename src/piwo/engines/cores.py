"""How many threads piwo runs at once."""

from __future__ import annotations

import os

from piwo.checks import shown
from piwo.errors import UsageError

__all__ = ["cores"]

_VARIABLE = "PIWO_THREADS"


def cores() -> int:
    """Return the number of threads for work that is done side by side.

    It is what the environment variable `PIWO_THREADS` says; without it, the number of cores that
    this process may use, which `taskset` and the like can make smaller than the machine's.

    Raises:
        UsageError: if the variable is not a whole number of at least 1.

    >>> cores() >= 1
    True
    """
    said = os.environ.get(_VARIABLE, "")
    if said:
        if not (said.isascii() and said.isdigit() and int(said) > 0):
            raise UsageError(
                f"{_VARIABLE} is {shown(said)}, expected the number of threads, at least 1; unset "
                "this environment variable to use all cores"
            )
        return int(said)
    if hasattr(os, "sched_getaffinity"):  # on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
