"""The forest plot: estimates and intervals of policies, a row each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.evaluation import Comparison, Evaluation
from piwo.messages import argument
from piwo.plots.style import (
    BLUE,
    GREY,
    INK,
    MOST_ROWS,
    WIDTH,
    altair,
    arrow_heads,
    check_words,
    counted,
    cut,
    drawable,
    finished,
    framing,
    row_step,
    with_data,
)
from piwo.visible import confidence, number

__all__ = ["forest"]

BETTER = "certified better"
OPEN = "not certified"
NONE = "no bounds"


def forest(
    evaluations: Evaluation | Mapping[str, Evaluation] | Iterable[Evaluation],
    *,
    reward: str = "reward",
) -> Any:
    """Return the forest plot of evaluations: which policy is worth what, and how sure is that?

    The highest lower bound is first. A filled blue circle: certified better than the logging
    policy, or the baseline; a hollow one: not; a cross: no bounds. The dashed line is what that
    policy is worth. Ends of intervals beyond the axis are arrows.

    Args:
        evaluations: what `piwo.evaluate` or `piwo.compare` returned, or several evaluations made
            together.
        reward: what is earned, in words, for the axis.

    Returns:
        An Altair chart; its data have the numbers of the evaluations.

    Raises:
        UsageError: for no evaluations, for `reward` that is no text, and if altair is not
            installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> found = piwo.compare(log, {x: piwo.policies.Constant(x, log.actions) for x in "ab"})
    >>> piwo.plots.forest(found, reward="clicks").to_dict()["title"]["text"]
    'What 2 policies are worth'
    """
    alt = altair()
    check_words(reward)
    ranked = _ranked(evaluations)
    shown = ranked[:MOST_ROWS]
    first = shown[0]
    today = first.logging_value
    if first.baseline is not None:
        today = first.baseline_value
    ends = [end for one in shown for end in (one.lower, one.upper)]
    low, high = framing([today, *(one.value for one in shown)], ends)
    rows = _rows(shown, low, high)
    names = [row["policy"] for row in rows]

    verdicts = list(dict.fromkeys(row["verdict"] for row in rows))
    scale = alt.Scale(domain=[low, high], nice=True, zero=False, clamp=True)
    x_title = f"value: mean {reward} per {first.unit or 'decision'}"
    y = alt.Y("policy:N", sort=names, title=None, axis=alt.Axis(labelLimit=260, grid=False))
    legend = alt.Legend(title=None, symbolSize=90, symbolStrokeWidth=2)
    color = alt.Color("verdict:N", scale=_scale(verdicts, _COLORS), legend=legend)
    base = with_data(rows).encode(y=y)
    x = alt.X("drawn_lower:Q", title=x_title, scale=scale)
    # without a scale of their own, so that the legend is that of the points
    plain = alt.condition(alt.datum.verdict == BETTER, alt.value(BLUE), alt.value(GREY))
    bars = base.mark_rule(strokeWidth=2.5).encode(x=x, x2="drawn_upper:Q", color=plain)
    points = base.mark_point(size=75, strokeWidth=2, opacity=1.0).encode(
        x=alt.X("value:Q", scale=scale, title=x_title),
        color=color,
        fill=alt.Fill("verdict:N", scale=_scale(verdicts, _FILLS), legend=legend),
        shape=alt.Shape("verdict:N", scale=_scale(verdicts, _SHAPES), legend=legend),
    )
    layers = [bars, *arrow_heads(base, scale, plain, x_title), points]
    title = "What a policy is worth"
    if len(ranked) > 1:
        title = f"What {len(ranked)} policies are worth"
    if today is not None:
        layers.insert(0, _line(today, scale, x_title))
    chart = alt.layer(*layers).properties(width=WIDTH, height=alt.Step(row_step(len(shown))))
    return finished(chart, title, _subtitle(ranked, today), _description(ranked, today, reward))


_COLORS = {BETTER: BLUE, OPEN: GREY, NONE: GREY}
_FILLS = {BETTER: BLUE, OPEN: "white", NONE: "white"}
_SHAPES = {BETTER: "circle", OPEN: "circle", NONE: "cross"}


def _scale(verdicts: Sequence[str], looks: Mapping[str, str]) -> Any:
    return altair().Scale(domain=verdicts, range=[looks[verdict] for verdict in verdicts])


def _ranked(
    evaluations: Evaluation | Mapping[str, Evaluation] | Iterable[Evaluation],
) -> tuple[Evaluation, ...]:
    """Return the evaluations in the order of a comparison."""
    if isinstance(evaluations, Evaluation):
        return (evaluations,)
    if isinstance(evaluations, Mapping):
        evaluations = evaluations.values()
    check_kind("evaluations", evaluations, Iterable)
    listed = list(evaluations)
    if not listed or not all(isinstance(one, Evaluation) for one in listed):
        raise UsageError(
            f"{argument('evaluations')} has none, or something else; give what piwo.compare "
            "returned"
        )
    return Comparison({str(i): one for i, one in enumerate(listed)}).ranked


def _rows(shown: Sequence[Evaluation], low: float, high: float) -> list[dict[str, Any]]:
    """Return the data: the numbers of the records, and where lines end on the axis."""
    rows = []
    for name, one in zip(drawable(one.name for one in shown), shown, strict=True):
        bounded = one.lower is not None or one.upper is not None
        verdict = OPEN
        if one.certified_better:
            verdict = BETTER
        elif not bounded:
            verdict = NONE
        row: dict[str, Any] = {
            "policy": name,
            "value": one.value,
            "lower": one.lower,
            "upper": one.upper,
            "verdict": verdict,
        }
        if bounded:
            # Rewards without an upper end have an interval without one.
            row |= cut(one.lower, one.upper, low, high)
        rows.append(row)
    return rows


def _line(today: float, scale: Any, title: str) -> Any:
    alt = altair()
    line = with_data([{"today": today}]).mark_rule(strokeDash=[5, 4], color=INK)
    return line.encode(x=alt.X("today:Q", scale=scale, title=title))


def _subtitle(ranked: Sequence[Evaluation], today: float | None) -> list[str]:
    first = ranked[0]
    level = f"{confidence(first.delta)} intervals"
    if first.simultaneous > 1:
        level += " that hold together"
    lines = [f"{level}; {counted(first.rows, first.units, first.unit)}"]
    if len(ranked) > MOST_ROWS:
        lines[0] += f"; the first {MOST_ROWS} of {len(ranked)} policies"
    if today is not None:
        lines.append(f"dashed: {first.over}, {number(today)}")
    return lines


def _description(ranked: Sequence[Evaluation], today: float | None, reward: str) -> str:
    """Return what the figure says, in sentences."""
    first = ranked[0]
    better = [one.name for one in ranked if one.certified_better]
    parts = [f"Forest plot of the value, mean {reward}, of {len(ranked)} policies."]
    if first.lower is not None:
        parts.append(f"The highest lower bound has {first.name}: at least {number(first.lower)}.")
    if today is not None:
        parts.append(f"{first.over[:1].upper()}{first.over[1:]} is worth {number(today)}.")
    named = ", ".join(better[:5])
    if len(better) > 5:
        named += f" and {len(better) - 5} more"
    parts.append(f"Certified better: {named or 'none'}.")
    return " ".join(parts)
