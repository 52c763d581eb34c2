"""Axes of figures: round ticks, and places in percent of the width."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["Axis", "axis_of", "signed", "steps", "with_digits"]


@dataclass(frozen=True)
class Axis:
    """A linear axis.

    >>> axis_of(0.0, 10.0).at(2.5)
    25.0
    """

    first: float
    last: float
    ticks: tuple[tuple[float, str], ...]
    """(place, text), places in percent of the width."""

    def at(self, value: float) -> float:
        """Return the place of a number in percent of the width, cut at the ends of the axis."""
        share = (value - self.first) / (self.last - self.first)
        return round(100.0 * min(1.0, max(0.0, share)), 3)

    def holds(self, value: float | None) -> bool:
        """Whether a number lies on the axis."""
        return value is not None and self.first <= value <= self.last


def axis_of(
    low: float, high: float, text: Callable[[float, float], str] | None = None, count: int = 4
) -> Axis:
    """Return an axis from `low` to `high`, with ticks at round numbers between them.

    Args:
        low: its first number.
        high: its last number.
        text: makes the text of a tick from its number and the step; None: a plain number.
        count: about so many steps.

    >>> axis_of(0.0, 1.0).ticks
    ((0.0, '0.00'), (25.0, '0.25'), (50.0, '0.50'), (75.0, '0.75'), (100.0, '1.00'))
    """
    if not high > low:
        low, high = low - 0.5, high + 0.5
    made = Axis(low, high, ())
    step = steps(low, high, count)
    ticks = []
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        value = float(f"{i * step:.12g}")
        ticks.append((made.at(value), (text or with_digits)(value, step)))
    return Axis(low, high, tuple(ticks))


def steps(low: float, high: float, count: int) -> float:
    """Return the round distance of about so many even steps.

    >>> steps(0.0, 0.93, 4)
    0.25
    """
    raw = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(raw))
    return next(x * unit for x in (1.0, 2.0, 2.5, 5.0, 10.0) if x * unit >= raw * (1.0 - 1e-9))


def with_digits(value: float, step: float) -> str:
    """Return a number with the places that a step has.

    >>> with_digits(0.5, 0.25), with_digits(1200.0, 100.0)
    ('0.50', '1,200')
    """
    places = 0
    while places < 12 and abs(step * 10**places - round(step * 10**places)) > 1e-6:
        places += 1
    text = f"{value:,.{places}f}"
    if float(text.replace(",", "")) == 0.0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def signed(value: float, step: float) -> str:
    """Return the same with a plus sign for positive numbers.

    >>> signed(0.5, 0.25), signed(-0.5, 0.25), signed(0.0, 0.25)
    ('+0.50', '−0.50', '0.00')
    """
    text = with_digits(value, step)
    if value > 0.0 and text.strip("0.,") != "":
        return f"+{text}"
    return text


def span_of(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the smallest and the largest of some numbers; (0, 1) for none.

    >>> span_of([None, 2.0, 1.0]), span_of([])
    ((1.0, 2.0), (0.0, 1.0))
    """
    known = [x for x in values if x is not None and math.isfinite(x)]
    return min(known, default=0.0), max(known, default=1.0)
