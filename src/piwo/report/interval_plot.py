"""The figure of a report: one line for each policy, from the lower to the upper end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from piwo.evaluation import Evaluation
from piwo.evaluation.record import cap_text
from piwo.visible import number, visible

__all__ = ["IntervalPlot", "interval_plot"]

LEFT, WIDTH, RIGHT = 210.0, 500.0, 30.0
TOP, STEP, BOTTOM = 12.0, 34.0, 44.0
LONGEST = 28


@dataclass(frozen=True)
class Line:
    """One policy; positions in pixels."""

    y: float
    name: str
    low: float
    high: float
    value: float | None
    """None if the estimate is undefined or outside the figure."""
    open_low: bool
    """Whether the interval has no lower end."""
    open_high: bool
    """Whether it has no upper end."""
    known: bool = True
    """Whether there is an interval."""


@dataclass(frozen=True)
class IntervalPlot:
    """All that is drawn, in pixels, and the same in words."""

    width: float
    height: float
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    logging: float | None
    """Position of the mean logged reward."""
    words: str


def interval_plot(evaluations: Sequence[Evaluation]) -> IntervalPlot:
    """Return the figure of some intervals.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5], actions=["a", "b"]
    ... )
    >>> interval_plot([piwo.evaluate(log, piwo.policies.Uniform(log.actions))]).words
    'uniform: 0.5, between 0 and 1. The logging policy: 0.5.'
    """
    ticks = _ticks(*_span(evaluations))
    first, last = ticks[0], ticks[-1]

    def at(value: float) -> float:
        share = (value - first) / (last - first)
        return round(LEFT + WIDTH * min(1.0, max(0.0, share)), 2)

    lines = []
    for i, one in enumerate(evaluations):
        # An end that is missing is drawn at the border of the figure.
        low, high, value = first, last, None
        if one.lower is not None:
            low = one.lower
        if one.upper is not None:
            high = one.upper
        if one.value is not None and first <= one.value <= last:
            value = at(one.value)
        line = Line(
            y=TOP + STEP * (i + 0.5),
            name=_short(one.name),
            low=at(low),
            high=at(high),
            value=value,
            open_low=one.lower is None,
            open_high=one.upper is None,
            known=one.lower is not None or one.upper is not None,
        )
        lines.append(line)
    words = list(map(_words, evaluations))
    mean = evaluations[0].logging_value
    words.append(f"The logging policy: {number(mean)}.")
    logging = None
    if mean is not None:
        logging = at(mean)
    return IntervalPlot(
        width=LEFT + WIDTH + RIGHT,
        height=TOP + STEP * len(lines) + BOTTOM,
        lines=tuple(lines),
        ticks=tuple((at(x), number(x)) for x in ticks),
        logging=logging,
        words=" ".join(words),
    )


def _span(evaluations: Sequence[Evaluation]) -> tuple[float, float]:
    ends: list[float] = []
    for one in evaluations:
        ends += [x for x in (one.lower, one.upper, one.logging_value) if x is not None]
        # An interval with two ends contains its value.
        if one.value is not None and not (one.lower and one.upper):
            ends.append(one.value)
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    if high > low:
        return low, high
    return low - 0.5, high + 0.5


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers at even steps, from at most `low` to at least `high`.

    >>> _ticks(0.0008, 0.1411)
    [0.0, 0.05, 0.1, 0.15]
    """
    raw = (high - low) / 4.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(x * unit for x in (1.0, 2.0, 2.5, 5.0, 10.0) if x * unit >= raw * (1.0 - 1e-9))
    start, stop = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(start, max(stop, start + 1) + 1)]


def _short(name: str) -> str:
    shown = visible(name)
    if len(shown) <= LONGEST:
        return shown
    return shown[: LONGEST - 1] + "…"


def _words(one: Evaluation) -> str:
    if one.lower is None and one.upper is None:
        return f"{visible(one.name)}: {number(one.value)}, no interval."
    ends = f"between {number(one.lower)} and {number(one.upper)}"
    if one.rate_cap is not None:
        ends += f" {cap_text(one.rate_cap)}"
    return f"{visible(one.name)}: {number(one.value)}, {ends}."
