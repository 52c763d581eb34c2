"""The calibration of propensities: do actions come as often as the log says?"""

from __future__ import annotations

from typing import Any

from piwo.checks import check_kind
from piwo.health import Health
from piwo.health.rows import ActionRow
from piwo.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    WIDTH,
    altair,
    arrow_heads,
    cut,
    drawable,
    finished,
    framing,
    row_step,
    with_data,
)

__all__ = ["calibration"]

_SHOWN = 40
"""Actions, those with the most evidence first."""
_SUSPICIOUS = 0.01
"""p-values below this, corrected for the number of actions, are marked."""
_BARS = 2.0
"""Standard errors that a bar reaches to each side."""
_ODD, _FINE = "propensities too small (p < 0.01)", "no evidence against the propensities"


def calibration(health: Health) -> Any:
    """Return the figure of how propensities fit what was done. Can they be believed?

    If propensities were logged: for each action the mean of 1{A = a}/mu over all rows, which is 1
    in expectation, with two standard errors to each side (an arrow: the bar ends beyond the axis);
    the actions with the most evidence against theirs first, at most 40. If propensities were
    estimated: how often actions were taken against what was estimated, on rows that the fit did not
    see.

    Args:
        health: what `piwo.check` returned.

    Returns:
        An Altair chart; its data have the numbers of `Health.by_action`, or `Health.calibration`.

    Raises:
        UsageError: if altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> piwo.plots.calibration(piwo.check(log)).to_dict()["title"]["text"]
    'Propensities against what was done, by action'
    """
    check_kind("health", health, Health, "; piwo.check makes one")
    if health.calibration:
        return _of_estimates(health)
    return _of_actions(health)


def _of_actions(health: Health) -> Any:
    alt = altair()
    rows = _rows(sorted(health.by_action, key=_oddity)[:_SHOWN])
    names = [row["action"] for row in rows]
    means = [row["mean_inverse"] for row in rows]
    ends = [row[end] for row in rows for end in ("low", "high")]
    low, high = framing([1.0, *means], ends, room=3.0)
    scale = alt.Scale(domain=[low, high], zero=False, nice=True)
    title = "mean of 1{A = a}/μ over all rows, 1 in expectation (± 2 standard errors)"
    axis = alt.Axis(tickCount=6)
    rows = [{**row, **cut(row["low"], row["high"], low, high)} for row in rows]
    base = with_data(rows).encode(
        y=alt.Y("action:N", sort=names, title=None, axis=alt.Axis(labelLimit=260))
    )
    found = list(dict.fromkeys(row["evidence"] for row in rows))
    looks = {_ODD: (ORANGE, "diamond"), _FINE: (BLUE, "circle")}
    colors = alt.Scale(domain=found, range=[looks[one][0] for one in found])
    shapes = alt.Scale(domain=found, range=[looks[one][1] for one in found])
    legend = alt.Legend(title=None, symbolSize=90, columns=2)
    bars = base.mark_rule(strokeWidth=2, clip=True).encode(
        x=alt.X("drawn_lower:Q", scale=scale, title=title, axis=axis),
        x2="drawn_upper:Q",
        color=alt.Color("evidence:N", scale=colors, legend=legend),
    )
    points = base.mark_point(size=70, filled=True, opacity=1.0).encode(
        x=alt.X("mean_inverse:Q", scale=scale, title=title, axis=axis),
        color=alt.Color("evidence:N", scale=colors, legend=legend),
        shape=alt.Shape("evidence:N", scale=shapes, legend=legend),
    )
    one = with_data([{"expected": 1.0}]).mark_rule(strokeDash=[5, 4], color=INK)
    one = one.encode(x=alt.X("expected:Q", scale=scale, title=title, axis=axis))
    heads = arrow_heads(base, scale, alt.value(INK), title)
    chart = alt.layer(one, bars, *heads, points).properties(
        width=WIDTH, height=alt.Step(row_step(len(rows)))
    )
    subtitle = [f"{health.rows:,} rows, {health.actions:,} actions"]
    if len(rows) < health.actions:
        subtitle[0] += f"; the {len(rows)} with the most evidence against theirs"
    if any(row["beyond_lower"] or row["beyond_upper"] for row in rows):
        subtitle.append("arrows: bars that end beyond the figure")
    odd = [row["action"] for row in rows if row["evidence"] == _ODD]
    description = (
        "Mean of the inverse propensity for each action, which is 1 in expectation. Actions with "
        f"propensities that are too small: {', '.join(odd[:5]) or 'none'}."
    )
    return finished(chart, "Propensities against what was done, by action", subtitle, description)


def _oddity(row: ActionRow) -> tuple[float, float]:
    """Return the key that sorts actions: the strongest evidence comes first."""
    p = 1.0 if row.p is None else row.p
    return p, -abs(row.z or 0.0)


def _rows(actions: list[ActionRow]) -> list[dict[str, Any]]:
    rows = []
    for name, one in zip(drawable(row.action for row in actions), actions, strict=True):
        reach = _BARS * (one.standard_error or 0.0)
        odd = one.p is not None and one.p < _SUSPICIOUS
        row = {"action": name, "mean_inverse": one.mean_inverse, "rows": one.count, "p": one.p}
        row |= {"low": one.mean_inverse - reach, "high": one.mean_inverse + reach}
        rows.append({**row, "evidence": _ODD if odd else _FINE})
    return rows


def _of_estimates(health: Health) -> Any:
    alt = altair()
    rows = []
    for one in health.calibration:
        row = {"estimated": one.predicted, "taken": one.observed, "pairs": one.pairs, "z": one.z}
        rows.append(row)
    most = max([0.05, *(max(row["estimated"], row["taken"]) for row in rows)])
    scale = alt.Scale(domain=[0.0, most], nice=True)
    x = alt.X("estimated:Q", scale=scale, title="mean estimated propensity")
    y = alt.Y("taken:Q", scale=scale, title="share of rows in which the action was taken")
    diagonal = with_data([{"estimated": end, "taken": end} for end in (0.0, most)])
    line = diagonal.mark_line(strokeDash=[5, 4], color=GREY).encode(x=x, y=y)
    points = with_data(rows).mark_point(size=80, filled=True, color=BLUE, opacity=1.0)
    chart = alt.layer(line, points.encode(x=x, y=y)).properties(width=300, height=300)
    worst = max(abs(row["z"]) for row in rows)
    subtitle = [
        "on rows that the fit did not see; on the dashed line: as estimated",
        f"largest deviation {worst:.1f} standard errors",
    ]
    description = f"Calibration of estimated propensities: {'; '.join(subtitle)}."
    return finished(chart, "Estimated propensities against what was done", subtitle, description)
