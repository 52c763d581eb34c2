"""Text and numbers as they are shown. Text from the data may hold any character."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["number", "p_value", "table", "visible", "visible_lines"]


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


def table(header: Iterable[object], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a table: first column to the left, the others to the right.

    >>> table(["name", "value"], [["a", "0.25"], ["long name", "1"]])
    ['name       value', 'a           0.25', 'long name      1']
    """
    cells = [list(map(visible, header))]
    for row in rows:
        cells.append(list(map(visible, row)))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        aligned = [first.ljust(widths[0])]
        for text, width in zip(others, widths[1:], strict=True):
            aligned.append(text.rjust(width))
        lines.append("  ".join(aligned).rstrip())
    return lines


def number(value: float | None) -> str:
    """Return a number with four digits, "-" for None.

    >>> number(0.123456), number(None), number(12345.6), number(float("inf"))
    ('0.1235', '-', '12346', 'beyond float64')
    """
    if value is None:
        return "-"
    if value == math.inf:
        return "beyond float64"
    if 1e4 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.4g}"


def p_value(p: float) -> str:
    """Return a p-value with two digits; one that underflowed is shown as a bound, not as 0.

    >>> p_value(0.0123), p_value(0.0)
    ('p = 0.012', 'p < 1e-300')
    """
    if p > 0.0:
        return f"p = {p:.2g}"
    return "p < 1e-300"
