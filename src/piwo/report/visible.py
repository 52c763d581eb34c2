"""Text and numbers made fit to show: what comes from the data may hold anything."""

from __future__ import annotations

__all__ = ["number", "visible"]


def visible(text: object) -> str:
    r"""Return a text with everything that does not print written as an escape.

    Labels and names come from the data. Control characters in them could move the cursor or color the screen,
    marks of writing direction could reorder a line, and half characters cannot be written as UTF-8.

    Args:
        text: anything; its `str` is taken.

    Returns:
        Printable text on one line.

    >>> print(visible("a\x1b[31mb\n"))
    a\x1b[31mb\n
    >>> visible("Łódź −5 %")
    'Łódź −5 %'
    """
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode("ascii") for x in str(text))


def number(value: float | None) -> str:
    """Return a number with four digits, "-" for None.

    >>> number(0.123456), number(None), number(12345.6)
    ('0.1235', '-', '12346')
    """
    if value is None:
        return "-"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
