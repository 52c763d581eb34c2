"""The figure of a regret certificate: how far below others a policy can be."""

from __future__ import annotations

from typing import Any

from piwo.certificates import RegretCertificate
from piwo.checks import check_kind
from piwo.plots.style import (
    BLUE,
    GREY,
    INK,
    MOST_ROWS,
    WIDTH,
    altair,
    check_words,
    counted,
    drawable,
    finished,
    row_step,
    with_data,
)
from piwo.visible import confidence, number

__all__ = ["regret"]

_BETTER, _OPEN = "certified at least as good", "may be worse"


def regret(certificate: RegretCertificate, *, reward: str = "reward") -> Any:
    """Return the figure of a regret certificate. How much may be lost by not running another?

    A row a comparator, the largest bound first: its value minus that of the policy is at most what
    the end of the bar says. A bound below 0 certifies that the policy is better.

    Args:
        certificate: what `piwo.regret_certificate` returned.
        reward: what is earned, in words, for the axis.

    Returns:
        An Altair chart; its data have the bounds of the certificate.

    Raises:
        UsageError: if altair is not installed.

    >>> import piwo
    >>> known = piwo.RegretCertificate("comparators", {"old": -0.02, "new": 0.3}, 0.05, "held-out")
    >>> piwo.plots.regret(known).to_dict()["description"]
    'Upper bounds on the regret. The largest is 0.3, against new.'
    """
    alt = altair()
    check_words(reward)
    check_kind("certificate", certificate, RegretCertificate)
    bounded = [(name, most) for name, most in certificate.against.items() if most is not None]
    bounded.sort(key=lambda pair: -pair[1])
    shown = bounded[:MOST_ROWS]
    rows: list[dict[str, Any]] = []
    for name, (_, most) in zip(drawable(pair[0] for pair in shown), shown, strict=True):
        sign = _BETTER if most <= 0.0 else _OPEN
        rows.append({"against": name, "regret_upper": most, "zero": 0.0, "verdict": sign})
    names = [row["against"] for row in rows]
    verdicts = list(dict.fromkeys(row["verdict"] for row in rows))
    looks = {_BETTER: BLUE, _OPEN: GREY}
    colors = alt.Scale(domain=verdicts, range=[looks[one] for one in verdicts])
    bounds = [0.0, *(row["regret_upper"] for row in rows)]
    # the numbers next to the bars take about a sixth of the width
    room = (max(bounds) - min(bounds)) / 6.0 or 1.0
    low = min(bounds) - room if min(bounds) < 0.0 else 0.0
    high = max(bounds) + room if max(bounds) > 0.0 else 0.0
    scale = alt.Scale(domain=[low, high], nice=True)
    title = f"regret at most, in {reward} per decision"
    x = alt.X("regret_upper:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y("against:N", sort=names, title="against", axis=alt.Axis(labelLimit=260))
    color = alt.Color("verdict:N", scale=colors, legend=alt.Legend(title=None))
    base = with_data(rows).encode(y=y, color=color)
    bars = base.mark_bar(size=9).encode(x=x, x2="zero:Q")
    points = base.mark_point(shape="stroke", angle=90, size=220, strokeWidth=3, opacity=1.0)
    texts = []
    for side, align, away in (("<", "right", -9), (">=", "left", 9)):
        text = base.mark_text(align=align, dx=away).encode(
            x=x, text=alt.Text("regret_upper:Q", format=".3~g"), color=alt.value(INK)
        )
        texts.append(text.transform_filter(f"datum.regret_upper {side} 0"))
    zero = with_data([{"zero": 0.0}]).mark_rule(color=INK).encode(x=alt.X("zero:Q"))
    chart = alt.layer(bars, points.encode(x=x), *texts, zero)
    chart = chart.properties(width=WIDTH, height=alt.Step(row_step(len(rows))))
    sure = f"{confidence(certificate.delta)} bounds that hold together"
    size = counted(certificate.rows, certificate.units, certificate.unit)
    subtitle = [f"{sure} ({certificate.bound}); {size}"]
    if len(bounded) < len(certificate.against):
        subtitle.append(f"no bound for {len(certificate.against) - len(bounded)}")
    description = "Upper bounds on the regret."
    if bounded:
        description += f" The largest is {number(bounded[0][1])}, against {bounded[0][0]}."
    return finished(chart, "How far below others the policy can be", subtitle, description)
