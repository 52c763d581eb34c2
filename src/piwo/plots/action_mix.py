"""The figure of what a policy would change: shares of actions today and then, by segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.evaluation import Evaluation, Segment
from piwo.messages import argument
from piwo.plots.style import BLUE, GREY, INK, altair, drawable, finished, with_data

__all__ = ["action_mix"]

_ACTIONS = 12
"""Actions shown, those that change most; the others are one."""
_SEGMENTS = 9
"""Panels, those of the largest segments."""
_OTHERS = "all others"
_TODAY, _THEN = "today", "under the policy"


def action_mix(evaluation: Evaluation) -> Any:
    """Return the figure of the shares of actions today and under a policy. What would change?

    A panel for all rows, and one for each segment, the largest first. A hollow grey circle is the
    share in the log, a filled blue one the share that the policy would give, an estimate. Actions
    are sorted by how much they change; beyond 12, the others are one.

    Args:
        evaluation: what `piwo.evaluate` returned with `by=`.

    Returns:
        An Altair chart; its data have the shares of the segments.

    Raises:
        UsageError: for an evaluation without segments, and if altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50,
    ...     reward=[1, 0] * 50,
    ...     propensity=[0.5] * 100,
    ...     segments={"country": ["DE"] * 60 + ["FR"] * 40},
    ... )
    >>> found = piwo.evaluate(log, piwo.policies.Constant("a", log.actions), by="country")
    >>> len(piwo.plots.action_mix(found).to_dict()["concat"])
    3
    """
    alt = altair()
    check_kind("evaluation", evaluation, Evaluation, "; piwo.evaluate makes one")
    if not evaluation.segments:
        raise UsageError(
            "this evaluation has no shares of actions; evaluate the policy by a column "
            f"({argument('by')})"
        )
    segments = sorted(evaluation.segments, key=lambda one: -one.rows)
    today = _together(segments, [one.today for one in segments])
    then = _together(segments, [one.then for one in segments])
    labels = _most_changed(today, then)
    names = drawable(labels)
    panels = [_panel("all rows", sum(one.rows for one in segments), labels, names, today, then)]
    for one in segments[:_SEGMENTS]:
        panels.append(_panel(one.name, one.rows, labels, names, one.today, one.then))
    chart = alt.concat(*panels, columns=min(2, len(panels)), spacing=14)
    chart = chart.resolve_scale(x="shared", color="shared", fill="shared")
    subtitle = [f"{evaluation.name}; shares under the policy are estimates"]
    if len(segments) > _SEGMENTS:
        subtitle.append(f"the {_SEGMENTS} largest of {len(segments)} segments")
    moved = max(labels, key=lambda label: abs(then.get(label, 0.0) - today.get(label, 0.0)))
    description = (
        f"Shares of actions in the log and under {evaluation.name}. Over all rows, {moved} changes "
        f"most: from {today.get(moved, 0.0):.3g} to {then.get(moved, 0.0):.3g}."
    )
    return finished(chart, "What would be done, today and then", subtitle, description)


def _together(
    segments: Sequence[Segment], shares: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """Return the shares over all segments: the means by their rows."""
    total = sum(one.rows for one in segments)
    found: dict[str, float] = {}
    for one, share in zip(segments, shares, strict=True):
        for label, part in share.items():
            found[label] = found.get(label, 0.0) + part * one.rows / total
    return found


def _most_changed(today: Mapping[str, float], then: Mapping[str, float]) -> list[str]:
    """Return the actions that are shown, the one that changes most first."""
    labels = list(dict.fromkeys((*then, *today)))
    labels.sort(key=lambda label: -abs(then.get(label, 0.0) - today.get(label, 0.0)))
    return labels[:_ACTIONS]


def _panel(
    name: str,
    rows: int,
    labels: Sequence[str],
    names: Sequence[str],
    today: Mapping[str, float],
    then: Mapping[str, float],
) -> Any:
    alt = altair()
    points: list[dict[str, Any]] = []
    for label, shown in zip(labels, names, strict=True):
        points.append({"action": shown, "when": _TODAY, "share": today.get(label, 0.0)})
        points.append({"action": shown, "when": _THEN, "share": then.get(label, 0.0)})
    order = list(names)
    if len({*today, *then}) > len(labels):
        order.append(_OTHERS)
        for when, shares in ((_TODAY, today), (_THEN, then)):
            shown_share = sum(shares.get(label, 0.0) for label in labels)
            rest = max(0.0, sum(shares.values()) - shown_share)
            points.append({"action": _OTHERS, "when": when, "share": rest})
    x = alt.X("share:Q", title="share of decisions", axis=alt.Axis(format="%", tickCount=4))
    y = alt.Y("action:N", sort=order, title=None, axis=alt.Axis(labelLimit=150))
    base = with_data(points).encode(y=y)
    lines = base.mark_line(color=INK, strokeWidth=1.5).encode(x=x, detail="action:N")
    domain = [_TODAY, _THEN]
    edges = alt.Scale(domain=domain, range=[GREY, BLUE])
    fills = alt.Scale(domain=domain, range=["white", BLUE])
    legend = alt.Legend(title=None, symbolStrokeWidth=2, symbolSize=80)
    dots = base.mark_point(size=60, strokeWidth=2, opacity=1.0).encode(
        x=x,
        color=alt.Color("when:N", scale=edges, legend=legend),
        fill=alt.Fill("when:N", scale=fills, legend=legend),
    )
    (title,) = drawable([name])
    heading = alt.TitleParams(f"{title} ({rows:,} rows)", fontSize=12, anchor="start")
    return alt.layer(lines, dots).properties(width=220, height=alt.Step(20), title=heading)
