"""The figure of an experiment: a line a method, with its band, along a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from piwo.checks import check_kind, shown
from piwo.errors import UsageError
from piwo.messages import argument
from piwo.plots.style import (
    BLUE,
    GREY,
    HEIGHT,
    INK,
    ORANGE,
    WIDTH,
    altair,
    drawable,
    finished,
    framing,
    with_data,
)
from piwo.visible import number

__all__ = ["paper"]

_COLORS = (BLUE, ORANGE, "#009e73", INK, "#cc79a7", GREY)
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3])
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_MOST_LINES = len(_COLORS)
_MOST_TICKS = 8
"""Settings that each have a tick."""


def paper(
    results: Any,
    *,
    x: str = "gamma",
    x_title: str | None = None,
    title: str = "Value by method",
    reward: str = "reward",
) -> Any:
    """Return the figure of an experiment. How do methods depend on a setting, side by side?

    A line a name, with its band, along the column `x`, such as gamma, or the number of rows. What
    lines and bands are is up to the table: estimates with intervals, means with standard deviations
    over repetitions. The axis of a setting above 0 that spans a factor of 10 is logarithmic.

    Args:
        results: a data frame, or column name -> numbers, with the columns `name`, that of `x`,
            `value`, and if there are bands `lower` and `upper`, whose numbers may be missing. That
            is what `GammaPath.to_frame()` has, and several of them below each other.
        x: the column with the setting.
        x_title: the axis in words; None: the name of the column.
        title: of the figure.
        reward: what is earned, in words, for the axis.

    Returns:
        An Altair chart; its data have the numbers of the table.

    Raises:
        UsageError: for a table without these columns or rows, more than 6 names, numbers that are
            none, and if altair is not installed.

    >>> import piwo
    >>> table = {"name": ["IX", "IX", "IW", "IW"], "n": [100, 1000] * 2}
    >>> table |= {"value": [0.3, 0.5, 0.2, 0.5]}
    >>> piwo.plots.paper(table, x="n", x_title="rows").to_dict()["description"]
    'Value by method. 2 lines along rows, from 100 to 1000: IX ends at 0.5; IW ends at 0.5.'
    """
    for name, text in (("x", x), ("title", title), ("reward", reward)):
        check_kind(name, text, str)
    check_kind("x_title", x_title, (str, type(None)))
    rows = _rows(results, x)
    alt = altair()
    names = list(dict.fromkeys(row["name"] for row in rows))
    if len(names) > _MOST_LINES:
        raise UsageError(
            f"{argument('results')} has {len(names)} names, expected at most {_MOST_LINES}: more "
            "lines cannot be told apart; draw several figures"
        )
    labels = dict(zip(names, drawable(names), strict=True))
    rows = [{**row, "name": labels[row["name"]]} for row in rows]
    values = [row["value"] for row in rows]
    ends = [row[end] for row in rows for end in ("lower", "upper")]
    scale = alt.Scale(domain=framing(values, ends, room=1.0), zero=False, nice=True)
    settings = sorted({row["x"] for row in rows})
    axis = alt.Axis(labelOverlap=True)
    if len(settings) <= _MOST_TICKS:
        axis = alt.Axis(values=settings, format="~g", labelOverlap=True)
    along = alt.X("x:Q", title=x_title or x, scale=_along(settings), axis=axis)
    layers = _layers(
        rows, list(labels.values()), along, f"value: mean {reward} per decision", scale
    )
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    subtitle = []
    if any(end is not None for end in ends):
        subtitle.append("line: value; band: from lower to upper")
    return finished(chart, title, subtitle, _description(rows, title, x_title or x))


def _layers(
    rows: Sequence[dict[str, Any]], names: Sequence[str], x: Any, title: str, scale: Any
) -> list[Any]:
    """Return bands, lines and points; color, dash and shape each tell lines apart."""
    alt = altair()

    def by_name(looks: Sequence[Any]) -> Any:
        return alt.Scale(domain=names, range=list(looks[: len(names)]))

    legend = alt.Legend(title=None, symbolSize=90, symbolStrokeWidth=2, symbolOpacity=1.0)
    color = alt.Color("name:N", scale=by_name(_COLORS), legend=legend)
    base = with_data(rows).encode(x=x, color=color)
    y = alt.Y("value:Q", title=title, scale=scale)
    layers = []
    if any(row["lower"] is not None and row["upper"] is not None for row in rows):
        lower = alt.Y("lower:Q", title=title, scale=scale)
        band = base.mark_area(opacity=0.15, clip=True)
        layers.append(band.encode(y=lower, y2="upper:Q"))
    dash = alt.StrokeDash("name:N", scale=by_name(_DASHES), legend=legend)
    shape = alt.Shape("name:N", scale=by_name(_SHAPES), legend=legend)
    layers.append(base.mark_line(strokeWidth=2, clip=True).encode(y=y, strokeDash=dash))
    points = base.mark_point(filled=True, size=42, opacity=1.0)
    return [*layers, points.encode(y=y, shape=shape)]


def _rows(results: Any, x: str) -> list[dict[str, Any]]:
    """Return the rows to draw, in order of the table."""
    columns = _columns(results)
    missing = [name for name in ("name", x, "value") if name not in columns]
    if missing:
        raise UsageError(
            f"{argument('results')} lacks the columns {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(repr, columns)) or 'none'}"
        )
    size = len(columns["name"])
    found: dict[str, list[Any]] = {"name": [str(name) for name in columns["name"]]}
    nothing = [None] * size
    for field, column in (("x", x), ("value", "value"), ("lower", "lower"), ("upper", "upper")):
        numbers: Any = columns.get(column, nothing)
        if len(numbers) != size:
            raise UsageError(
                f"{argument('results')} has {len(numbers)} numbers in {column!r} and {size} names; "
                "expected as many"
            )
        found[field] = [_number(one, column, needed=field == "x") for one in numbers]
    if not size:
        raise UsageError(f"{argument('results')} has no rows; expected at least one")
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


def _columns(results: Any) -> Mapping[str, Sequence[Any]]:
    """Return column name -> values."""
    if isinstance(results, Mapping):
        columns = {str(name): values for name, values in results.items()}
        for name, values in columns.items():
            if isinstance(values, str) or not hasattr(values, "__len__"):
                raise UsageError(
                    f"{argument('results')} has {shown(values)} as its column {name!r}, expected "
                    "a list"
                )
        return columns
    # Imported here: only figures of data frames need it.
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(results, eager_only=True)
    except TypeError:
        raise UsageError(
            f"{argument('results')} is {shown(results)}, expected a data frame, or column name -> "
            "values"
        ) from None
    found: dict[str, Sequence[Any]] = frame.to_dict(as_series=False)
    return found


def _number(given: Any, column: str, *, needed: bool) -> float | None:
    """Return a finite number; None for one that is missing."""
    try:
        value = math.nan if given is None else float(given)
    except (TypeError, ValueError):
        raise UsageError(
            f"{argument('results')} has {shown(given)} in the column {column!r}, expected numbers"
        ) from None
    if math.isfinite(value):
        return value
    if needed:
        raise UsageError(
            f"{argument('results')} has {shown(given)} in the column {column!r}, which says where "
            "a point lies; expected finite numbers"
        )
    return None


def _along(settings: Sequence[float]) -> Any:
    """Return the scale of the setting."""
    alt = altair()
    if min(settings) > 0.0 and max(settings) >= 10.0 * min(settings):
        return alt.Scale(type="log", nice=False)
    return alt.Scale(zero=False, nice=False)


def _description(rows: Sequence[dict[str, Any]], title: str, x: str) -> str:
    last: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row["x"]):
        if row["value"] is not None:
            last[row["name"]] = row["value"]
    settings = [row["x"] for row in rows]
    lines = "1 line" if len(last) == 1 else f"{len(last)} lines"
    ends = "; ".join(f"{name} ends at {number(value)}" for name, value in last.items())
    return (
        f"{title}. {lines} along {x}, from {number(min(settings))} to {number(max(settings))}: "
        f"{ends}."
    )
