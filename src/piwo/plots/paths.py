"""Figures of bands along an axis: values by gamma, coverage by gamma, a monitor over its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.evaluation import CoverageEstimate, GammaPath, Look, Watch, WatchLook
from piwo.messages import argument
from piwo.plots.style import (
    BLUE,
    GREY,
    HEIGHT,
    INK,
    ORANGE,
    WIDTH,
    altair,
    arrow_heads,
    check_words,
    counted,
    cut,
    drawable,
    finished,
    framing,
    with_data,
)
from piwo.visible import confidence, number

__all__ = ["coverage", "gamma_path", "monitor", "watched"]

_MOST_TICKS = 8
"""Values of gamma that each have a tick."""


def gamma_path(path: GammaPath, *, reward: str = "reward") -> Any:
    """Return the figure of a policy's value against gamma. Does the estimate depend on it?

    The line is the estimate, the band the interval, the dashed line what the logging policy, or the
    baseline, is worth. The band of methods that do not depend on gamma is level.

    Args:
        path: what `piwo.evaluate` returned for a list of gamma.
        reward: what is earned, in words, for the axis.

    Returns:
        An Altair chart; its data have the numbers of the evaluations.

    Raises:
        UsageError: if altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> path = piwo.evaluate(log, piwo.policies.Constant("a", log.actions), gamma=[0.01, 0.1])
    >>> piwo.plots.gamma_path(path).to_dict()["title"]["text"]
    'Value of constant:a against γ'
    """
    check_words(reward)
    check_kind("path", path, GammaPath, "; piwo.evaluate makes one of a list of gamma")
    first = path.evaluations[0]
    rows = []
    for one in path.evaluations:
        row = {"gamma": one.gamma, "value": one.value, "lower": one.lower, "upper": one.upper}
        rows.append(row)
    today = first.logging_value
    if first.baseline is not None:
        today = first.baseline_value
    ends = [row[end] for row in rows for end in ("lower", "upper")]
    domain = framing([today, *(row["value"] for row in rows)], ends, room=3.0)
    rows = _cut_rows(rows, domain)
    alt = altair()
    axis = _gamma_axis(path.gammas)
    x = alt.X("gamma:Q", scale=_log_scale(), title="γ (how much weights are smoothed)", axis=axis)
    title = f"value: mean {reward} per {first.unit or 'decision'}"
    chart = _band(rows, x, "value", _linear(domain), title)
    if today is not None:
        chart = alt.layer(_level(today, domain, title), chart)
    size = counted(first.rows, first.units, first.unit)
    band = f"band: {path.sureness} ({first.interval}); {size}"
    subtitle = [f"line: estimate by {first.estimator}", band]
    if today is not None:
        subtitle.append(f"dashed: {first.over}, {number(today)}")
    subtitle += _said_beyond(rows)
    description = f"Value of {path.name} at {len(rows)} gamma from {number(rows[0]['gamma'])} to "
    description += f"{number(rows[-1]['gamma'])}. {'; '.join(subtitle)}."
    chart = chart.properties(width=WIDTH, height=HEIGHT)
    return finished(chart, f"Value of {path.name} against γ", subtitle, description)


def coverage(estimates: CoverageEstimate | Iterable[CoverageEstimate]) -> Any:
    """Return the figure of coverage against gamma. How hard is a policy to compete with?

    The line is the estimate of C_gamma, the band its bounds, each bound by itself at 1 - delta; the
    dotted line is the reward-free coverage. Both axes are logarithmic. A policy a panel.

    Args:
        estimates: what `piwo.evaluation.coverage` returned, at one gamma or at several, of one
            policy or of several.

    Returns:
        An Altair chart; its data have the numbers of the estimates.

    Raises:
        UsageError: for no estimates, and if altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> policy = piwo.policies.Constant("a", log.actions)
    >>> found = [piwo.evaluation.coverage(log, policy, gamma=x) for x in (0.05, 0.1)]
    >>> len(piwo.plots.coverage(found).to_dict()["hconcat"])
    1
    """
    alt = altair()
    if isinstance(estimates, CoverageEstimate):
        estimates = (estimates,)
    found = sorted(_listed("estimates", estimates, CoverageEstimate), key=lambda one: one.gamma)
    by_name: dict[str, list[CoverageEstimate]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    numbers = [x for one in found for x in (one.coverage, one.coverage_lower) if x is not None]
    # Ratios matter, but a bound of 0 has no place on a logarithmic axis.
    scale = alt.Scale(zero=True)
    if min(numbers, default=0.0) > 0.0:
        scale = _log_scale()
    panels = []
    for name, shown in zip(by_name, drawable(by_name), strict=True):
        rows = _cut_rows([_coverage_row(one) for one in by_name[name]], None)
        axis = _gamma_axis([one.gamma for one in by_name[name]])
        x = alt.X("gamma:Q", scale=_log_scale(), title="γ", axis=axis)
        title = "coverage C(γ)"
        panel = _band(rows, x, "coverage", scale, title)
        free = with_data(rows).mark_line(strokeDash=[1.5, 2.5], color=GREY, strokeWidth=2)
        y = alt.Y("reward_free:Q", scale=scale, title=title)
        panel = alt.layer(panel, free.encode(x=x, y=y))
        panels.append(panel.properties(width=240, height=220, title=shown))
    first = found[0]
    level = f"{confidence(first.delta)}"
    subtitle = [
        f"line: estimate; band: bounds, each by itself at {level}; {first.rows:,} rows",
        "dotted: reward-free coverage",
    ]
    description = f"Coverage against gamma of {', '.join(by_name)}. {'; '.join(subtitle)}."
    chart = alt.hconcat(*panels).resolve_scale(y="shared")
    return finished(chart, "Coverage of policies in the log", subtitle, description)


def _coverage_row(one: CoverageEstimate) -> dict[str, Any]:
    return {
        "gamma": one.gamma,
        "coverage": one.coverage,
        "lower": one.coverage_lower,
        "upper": one.coverage_upper,
        "reward_free": one.reward_free,
    }


def monitor(looks: Iterable[Look], *, reward: str = "reward") -> Any:
    """Return the figure of what a monitor said at each look: the band as rows came in.

    The line is the estimate, the band holds at all looks together. The dashed line is the mean
    reward of the logging policy. A vertical line marks the first look at which the policy is
    certified better.

    Args:
        looks: `Monitor.look()` at each look, of one policy.
        reward: what is earned, in words, for the axis.

    Returns:
        An Altair chart; its data have the numbers of the looks.

    Raises:
        UsageError: for no looks, and if altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> today = piwo.Monitor(piwo.policies.Constant("a", log.actions), horizon="universal")
    >>> looks = [today.update(log).look()]
    >>> piwo.plots.monitor(looks).to_dict()["title"]["text"]
    'Value of constant:a as rows come in'
    """
    check_words(reward)
    found = sorted(_listed("looks", looks, Look), key=lambda one: one.rows)
    chart, answer, beyond = _looks_of(found, reward)
    last = found[-1]
    level = f"{confidence(last.delta)}"
    together = f"at all looks together ({last.interval}, horizon {last.horizon})"
    subtitle = [
        f"line: estimate; band: {level}, {together}",
        f"dashed: the logging policy; {answer}",
        *beyond,
    ]
    description = f"Value of {last.name} at {len(found)} looks. {'; '.join(subtitle)}."
    if last.lower is not None and last.upper is not None:
        description += f" At the last look, between {number(last.lower)} and {number(last.upper)}."
    return finished(chart, f"Value of {last.name} as rows come in", subtitle, description)


def watched(watch: Watch | Iterable[WatchLook], *, reward: str = "reward") -> Any:
    """Return the figure of a watch: that of `monitor` for each of its policies, a panel each.

    Args:
        watch: with at least one look; or its looks, as `WatchHistory.load` reads
            them from a file.
        reward: what is earned, in words, for the axes.

    Raises:
        UsageError: for a watch without looks, and if altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> both = {x: piwo.policies.Constant(x, ["a", "b"]) for x in "ab"}
    >>> watch = piwo.Watch.start(both).update(log)
    >>> len(watched(watch).to_dict()["vconcat"]), len(watched(watch.looks).to_dict()["vconcat"])
    (2, 2)
    """
    alt = altair()
    check_words(reward)
    if isinstance(watch, Watch):
        # It refuses a watch without looks.
        headline, looks, delta = watch.headline(), watch.looks, watch.delta
    else:
        looks = tuple(_listed("watch", watch, WatchLook))
        headline = f"{looks[-1].answer}: the look of {looks[-1].date}"
        # each of k policies has delta / k
        delta = sum(one.delta for one in looks[-1].policies)
    names = [one.name for one in looks[-1].policies]
    panels, answers = [], []
    beyond: list[str] = []
    for i, shown in enumerate(drawable(names)):
        chart, answer, cuts = _looks_of([one.policies[i] for one in looks], reward)
        # aside from the text above the frame
        title = alt.TitleParams(shown, subtitle=answer, anchor="start", fontSize=12, offset=16)
        panels.append(chart.properties(title=title))
        answers.append(f"{names[i]}: {answer}.")
        beyond = beyond or cuts
    level = f"{confidence(delta)}"
    subtitle = [
        f"line: estimate; band: {level}, of all policies at all looks together",
        "dashed: the logging policy",
        *beyond,
    ]
    description = f"Value of each policy at {len(looks)} looks; {'; '.join(subtitle)}. "
    description += f"{headline}. {' '.join(answers)}"
    return finished(alt.vconcat(*panels), "Values as rows come in", subtitle, description)


def _looks_of(found: Sequence[Look], reward: str) -> tuple[Any, str, list[str]]:
    """Return the chart of looks at one policy, when it was certified, and what arrows mean."""
    alt = altair()
    rows = []
    for one in found:
        row = {"rows": one.rows, "value": one.value, "lower": one.lower, "upper": one.upper}
        gain = one.improvement_lower
        better = gain is not None and gain > 0
        rows.append({**row, "logging_value": one.logging_value, "better": better})
    ends = [row[end] for row in rows for end in ("lower", "upper")]
    centers = [row[name] for row in rows for name in ("value", "logging_value")]
    domain = framing(centers, ends, room=2.0)
    rows = _cut_rows(rows, domain)
    x = alt.X("rows:Q", title="rows so far", axis=alt.Axis(format=",.0f", tickCount=5))
    title = f"value: mean {reward} per decision"
    y = alt.Y("logging_value:Q", title=title, scale=_linear(domain))
    logging = with_data(rows).mark_line(strokeDash=[5, 4], color=INK, strokeWidth=1.5)
    band = _band(rows, x, "value", _linear(domain), title)
    layers = [logging.encode(x=x, y=y), band]
    first_better = next((row["rows"] for row in rows if row["better"]), None)
    answer = "not certified better so far"
    if first_better is not None:
        answer = f"certified better from {first_better:,} rows on"
        mark = with_data([{"rows": first_better, "text": "certified better"}]).encode(x=x)
        layers.append(mark.mark_rule(color=ORANGE, strokeWidth=2))
        # above the frame, where it hides nothing
        label = mark.mark_text(color=ORANGE, fontWeight="bold", baseline="bottom")
        layers.append(label.encode(text="text:N", y=alt.value(-3)))
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return chart, answer, _said_beyond(rows)


def _said_beyond(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return what arrows mean, if a band has any."""
    for row in rows:
        if row["beyond_lower"] or row["beyond_upper"]:
            return ["arrows: ends of the band beyond the figure"]
    return []


def _cut_rows(
    rows: Sequence[dict[str, Any]], domain: Sequence[float] | None
) -> list[dict[str, Any]]:
    """Return rows with where their intervals are drawn; those without any have no place.

    Args:
        rows: with `lower` and `upper`.
        domain: the ends of the axis; None: all are on it.
    """
    made = []
    for row in rows:
        lower, upper = row["lower"], row["upper"]
        drawn: dict[str, Any] = {"drawn_lower": lower, "drawn_upper": upper}
        drawn |= {"beyond_lower": False, "beyond_upper": False}
        if domain is not None and (lower is not None or upper is not None):
            drawn = cut(lower, upper, domain[0], domain[1])
        made.append({**row, **drawn})
    return made


def _band(
    rows: Sequence[dict[str, Any]],
    x: Any,
    center: str,
    scale: Any,
    title: str,
) -> Any:
    """Return a line with points in a band, of `_cut_rows`; one row has an interval."""
    alt = altair()
    base = with_data(rows).encode(x=x)
    lower = alt.Y("drawn_lower:Q", scale=scale, title=title)
    if len(rows) > 1:
        band = base.mark_area(color=BLUE, opacity=0.18, clip=True)
    else:
        band = base.mark_rule(color=BLUE, strokeWidth=2.5, clip=True)
    edges = []
    for end in ("lower", "upper"):
        edge = base.mark_line(color=BLUE, strokeWidth=1, opacity=0.6, clip=True)
        edges.append(edge.encode(y=alt.Y(f"drawn_{end}:Q", scale=scale, title=title)))
    y = alt.Y(f"{center}:Q", scale=scale, title=title)
    line = base.mark_line(color=BLUE, strokeWidth=2, clip=True).encode(y=y)
    points = base.mark_point(filled=True, color=BLUE, size=36, opacity=1.0).encode(y=y)
    arrows = arrow_heads(base, scale, alt.value(BLUE), title, upright=True)
    return alt.layer(band.encode(y=lower, y2="drawn_upper:Q"), *edges, *arrows, line, points)


def _level(today: float, domain: Sequence[float], title: str) -> Any:
    alt = altair()
    line = with_data([{"today": today}]).mark_rule(strokeDash=[5, 4], color=INK)
    return line.encode(y=alt.Y("today:Q", title=title, scale=_linear(domain)))


def _gamma_axis(gammas: Sequence[float]) -> Any:
    """Return the axis of gamma: a tick at each value, or at powers of ten if there are many."""
    ticks = sorted(set(gammas))
    if len(ticks) > _MOST_TICKS:
        first, last = math.ceil(math.log10(ticks[0])), math.floor(math.log10(ticks[-1]))
        powers = [10.0**power for power in range(first, last + 1)]
        ticks = powers or [ticks[0], ticks[-1]]
    return altair().Axis(format="~g", values=ticks, labelOverlap=True)


def _log_scale() -> Any:
    return altair().Scale(type="log", nice=False)


def _linear(domain: Sequence[float]) -> Any:
    return altair().Scale(domain=list(domain), zero=False, nice=True)


def _listed(name: str, given: Any, kind: type) -> list[Any]:
    """Return what was given as a list of at least one record of a kind."""
    check_kind(name, given, Iterable)
    listed = list(given)
    if not listed or not all(isinstance(one, kind) for one in listed):
        raise UsageError(
            f"{argument(name)} has none, or something else; expected at least one {kind.__name__}"
        )
    return listed
