"""Results as small tables: as text, as HTML for notebooks, and as data frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from piwo.errors import UsageError
from piwo.messages import argument
from piwo.visible import number, shortened, table, visible, visible_lines

__all__ = ["Display", "FrameKind", "Ruler", "frame_of"]

FrameKind: TypeAlias = Literal["pandas", "polars", "arrow"]

_MOST_ROWS = 100
"""Rows of a table in HTML; the others are counted."""
_MOST_NOTES = 20
_LONGEST = 48
"""Characters of the name of a row, in text."""
_CELL = "padding:.15em .8em;text-align:{side};vertical-align:top"
_RULE = "border-bottom:1px solid currentColor"


@dataclass(frozen=True)
class Display:
    """One result as it is shown: a title, a table, and notes. Nothing in it is trusted text.

    >>> print(Display("2 policies", ("policy", "value"), (("a", "0.5"),)).text)
    2 policies
      policy  value
      a         0.5
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """One text a cell; the first names the row."""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The title, the table with aligned columns, and a line a note."""
        rows = [(shortened(first, _LONGEST), *others) for first, *others in self.rows]
        lines = [f"  {line}" for line in table(self.header, rows)]
        notes = [f"  note: {note}" for note in self.notes]
        return visible_lines([self.title, *lines, *notes])

    @property
    def html(self) -> str:
        """A table that takes the colors of the page around it, so that it suits dark ones, too.

        It has no script, style sheet, link or image, and every text in it is escaped.
        """
        head = "".join(_cell("th", text, i, ' scope="col"') for i, text in enumerate(self.header))
        body = []
        for first, *others in self.rows[:_MOST_ROWS]:
            cells = [_cell("th", first, 0, ' scope="row"')]
            cells += [_cell("td", text, i) for i, text in enumerate(others, start=1)]
            body.append(f"<tr>{''.join(cells)}</tr>")
        left_out = len(self.rows) - _MOST_ROWS
        if left_out > 0:
            more = f'colspan="{len(self.header)}" style="{_CELL.format(side="left")}"'
            body.append(f"<tr><td {more}>... {left_out} more</td></tr>")
        caption = (
            f'<caption style="text-align:left;padding:.3em .8em">{_safe(self.title)}</caption>'
        )
        return (
            f'<div style="overflow-x:auto"><table style="border-collapse:collapse">{caption}'
            f'<thead><tr style="{_RULE}">{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
            f"{self._notes}</div>"
        )

    @property
    def _notes(self) -> str:
        """The notes, folded."""
        if not self.notes:
            return ""
        shown = list(self.notes[:_MOST_NOTES])
        if len(self.notes) > _MOST_NOTES:
            shown.append(f"... {len(self.notes) - _MOST_NOTES} more")
        items = "".join(f"<li>{_safe(note)}</li>" for note in shown)
        counted = "1 note" if len(self.notes) == 1 else f"{len(self.notes)} notes"
        return f"<details><summary>{counted}</summary><ul>{items}</ul></details>"


def _cell(tag: str, text: str, place: int, more: str = "") -> str:
    """Return one cell: names to the left, numbers to the right."""
    side = "left" if place == 0 else "right"
    weight = ";font-weight:normal" if tag == "th" and "row" in more else ""
    return f'<{tag}{more} style="{_CELL.format(side=side)}{weight}">{_safe(text)}</{tag}>'


def _safe(text: str) -> str:
    return escape(visible(text))


@dataclass(frozen=True)
class Ruler:
    """How many decimals mean something, from how wide intervals are.

    A digit far below the half width of an interval is noise. Two of its digits are kept. Lower
    bounds are rounded down and upper bounds up, so that what is printed holds as well.

    >>> ruler = Ruler.of([(0.4123, 0.5011)])
    >>> ruler.value(0.45678), ruler.lower(0.4129), ruler.upper(0.5011), ruler.lower(None)
    ('0.457', '0.412', '0.502', '-')
    """

    decimals: int
    """Below 0 as well: -2 rounds to hundreds."""

    @classmethod
    def of(cls, intervals: Sequence[tuple[float | None, float | None]]) -> Ruler:
        """Return the ruler for intervals shown together: that of the narrowest.

        Args:
            intervals: (lower, upper) each; those without both ends do not count.
        """
        halves = []
        for lower, upper in intervals:
            if lower is not None and upper is not None and upper > lower:
                halves.append((upper - lower) / 2.0)
        if not halves:
            return cls(4)
        first = math.floor(math.log10(min(halves)))
        return cls(min(12, 1 - first))

    def value(self, value: float | None) -> str:
        """Return a number, rounded to the nearest."""
        return self._text(value, round)

    def lower(self, value: float | None) -> str:
        """Return a lower bound, rounded down."""
        return self._text(value, math.floor)

    def upper(self, value: float | None) -> str:
        """Return an upper bound, rounded up."""
        return self._text(value, math.ceil)

    def _text(self, value: float | None, rounded: Any) -> str:
        if value is None or not math.isfinite(value):
            return "-"
        scaled = value * 10.0**self.decimals
        # A float64 error of the product must not move a number that is short already.
        near = round(scaled)
        if abs(scaled - near) < 1e-9 * max(1.0, abs(scaled)):
            scaled = near
        whole = rounded(scaled)
        if self.decimals <= 0:
            return f"{whole * 10**-self.decimals:,}"
        return f"{whole / 10.0**self.decimals:,.{self.decimals}f}"


def field_rows(columns: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, str], ...]:
    """Return the columns of a record with one row as rows of a name and a text; unknown ones go.

    >>> field_rows({"value": [0.123456], "upper": [None], "rows": [20_000]})
    (('value', '0.1235'), ('rows', '20,000'))
    """
    rows = []
    for name, (value,) in columns.items():
        if value is None:
            continue
        text = str(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = number(value)
        rows.append((name, text))
    return tuple(rows)


def frame_of(columns: Mapping[str, Sequence[Any]], kind: str | None = None) -> Any:
    """Return columns as a data frame.

    Args:
        columns: name -> one value a row: text, numbers, true or false; None if not known.
        kind: "pandas", "polars" or "arrow"; None: an Arrow table.

    Raises:
        UsageError: for another kind, and if the library is not installed.

    >>> frame_of({"policy": ["a"], "value": [0.5]}).column_names
    ['policy', 'value']
    """
    if kind is not None and kind not in get_args(FrameKind):
        raise UsageError(
            f"{argument('kind')} is {kind!r}, expected 'pandas', 'polars', 'arrow' or None"
        )
    made = pa.table({name: _column(values) for name, values in columns.items()})
    try:
        if kind == "pandas":
            return made.to_pandas()
        if kind == "polars":
            import polars as pl

            return pl.from_arrow(made)
    except ImportError:
        raise UsageError(
            f"a frame of {kind} needs {kind}, which is not installed; install it, or take an Arrow "
            f"table ({argument('kind', 'arrow')})"
        ) from None
    return made


def _column(values: Sequence[Any]) -> Any:
    """Return one column; labels of several types, and numbers without any value, have a type."""
    known = [value for value in values if value is not None]
    if not known:
        return pa.array(values, pa.float64())
    kinds = {type(value) for value in known}
    if kinds <= {int, float} and float in kinds:
        return pa.array(values, pa.float64())
    if len(kinds) == 1 and not issubclass(next(iter(kinds)), str):
        return pa.array(values)
    texts: list[str | None] = []
    for value in values:
        text = None
        if value is not None:
            # Half characters (surrogates) have no UTF-8.
            text = str(value).encode(errors="backslashreplace").decode()
        texts.append(text)
    return pa.array(texts, pa.string())
