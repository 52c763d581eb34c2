"""Small figures: lines over gamma and over time, and bars of shares and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from piwo.decision import Units
from piwo.health import Health
from piwo.report.axis import Axis, axis_of, span_of, with_digits
from piwo.report.details import ActionShare, PeriodRow
from piwo.visible import number

__all__ = ["Bar", "LineChart", "Pair", "gamma_chart", "over_time", "pairs", "weight_bars"]

HEIGHT = 150.0
"""Of line charts, in pixels."""
_PAIRS = 10
"""Most actions whose shares are drawn;"""
_SMALL = 0.1
"""those that change less than this part of the largest change are pooled."""
_BARS = 14
"""Bars of a histogram; more of them are pooled."""


@dataclass(frozen=True)
class Series:
    """One line of a chart: pieces (x1, y1, x2, y2), x in percent and y in pixels."""

    kind: str
    """How it is drawn."""
    name: str
    pieces: tuple[tuple[float, float, float, float], ...]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class LineChart:
    """Lines over one axis."""

    title: str
    series: tuple[Series, ...]
    across: tuple[tuple[float, str], ...]
    """Ticks of the horizontal axis."""
    up: tuple[tuple[float, str], ...]
    """Ticks of the vertical axis, in pixels."""
    words: str
    height: float = HEIGHT


@dataclass(frozen=True)
class Bar:
    """One bar: its label, its length in percent, and the numbers as text."""

    label: str
    length: float
    words: str


@dataclass(frozen=True)
class Pair:
    """The share of an action today and then."""

    action: str
    today: float
    """Length of its bar, in percent of the longest bar of all pairs."""
    then: float
    words: str


def pairs(mix: Sequence[ActionShare]) -> tuple[tuple[Pair, ...], str]:
    """Return the bars of the actions that change most, and what the others do, in words.

    >>> pairs([ActionShare("a", 0.25, 1.0)])
    ((Pair(action='a', today=25.0, then=100.0, words='25 % → 100 %'),), '')
    >>> pairs([ActionShare("a", 0.01, 0.04)])
    ((Pair(action='a', today=25.0, then=100.0, words='1 % → 4 %'),), '')
    """
    count = min(_PAIRS, len(mix))
    least = _SMALL * abs(mix[0].then - mix[0].today) if mix else 0.0
    while (
        count > 1 and len(mix) > _PAIRS and abs(mix[count - 1].then - mix[count - 1].today) < least
    ):
        count -= 1
    made = []
    # Of hundreds of actions each has a small share: the axis ends at the largest that is shown.
    most = max((max(one.today, one.then) for one in mix[:count]), default=0.0) or 1.0
    for one in mix[:count]:
        words = _change(100.0 * one.today, 100.0 * one.then)
        today, then = 100.0 * one.today / most, 100.0 * one.then / most
        made.append(Pair(one.action, round(today, 3), round(then, 3), words))
    rest = mix[count:]
    if not rest:
        return tuple(made), ""
    today = 100.0 * math.fsum(one.today for one in rest)
    then = 100.0 * math.fsum(one.then for one in rest)
    return tuple(made), f"The other {len(rest):,} actions together: {_change(today, then)}."


def _change(today: float, then: float) -> str:
    """Return two shares of a hundred as text, with a decimal more if they would look alike.

    >>> _change(25.0, 100.0), _change(10.4, 9.96)
    ('25 % → 100 %', '10.4 % → 10.0 %')
    """
    before, after = percent(today), percent(then)
    if before == after and f"{today:.1f}" != f"{then:.1f}":
        before, after = f"{today:.1f} %", f"{then:.1f} %"
    return f"{before} → {after}"


def percent(share: float) -> str:
    """Return a share of a hundred as text.

    >>> percent(12.34), percent(0.123), percent(0.0)
    ('12 %', '0.12 %', '0 %')
    """
    if share == 0.0:
        return "0 %"
    if 99.5 > share >= 9.95 or share >= 100.0:
        return f"{share:.0f} %"
    return f"{share:.2g} %" if share < 9.95 else f"{share:.1f} %"


def weight_bars(health: Health) -> tuple[Bar, ...]:
    """Return the histogram of the weights: the share of the rows by powers of two."""
    bins = [one for one in health.histogram if one.rows]
    total = sum(one.rows for one in bins) or 1
    # Many bins: the smallest weights together.
    pooled = max(0, len(bins) - _BARS)
    made = []
    if pooled:
        rows = sum(one.rows for one in bins[: pooled + 1])
        label = f"below {number(bins[pooled + 1].least)}"
        made.append((label, rows, math.fsum(one.share or 0.0 for one in bins[: pooled + 1])))
        bins = bins[pooled + 1 :]
    for one in bins:
        label = "0"
        if one.least > 0.0:
            label = f"{number(one.least)} to {number(2.0 * one.least)}"
        made.append((label, one.rows, one.share or 0.0))
    most = max((rows for _, rows, _ in made), default=1)
    bars = []
    for label, rows, share in made:
        text = f"{rows:,} {health.counted} ({percent(100.0 * rows / total)}), "
        text += f"{percent(100.0 * share)} of the weight"
        bars.append(Bar(label, round(100.0 * rows / most, 3), text))
    return tuple(bars)


def gamma_chart(
    rows: Sequence[Mapping[str, Any]], today: float | None, units: Units, *, cost: bool = False
) -> LineChart | None:
    """Return the IX estimate and its bounds over gamma, on a logarithmic axis; None without rows.

    Args:
        rows: of `piwo.report.summary.gamma_rows`.
        today: mean logged reward.
        units: of the values.
        cost: whether rewards are negative costs.
    """
    if not rows:
        return None
    logs = [math.log10(row["gamma"]) for row in rows]
    scale = units.per

    def column(name: str) -> list[float | None]:
        return [None if row[name] is None else scale * row[name] for row in rows]

    value, lower, upper = column("value"), column("lower"), column("upper")
    logged = None if today is None else scale * today
    low, high = span_of([*value, logged])
    # Bounds are shown near the estimates, where they say something.
    room = max(high - low, 0.05 * abs(high)) * 1.2
    near = [x for x in (*lower, *upper) if x is not None and low - room <= x <= high + room]
    vertical = _vertical(*span_of([low, high, *near]))
    places = Axis(logs[0], logs[-1], ())
    at = [places.at(x) for x in logs]
    series = [
        _line("bound", "lower bound", at, lower, vertical),
        _line("bound", "upper bound", at, upper, vertical),
        _line("estimate", "IX estimate", at, value, vertical),
        _line("today", "what was logged", at, [logged] * len(at), vertical),
    ]
    ticks = []
    for power in range(math.ceil(logs[0] - 1e-9), math.floor(logs[-1] + 1e-9) + 1):
        ticks.append((places.at(power), f"{10.0**power:g}"))
    first, last = rows[0], rows[-1]
    words = (
        f"The IX estimate falls from {number(scale * first['value'])} at gamma "
        f"{first['gamma']:g} to {number(scale * last['value'])} at gamma {last['gamma']:g} "
        f"({units.values(cost=cost)})."
    )
    return LineChart(
        f"Value against gamma ({units.values(cost=cost)})",
        tuple(one for one in series if one.points),
        tuple(ticks),
        _ticks_up(vertical),
        words,
    )


def over_time(
    periods: Sequence[PeriodRow], each: str, units: Units, policy: str, *, cost: bool = False
) -> tuple[LineChart, ...]:
    """Return the figures over time: reward, mean weight, and the mix of actions.

    Args:
        periods: in order.
        each: how long one is, in words.
        units: of the rewards.
        policy: whose weights are shown.
        cost: whether rewards are negative costs.
    """
    if len(periods) < 2:
        return ()
    at = [round(100.0 * i / (len(periods) - 1), 3) for i in range(len(periods))]
    reward = [None if one.reward is None else units.per * one.reward for one in periods]
    weight = [one.mean_weight for one in periods]
    made = [
        _trend(
            f"Logged reward by {each} ({units.values(cost=cost)})", "estimate", at, reward, periods
        ),
        _trend(f"Mean weight of {policy} by {each} (expected: 1)", "estimate", at, weight, periods),
    ]
    labels: dict[str, None] = {}
    for one in periods:
        labels |= dict.fromkeys(one.shares)
    vertical = _vertical(0.0, 100.0)
    series, words = [], []
    for i, label in enumerate(labels):
        shares = [None if not one.rows else 100.0 * one.shares.get(label, 0.0) for one in periods]
        series.append(_line(f"action{i}", label, at, shares, vertical))
        low, high = span_of(shares)
        words.append(f"{label}: between {percent(low)} and {percent(high)}")
    made.append(
        LineChart(
            f"Actions taken by {each} (percent)",
            tuple(series),
            _dates(at, periods),
            _ticks_up(vertical),
            f"{'; '.join(words)}.",
        )
    )
    return tuple(made)


def _trend(
    title: str,
    kind: str,
    at: Sequence[float],
    values: Sequence[float | None],
    periods: Sequence[PeriodRow],
) -> LineChart:
    low, high = span_of(values)
    vertical = _vertical(min(0.0, low), high)
    words = f"Between {number(low)} and {number(high)}."
    return LineChart(
        title,
        (_line(kind, "", at, values, vertical),),
        _dates(at, periods),
        _ticks_up(vertical),
        words,
    )


def _dates(at: Sequence[float], periods: Sequence[PeriodRow]) -> tuple[tuple[float, str], ...]:
    chosen = sorted({0, len(periods) // 2, len(periods) - 1})
    return tuple((at[i], periods[i].label) for i in chosen)


def _vertical(low: float, high: float) -> Axis:
    """Return the axis upward; its places are percents of the height."""
    air = 0.06 * (high - low or abs(high) or 1.0)
    return axis_of(low - air, high + air, with_digits, 3)


def _ticks_up(axis: Axis) -> tuple[tuple[float, str], ...]:
    return tuple((round(HEIGHT * (1.0 - at / 100.0), 2), text) for at, text in axis.ticks)


def _line(
    kind: str, name: str, at: Sequence[float], values: Sequence[float | None], axis: Axis
) -> Series:
    """Return a line through the numbers that there are; what is beyond the axis is left out."""
    places: list[tuple[float, float] | None] = []
    for x, value in zip(at, values, strict=True):
        if value is None or not axis.holds(value):
            places.append(None)
        else:
            places.append((x, round(HEIGHT * (1.0 - axis.at(value) / 100.0), 2)))
    pieces = []
    for one, other in pairwise(places):
        if one is not None and other is not None:
            pieces.append((*one, *other))
    points = tuple(one for one in places if one is not None)
    return Series(kind, name, tuple(pieces), points)
