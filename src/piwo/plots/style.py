"""What all figures share: the look, the colors, names that can be drawn, room on axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.visible import shortened, visible

__all__ = [
    "BLUE",
    "GREY",
    "HEIGHT",
    "INK",
    "MOST_ROWS",
    "ORANGE",
    "WIDTH",
    "altair",
    "arrow_heads",
    "check_words",
    "counted",
    "cut",
    "drawable",
    "finished",
    "framing",
    "plot_config",
    "row_step",
    "with_data",
]

# Of Okabe and Ito: also different for those who see no red or no green, and in grey. No figure says
# anything by color alone.
BLUE = "#0072b2"
ORANGE = "#d55e00"
GREY = "#6b6b6b"
INK = "#222222"

WIDTH = 460
HEIGHT = 260
MOST_ROWS = 200
"""Rows of a figure with a row a policy; the others are counted below the title."""
_LONGEST = 40
"""Characters of a name."""
_LONGEST_TITLE = 96
"""Characters of a line above a figure."""
_FONT = 12
_FONTS = "Liberation Sans, Arial, Helvetica, sans-serif"


def altair() -> Any:
    """Return the library that makes charts.

    Raises:
        UsageError: if it is not installed.

    >>> altair().__name__
    'altair'
    """
    try:
        return import_module("altair")
    except ImportError:
        raise UsageError(
            "figures need altair and vl-convert-python, which are not installed; "
            "pip install 'piwo[plots]'"
        ) from None


def plot_config() -> Any:
    """Return the look of all figures: white, quiet axes, a font that is there everywhere.

    >>> plot_config().background
    'white'
    """
    alt = altair()
    return alt.Config(
        font=_FONTS,
        padding=4,
        # the figure as a whole has a text; one for each mark would be most of a file
        aria=False,
        background="white",
        view=alt.ViewConfig(stroke="#bbb"),
        title=alt.TitleConfig(
            fontSize=14, subtitleFontSize=_FONT, subtitleColor="#444", color="#111", frame="group"
        ),
        axis=alt.AxisConfig(
            labelFontSize=_FONT,
            titleFontSize=_FONT,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=INK,
            gridColor="#ececec",
            domainColor="#888",
            tickColor="#888",
            labelBound=False,
        ),
        legend=alt.LegendConfig(
            labelFontSize=_FONT,
            titleFontSize=_FONT,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=INK,
            orient="bottom",
            direction="horizontal",
            gradientThickness=10,
            gradientOpacity=1.0,
            columnPadding=16,
            rowPadding=4,
            offset=2,
            padding=7,
            labelLimit=400,
        ),
    )


def finished(chart: Any, title: str, subtitle: Sequence[str], description: str) -> Any:
    """Return a chart with its title, its text for those who do not see it, and the common look.

    Args:
        chart: layered or concatenated.
        title: what is shown.
        subtitle: a line each: how sure it is, from how many rows.
        description: what the figure says, in sentences.
    """
    heading = altair().TitleParams(
        shortened(title, _LONGEST_TITLE),
        subtitle=[shortened(line, _LONGEST_TITLE) for line in subtitle if line],
        anchor="start",
        offset=10,
    )
    config = plot_config()
    # room on the left for labels in wider letters, where none of the fonts is there
    config.padding = {"left": 16, "top": 4, "right": 8, "bottom": 4}
    config.axisY = altair().AxisConfig(titlePadding=10)
    # labels are below their ticks, at the ends of an axis too
    config.axis.labelFlush = False
    return chart.properties(title=heading, description=visible(description), config=config)


def counted(rows: int, units: int | None, unit: str | None) -> str:
    """Return how many rows a figure is of, in words, and of how many units.

    >>> counted(10_000, None, None), counted(10_000, 2_500, "user")
    ('10,000 rows', '2,500 units (user), 10,000 rows')
    """
    text = f"{rows:,} rows" if rows != 1 else "1 row"
    if units is None:
        return text
    return f"{units:,} units ({unit}), {text}"


def with_data(rows: Sequence[dict[str, Any]]) -> Any:
    """Return an empty chart of some rows.

    >>> with_data([{"a": 1}]).data.values
    [{'a': 1}]
    """
    alt = altair()
    return alt.Chart(alt.InlineData(values=list(rows)))


def drawable(names: Iterable[object]) -> list[str]:
    r"""Return names that can be drawn next to an axis: printable, short, all different.

    >>> drawable(["a\n", "b", "b", "x" * 60])[:3]
    ['a\\n', 'b', 'b (2)']
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        text = shortened(name, _LONGEST)
        shown, number = text, seen.get(text, 0) + 1
        while (number > 1 and shown in seen) or shown in found:
            shown = f"{text} ({number})"
            if shown not in found:
                break
            number += 1
        seen[text] = number
        found.append(shown)
    return found


def check_words(reward: Any) -> str:
    """Return what is earned, in words, after checking that it is text.

    Args:
        reward: as it was given.

    Raises:
        UsageError: for anything but text.

    >>> check_words("clicks")
    'clicks'
    """
    check_kind("reward", reward, str, ', such as "clicks"')
    return str(reward)


def cut(
    lower: float | None, upper: float | None, low: float, high: float
) -> dict[str, float | bool]:
    """Return where an interval is drawn on an axis, and which of its ends are beyond it.

    Args:
        lower: its lower end; None: there is none, as if it were below all.
        upper: likewise.
        low: where the axis begins.
        high: where it ends.

    >>> cut(-1.0, 0.5, 0.0, 1.0)["drawn_lower"], cut(-1.0, 0.5, 0.0, 1.0)["beyond_lower"]
    (0.0, True)
    """
    start = low if lower is None else lower
    end = high if upper is None else upper
    return {
        "drawn_lower": min(max(start, low), high),
        "drawn_upper": max(min(end, high), low),
        "beyond_lower": lower is None or start < low,
        "beyond_upper": upper is None or end > high,
    }


def arrow_heads(
    base: Any, scale: Any, color: Any, title: str, *, upright: bool = False
) -> list[Any]:
    """Return the heads of arrows at ends that are beyond the axis, of rows with what `cut` returns.

    Args:
        base: the chart, with its data and the other axis.
        scale: of the axis.
        color: of the heads, as an encoding.
        title: of the axis.
        upright: whether the axis is the vertical one.
    """
    alt = altair()
    shapes = {"lower": "triangle-left", "upper": "triangle-right"}
    if upright:
        shapes = {"lower": "triangle-down", "upper": "triangle-up"}
    arrows = []
    for end, shape in shapes.items():
        head = base.mark_point(shape=shape, size=70, filled=True, opacity=1.0)
        place = (alt.Y if upright else alt.X)(f"drawn_{end}:Q", scale=scale, title=title)
        head = head.encode(**{"y" if upright else "x": place}, color=color)
        arrows.append(head.transform_filter(alt.datum[f"beyond_{end}"]))
    return arrows


def row_step(count: int) -> int:
    """Return the height of a row, in pixels: many rows are narrower.

    >>> row_step(3), row_step(200)
    (26, 15)
    """
    if count <= 20:
        return 26
    return 15


def framing(
    centers: Iterable[float | None], ends: Iterable[float | None], room: float = 1.5
) -> list[float]:
    """Return the ends of an axis: where the estimates are, and as much of their intervals as fits.

    Intervals may be far wider than what distinguishes estimates, such as upper ends for rare
    rewards. The axis reaches beyond the estimates by at most `room` times their spread; ends
    beyond it are drawn as arrows.

    Args:
        centers: estimates and what they are compared with.
        ends: lower and upper ends.
        room: how far beyond, in spreads.

    >>> framing([0.1, 0.2], [0.05, 0.9]), framing([0.5], [0.4, 0.6]), framing([None], [])
    ([0.05, 0.35], [0.4, 0.6], [0.0, 1.0])
    """
    inside = [x for x in centers if x is not None]
    outside = [x for x in ends if x is not None]
    if not inside:
        inside = outside or [0.0, 1.0]
    low, high = min(inside), max(inside)
    reach = room * (high - low)
    if reach == 0.0:
        # One estimate: all of its interval.
        reach = max([abs(x - low) for x in outside], default=0.0) or 0.5 * abs(low) or 0.5
    least = min([low, *outside])
    most = max([high, *outside])
    return [max(least, round(low - reach, 12)), min(most, round(high + reach, 12))]
