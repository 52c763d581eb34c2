"""Text and numbers as they are shown. Text from the data may hold any character."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

__all__ = [
    "MIXED",
    "confidence",
    "exact",
    "number",
    "p_value",
    "percent",
    "rounded",
    "rows_text",
    "shortened",
    "table",
    "type_text",
    "visible",
    "visible_lines",
    "without_secrets",
]

# A scheme, also one that piwo does not know. A file, a table or a label follows these three.
_SCHEME = r"(?<![\w.+-])(?!(?:duckdb|spark|constant):)[a-zA-Z][\w.+-]+:"
_ONE_ADDRESS = re.compile(rf"^(\s*{_SCHEME}(?://)?)(?!\s).*@", re.DOTALL)
_USER = re.compile(rf"({_SCHEME}(?://)?)[^\s'\"]{{0,2000}}@")
_OPTIONS = re.compile(rf"({_SCHEME}[^\s?'\"#]{{0,2000}})\?[^\s'\"#]+")
_NAMED_SECRET = re.compile(
    r"(\b\w*(?:password|passwd|pwd|secret|token|signature)\w*\s*(?:=\s*|(?=')))"
    r"('(?:[^']|'')*'?|\"[^\"]*\"?|[^\s'\"&;]+)",
    re.IGNORECASE,
)


MIXED = "values of several types"
"""The name of the one field of the type that such columns get, as Arrow has none for them."""


def type_text(kind: Any) -> str:
    """Return what a column has, in words: "type double", or "values of several types".

    Args:
        kind: an Arrow type.

    >>> import pyarrow as pa
    >>> type_text(pa.float64()), type_text(pa.struct([(MIXED, pa.null())]))
    ('type double', 'values of several types')
    """
    if getattr(kind, "num_fields", 0) == 1 and kind.field(0).name == MIXED:
        return MIXED
    return f"type {kind}"


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


def shortened(text: object, longest: int) -> str:
    """Return a text visible, and cut if it is longer than that.

    >>> shortened("a long name", 7)
    'a long…'
    """
    shown = visible(text)
    if len(shown) > longest:
        return f"{shown[: longest - 1]}…"
    return shown


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
    """Return a number as it is shown everywhere: four digits, "-" for None.

    Numbers from 10,000 on are whole, with separators, and never like 3e+04.

    >>> number(0.123456), number(None), number(12345.6), number(float("inf"))
    ('0.1235', '-', '12,346', 'beyond float64')
    >>> number(9999.7), number(-30_000.0), number(0.0)
    ('10,000', '-30,000', '0')
    """
    if value is None:
        return "-"
    if value == math.inf:
        return "beyond float64"
    # four digits of 9999.5 are 1e+04
    if 9999.5 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def confidence(delta: float, percent: str = " %") -> str:
    """Return the probability 1 - delta in percent; as a difference if it would be rounded to 100.

    Args:
        delta: the probability of error.
        percent: what follows the number.

    >>> confidence(0.05), confidence(0.05, "%"), confidence(1e-300)
    ('95 %', '95%', '1 - 1e-300')
    """
    text = f"{100.0 * (1.0 - delta):.6g}"
    if float(text) >= 100.0 and delta > 0.0:
        return f"1 - {delta:.6g}"
    return f"{text}{percent}"


def percent(share: float | None) -> str:
    """Return a share in percent, "-" for None.

    >>> percent(0.6936), percent(0.0045), percent(None)
    ('69 %', '0.45 %', '-')
    """
    if share is None:
        return "-"
    # Two digits would round 99.7 to 1e+02.
    if share >= 0.995:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.2g} %"


def rows_text(rows: object, units: int | None = None, unit: str | None = None) -> str:
    """Return a number of rows, and of units if there are any, as text.

    Args:
        rows: a number; what a file holds in its place is shown as it is.
        units: how many units they are of.
        unit: the column of units.

    >>> rows_text(1), rows_text(1200), rows_text(1200, 20, "user")
    ('1 row', '1,200 rows', "20 units ('user', 1,200 rows)")
    """
    text = f"{rows} rows"
    if isinstance(rows, int):
        text = f"{rows:,} rows" if rows != 1 else "1 row"
    if units is None:
        return text
    return f"{units:,} units ({unit!r}, {text})"


def exact(value: float) -> str:
    """Return a number with six digits, or with as many as distinguish it from all others.

    >>> exact(1.0), exact(0.25), exact(1.0 + 1e-12)
    ('1', '0.25', '1.000000000001')
    """
    short, whole = f"{value:g}", repr(float(value))
    if float(short) == value and len(short) <= len(whole):
        return short
    return whole


def rounded(value: float, step: float, *, down: bool | None) -> str:
    """Return a number with the digits that mean something; bounds not in one's favor.

    Args:
        value: the number.
        step: how uncertain it is; its first digit is the last one that is shown.
        down: True: round toward minus infinity, as lower bounds are; False: toward infinity; None:
            to the nearest, as estimates are.

    >>> rounded(0.5349, 0.3, down=True), rounded(0.5349, 0.03, down=True)
    ('0.5', '0.53')
    >>> rounded(0.0213, 0.4, down=True), rounded(1234.5, 100.0, down=False)
    ('0.02', '1,300')
    >>> rounded(0.0213, 0.01, down=None), rounded(-1267.0, 10.0, down=None)
    ('0.02', '-1,270')
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    # of a number smaller than its uncertainty, its own first digit
    scale = min(abs(step) or abs(value), abs(value))
    unit = 10.0 ** math.floor(math.log10(scale) + 1e-9)
    count = value / unit
    # rounding errors of the quotient must not cost a digit
    whole = round(count)
    if down is not None:
        whole = math.floor(count + 1e-9) if down else math.ceil(count - 1e-9)
    digits = max(0, -math.floor(math.log10(unit) + 1e-9))
    return f"{whole * unit:,.{digits}f}"


def p_value(p: float) -> str:
    """Return a p-value with two digits; one that underflowed is shown as a bound, not as 0.

    >>> p_value(0.0123), p_value(0.0)
    ('p = 0.012', 'p < 1e-300')
    """
    return f"p = {p:.2g}" if p > 0.0 else "p < 1e-300"


def without_secrets(text: object) -> str:
    """Return a source as it is printed: without users, passwords and signatures of addresses.

    Every message that prints a source, a path or a word that may be one, uses it: a mistyped
    address holds the same password as a good one. Rather too much is hidden than too little.

    >>> without_secrets("from s3://me:secret@host/x and https://host/x.parquet?sig=1#y")
    'from s3://***@host/x and https://host/x.parquet?***#y'
    >>> without_secrets(" POSTGRES:me:my secret@host/db"), without_secrets("md:db?token=secret")
    (' POSTGRES:***@host/db', 'md:db?***')
    """
    text = str(text)
    # A text that begins as an address is one, whatever its password holds, blanks and quotes too.
    text = _ONE_ADDRESS.sub(r"\1***@", text)
    text = _USER.sub(r"\1***@", text)
    text = _OPTIONS.sub(r"\1?***", text)
    return _NAMED_SECRET.sub(r"\1***", text)
