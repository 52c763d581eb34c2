"""Text and numbers as they are shown. Text from the data may hold any character."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["number", "p_value", "visible", "visible_lines"]


def visible(text: object) -> str:
    r"""Return a text with every character that does not print as an escape.

    Labels and names come from the data. Control characters in them could move the cursor or color
    the screen, marks of writing direction could reorder a line, and half characters cannot be
    written as UTF-8.

    Args:
        text: anything; its `str` is taken.

    Returns:
        Printable text on one line.

    >>> print(visible("a\x1b[31mb\n"))
    a\x1b[31mb\n
    >>> visible("Łódź −5 %")
    'Łódź −5 %'
    """
    return "".join(
        x if x.isprintable() else x.encode("unicode_escape").decode("ascii") for x in str(text)
    )


def visible_lines(lines: Iterable[object]) -> str:
    r"""Return lines as one text, each of them visible: a line break in a name starts no new line.

    >>> print(visible_lines(["policy a\n", "  value 0.5"]))
    policy a\n
      value 0.5
    """
    return "\n".join(visible(line) for line in lines)


def number(value: float | None) -> str:
    """Return a number with four digits, "-" for None.

    >>> number(0.123456), number(None), number(12345.6)
    ('0.1235', '-', '12346')
    """
    if value is None:
        return "-"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def p_value(p: float) -> str:
    """Return a p-value with two digits; one that underflowed is shown as a bound, not as 0.

    >>> p_value(0.0123), p_value(0.0)
    ('p = 0.012', 'p < 1e-300')
    """
    return f"p = {p:.2g}" if p > 0.0 else "p < 1e-300"
