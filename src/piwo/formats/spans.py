"""Spans of time as text, such as 48h or 7 days: the same in Python and on the command line."""

from __future__ import annotations

import re
from datetime import timedelta

from piwo.errors import UsageError
from piwo.messages import argument

__all__ = ["SPANS", "span_of"]

SPANS = "48h, 7d, 30 min or 90s"
"""Texts that errors name."""

_UNITS = {
    604_800_000: "w week weeks",
    86_400_000: "d day days",
    3_600_000: "h hour hours",
    60_000: "m min minute minutes",
    1000: "s sec second seconds",
    1: "ms",
}
"""Milliseconds of a unit, and its names."""
_MILLISECONDS = {name: size for size, names in _UNITS.items() for name in names.split()}
_SPAN = re.compile(r"([-+]?[0-9.]+)\s*([a-z]+)")


def span_of(text: str, name: str) -> timedelta | float:
    """Return a span of time, a number with a unit; or a number without one.

    Args:
        text: with w, d, h, m (minutes), s or ms, or such a word: 7 days, 30 min.
        name: the argument, for errors.

    Raises:
        UsageError: for other text, and for spans that are too long.

    >>> span_of("36h", "window") == span_of("1.5 days", "window") == timedelta(hours=36)
    True
    >>> span_of("10", "window")
    10.0
    """
    wrong = f"{argument(name)} got {text!r}, expected a span such as {SPANS}, or a number"
    found = _SPAN.fullmatch(text.strip())
    if found is not None and found[2] not in _MILLISECONDS:
        raise UsageError(wrong)
    try:
        if found is None:
            return float(text)
        return timedelta(milliseconds=float(found[1]) * _MILLISECONDS[found[2]])
    except ValueError:
        raise UsageError(wrong) from None
    except OverflowError:
        raise UsageError(f"{argument(name)} got {text!r}, too long; give a shorter span") from None
