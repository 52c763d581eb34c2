"""The paper's figures: expected reward against eta, regret against the hyper-parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from experiments.averages import FloatArray, LoggerSet, average, gather, nearest, spread, uses
from experiments.files import write
from piwo.plots import png, svg
from piwo.plots.style import plot_config

__all__ = ["figures", "write_figures"]

# Printed 18 cm wide, WIDTH pixels are 510 points: a font of 12 pixels is one of 9 points.
WIDTH = 680.0
HEIGHT = 165.0
FONT = 12
LEFT = 66.0
GAP = 12.0
LONGEST = 32
"""Characters of the name of the data."""
FAR_BELOW = 1000.0
"""A hyper-parameter at least this factor below sqrt(d/n) is dashed."""

ORANGE = "#e8710a"
GREY = "#6b6b6b"
BAND = "#2f7ebc"
OPACITY = 0.15
OPACITY_OF_MANY = 0.06
"""Where many bands lie on one another, as those of all small h do; they would hide the dashes."""
BLUES = alt.SchemeParams(name="blues", extent=[0.35, 1.0])
NEAREST, BELOW = "h nearest √(d/n)", "h ≤ √(d/n) / 1000"
BEHAVIOR, BEST_FIXED = "the logger itself", "best fixed action"
STAR = "√(d/n)"
OTHER = "other h"

Points = list[dict[str, Any]]
Spec = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """How the lines that are no shade of blue are drawn, and named in the legend."""

    name: str
    color: str
    dash: tuple[float, ...]


SOLID, DASHED, DOTTED = (1, 0), (5, 4), (1.5, 2.5)
REWARD_KEYS = (
    Key(NEAREST, ORANGE, SOLID),
    Key(BELOW, "#4a90c9", DASHED),
    Key(BEHAVIOR, GREY, SOLID),
    Key(BEST_FIXED, GREY, DOTTED),
)
REGRET_KEYS = (Key(STAR, ORANGE, DASHED),)


@dataclass(frozen=True)
class Row:
    """One panel an algorithm, beside each other."""

    panels: alt.FacetChart
    name: str
    """Of its data."""
    points: Points


# --- entry points
def write_figures(
    results: pa.Table,
    loggers: pa.Table,
    data_name: str,
    synthetic: bool,
    gamma_star: float,
    folder: Path,
) -> list[Path]:
    """Write every figure that a run allows, as SVG and as PNG.

    Args:
        results: columns set, eta, algorithm, h, fold, reward; one row a learned policy.
        loggers: columns set, eta, fold, behavior, best_fixed, full_information,
            log10_min_propensity.
        data_name: how the data are called on the figures.
        synthetic: the data are made up; every figure says so.
        gamma_star: sqrt(d/n).
        folder: where the files go; made if it is not there.

    Returns:
        The files written, in order: figure-1 and figure-2 are of the good loggers, figure-3 is of
            the bad ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, spec in figures(results, loggers, data_name, synthetic, gamma_star).items():
        paths += [folder / f"{name}.svg", folder / f"{name}.png"]
        write(paths[-2], svg(spec).encode())
        write(paths[-1], png(spec))
    return paths


def figures(
    results: pa.Table, loggers: pa.Table, data_name: str, synthetic: bool, gamma_star: float
) -> dict[str, Spec]:
    """Return the figures that `write_figures` draws, as Vega-Lite specifications by file name."""
    sets = gather(results, loggers)
    specs = {}
    if "good" in sets:
        rewards = _reward_row(sets["good"], gamma_star)
        subtitle = _subtitle(sets["good"], data_name, synthetic)
        specs["figure-1"] = _page([rewards], "Expected reward, good loggers", subtitle)
    for number, name in (("figure-2", "good"), ("figure-3", "bad")):
        if name in sets:
            rows = [_reward_row(sets[name], gamma_star), _regret_row(sets[name], gamma_star)]
            subtitle = _subtitle(sets[name], data_name, synthetic)
            specs[number] = _page(
                rows, f"Expected reward and expected regret, {name} loggers", subtitle
            )
    return specs


def _subtitle(loggers: LoggerSet, data_name: str, synthetic: bool) -> str:
    folds = next(iter(loggers.rewards.values())).shape[-1]
    data = data_name if len(data_name) <= LONGEST else f"{data_name[: LONGEST - 1]}…"
    if synthetic:
        own_name = "" if "synthetic" in data_name.lower() else f"{data}: "
        data = f"{own_name}synthetic data, not BNG(letter)"
    return (
        f"{data}; mean ± one standard deviation over {folds} folds"
        if folds > 1
        else f"{data}; one fold"
    )


# --- rows
def _reward_row(loggers: LoggerSet, gamma_star: float) -> Row:
    """One panel an algorithm: reward against eta, one line a hyper-parameter."""
    star = nearest(loggers.h, gamma_star)
    below = loggers.h <= gamma_star / FAR_BELOW
    points: Points = []
    for algorithm, folds in loggers.rewards.items():
        mean, sd = average(folds), spread(folds)
        for j, h in enumerate(loggers.h):
            if j == star:
                kind = NEAREST
            elif below[j]:
                kind = BELOW
            else:
                kind = OTHER
            points += _points(
                algorithm,
                kind,
                {"eta": loggers.eta, "h": np.full_like(loggers.eta, h)},
                mean[:, j],
                sd[:, j],
            )
        for kind, value in ((BEHAVIOR, loggers.behavior), (BEST_FIXED, loggers.best_fixed)):
            points += _points(algorithm, kind, {"eta": loggers.eta}, value)
    keys = [key for key in REWARD_KEYS if key.name != BELOW or below.any()]
    shade = _shade("h", "hyper-parameter h", loggers.h, every=5)
    place: dict[str, Any] = {
        "x": _log_x("eta", "η of the logger", loggers.eta, every=2),
        "y": alt.Y(
            "mean:Q",
            title="expected reward",
            scale=_linear_scale(points),
            axis=alt.Axis(tickCount=5),
        ),
    }
    named = {**place, **_keyed(keys)}
    layers = [
        _lines(1.2, BEHAVIOR, BEST_FIXED).encode(**named),
        *_shaded(place, shade, "h", {OTHER: SOLID, BELOW: DASHED}, OPACITY_OF_MANY),
        _bands(OPACITY, NEAREST).encode(**_between(place), fill=alt.value(ORANGE)),
        _lines(2.2, NEAREST).encode(**named),
    ]
    return _panels("rewards", points, loggers, layers)


def _regret_row(loggers: LoggerSet, gamma_star: float) -> Row:
    """One panel an algorithm: regret against the hyper-parameter, one line a logger."""
    points: Points = []
    for algorithm, folds in loggers.rewards.items():
        mean, sd = 1.0 - average(folds), spread(folds)
        for i, eta in enumerate(loggers.eta):
            points += _points(
                algorithm,
                OTHER,
                {"eta": np.full_like(loggers.h, eta), "h": loggers.h},
                mean[i],
                sd[i],
            )
    scale = _linear_scale(points)
    shade = _shade("eta", "η of the logger", loggers.eta, every=1)
    place: dict[str, Any] = {
        "x": _log_x("h", "hyper-parameter h", loggers.h, every=3),
        "y": alt.Y("mean:Q", title="expected regret", scale=scale, axis=alt.Axis(tickCount=5)),
    }
    layers = _shaded(place, shade, "eta", {OTHER: SOLID}, OPACITY)
    left, right = _ends(loggers.h)
    if left <= gamma_star <= right:
        low_high = np.array(scale["domain"])
        for algorithm in loggers.rewards:
            points += _points(algorithm, STAR, {"h": np.full_like(low_high, gamma_star)}, low_high)
        layers = [_lines(1.6, STAR).encode(**place, **_keyed(REGRET_KEYS)), *layers]
    return _panels("regrets", points, loggers, layers)


def _points(
    algorithm: str,
    kind: str,
    where: Mapping[str, FloatArray],
    mean: FloatArray,
    sd: FloatArray | None = None,
) -> Points:
    """Return the points of one line, rounded to five digits; with a band if deviations exist."""
    columns = {**where, "mean": mean}
    if sd is not None:
        columns |= {"low": mean - sd, "high": mean + sd}
    fixed = {"panel": _panel(algorithm), "kind": kind}
    return [
        {**fixed, **{name: _short(values[i]) for name, values in columns.items()}}
        for i in range(len(mean))
    ]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _panel(algorithm: str) -> str:
    return f"{algorithm} (h = {uses(algorithm)})"


# --- layers
def _shaded(
    place: Mapping[str, Any],
    shade: alt.Color,
    line: str,
    dashes: Mapping[str, tuple[float, ...]],
    opacity: float,
) -> list[alt.Chart]:
    """Bands below lines, light to dark by column `line`; one layer of lines per kind of dash."""
    lines = [
        _lines(1.1, kind).encode(
            **place, color=shade, strokeDash=alt.value(list(dash)), detail=f"{line}:N"
        )
        for kind, dash in dashes.items()
    ]
    # One color for all bands: with a shade of their own they would be part of the legend and make
    # it a row of dots.
    bands = _bands(opacity, *dashes).encode(
        **_between(place), fill=alt.value(BAND), detail=f"{line}:N"
    )
    return [bands, *lines]


def _lines(width: float, *kinds: str) -> alt.Chart:
    lines: alt.Chart = (
        alt.Chart().mark_line(strokeWidth=width, clip=True).transform_filter(_one_of(*kinds))
    )
    return lines


def _bands(opacity: float, *kinds: str) -> alt.Chart:
    bands: alt.Chart = (
        alt.Chart().mark_area(opacity=opacity, clip=True).transform_filter(_one_of(*kinds))
    )
    return bands


def _between(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a band lies: like the line, from one deviation below it to one above it."""
    low = place["y"].copy()
    low.shorthand = "low:Q"
    return {"x": place["x"], "y": low, "y2": "high:Q"}


def _one_of(*kinds: str) -> alt.FieldOneOfPredicate:
    return alt.FieldOneOfPredicate(field="kind", oneOf=list(kinds))


def _keyed(keys: Sequence[Key]) -> dict[str, Any]:
    """Return color and dash by the kind of a line, with one legend in words."""
    names = [key.name for key in keys]
    legend = alt.Legend(
        title=None,
        columns=min(2, len(keys)),
        symbolType="stroke",
        symbolSize=500,
        symbolStrokeWidth=1.8,
    )

    def scale(values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=names, range=list(values))

    return {
        "stroke": alt.Stroke("kind:N", scale=scale([key.color for key in keys]), legend=legend),
        "strokeDash": alt.StrokeDash(
            "kind:N", scale=scale([list(key.dash) for key in keys]), legend=legend
        ),
    }


# --- axes, scales
def _log_x(field: str, title: str, grid: FloatArray, every: int) -> alt.X:
    axis = alt.Axis(values=_ticks(grid, every), format="~g", labelExpr=_PLAIN, labelFlush=True)
    return alt.X(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(type="log", domain=_ends(grid), nice=False),
        axis=axis,
    )


def _shade(field: str, title: str, grid: FloatArray, every: int) -> alt.Color:
    """Light to dark on a logarithmic scale."""
    legend = alt.Legend(
        title=title,
        type="gradient",
        values=_ticks(grid, every),
        format="~g",
        labelExpr=_PLAIN,
        gradientLength=200,
    )
    scale = alt.Scale(type="log", domain=_ends(grid), scheme=BLUES)
    return alt.Color(f"{field}:Q", scale=scale, legend=legend)


# 1e-6 rather than 0.000001, and an ordinary hyphen: the superscripts of 10⁻⁶ are missing in common
# fonts.
_PLAIN = (
    "datum.value < 0.009 ? replace(format(datum.value, '.0e'), '−', '-') "
    ": format(datum.value, '~r')"
)


def _ends(grid: FloatArray) -> list[float]:
    """Return the first and the last value of a grid; room on both sides where they are the same."""
    low, high = float(grid[0]), float(grid[-1])
    return [_short(low), _short(high)] if low < high else [_short(low / 10.0), _short(high * 10.0)]


def _ticks(grid: FloatArray, every: int) -> list[float]:
    """Return powers of ten inside the grid, one in `every`, down from the largest; two at least."""
    low, high = np.log10(_ends(grid))
    first, last = int(np.ceil(low - 1e-6)), int(np.floor(high + 1e-6))
    powers = [float(f"1e{k}") for k in range(first, last + 1) if (last - k) % every == 0]
    return powers if len(powers) > 1 else _ends(grid)


def _linear_scale(points: Points) -> alt.Scale:
    """Return the scale shared by the panels of a row: steps of .05 around everything drawn."""
    drawn = [point[name] for point in points for name in ("mean", "low", "high") if name in point]
    low, high = (
        float(np.floor(min(drawn) / 0.05 + 1e-6)) * 0.05,
        float(np.ceil(max(drawn) / 0.05 - 1e-6)) * 0.05,
    )
    return alt.Scale(domain=[_short(low), _short(max(high, low + 0.05))], nice=False, zero=False)


# --- page
def _panels(name: str, points: Points, loggers: LoggerSet, layers: Sequence[alt.Chart]) -> Row:
    panels = [_panel(algorithm) for algorithm in loggers.rewards]
    width = int((WIDTH - LEFT - GAP * (len(panels) - 1)) / max(len(panels), 2))
    header = alt.Header(title=None, labelFontSize=FONT, labelFontWeight="bold", labelPadding=4)
    chart = alt.layer(*layers, data=alt.NamedData(name=name)).properties(width=width, height=HEIGHT)
    return Row(
        chart.facet(column=alt.Column("panel:N", sort=panels, header=header), spacing=GAP),
        name,
        points,
    )


def _page(rows: Sequence[Row], title: str, subtitle: str) -> Spec:
    """Return rows below each other, each with its own legends, below a title."""
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", offset=10)
    page = alt.vconcat(
        *(row.panels for row in rows), title=heading, spacing=18, config=plot_config()
    )
    own = page.resolve_scale(color="independent", stroke="independent", strokeDash="independent")
    # Altair would check every point against its schema, several times over.
    return {**own.to_dict(), "datasets": {row.name: row.points for row in rows}}
