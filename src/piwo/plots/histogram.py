"""The histogram of importance weights: how many rows have which weight, and carry how much."""

from __future__ import annotations

import math
from typing import Any

from piwo.checks import check_kind
from piwo.health import Health
from piwo.plots.style import BLUE, INK, WIDTH, altair, finished, with_data
from piwo.visible import number

__all__ = ["weights"]

_MOST_BINS = 40
"""Bins drawn; those below are one."""
_MOST_TEXTS = 12
"""Bins whose bars have their share as text."""


def weights(health: Health) -> Any:
    """Return the histogram of the importance weights by powers of two. Do few rows decide?

    The upper panel has the share of the rows in each bin, the lower one their share of all weight.
    Weight far to the right, in bins of few rows, means that few rows decide.

    Args:
        health: what `piwo.check` returned, of the policy that the weights are of.

    Returns:
        An Altair chart; its data have the counts and shares of `Health.histogram`.

    Raises:
        UsageError: if altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> health = piwo.check(log, piwo.policies.Constant("a", log.actions))
    >>> "effective" in piwo.plots.weights(health).to_dict()["description"]
    True
    """
    alt = altair()
    check_kind("health", health, Health, "; piwo.check makes one")
    panels = []
    rows = _rows(health)
    order = [row["bin"] for row in rows]
    measures = {"share_of_rows": f"share of {health.counted}", "share": "of all weight"}
    for field, title in measures.items():
        last = field == "share"
        axis = alt.Axis(labelAngle=0, labels=last, ticks=last, labelOverlap=True)
        x_title = "weight w = π/μ, from this to below twice this" if last else None
        bars = (
            with_data(rows)
            .mark_bar(color=BLUE)
            .encode(
                x=alt.X("bin:O", sort=order, title=x_title, axis=axis),
                y=alt.Y(f"{field}:Q", title=title, axis=alt.Axis(format="%", tickCount=4)),
            )
        )
        shares = bars.mark_text(baseline="bottom", dy=-2, color=INK, fontSize=11)
        shares = shares.encode(text=alt.Text(f"{field}:Q", format=".1~%"))
        layers = [bars]
        if len(rows) <= _MOST_TEXTS:
            layers.append(shares)
        panels.append(alt.layer(*layers).properties(width=WIDTH, height=110))
    size = "unknown"
    if health.ess is not None:
        size = f"{health.ess:,.0f}"
    ess = f"effective sample size {size} of {health.count:,} {health.counted}"
    heaviest = health.top_share.get(10)
    subtitle = [f"{ess}; largest weight {number(health.max_weight)}"]
    if heaviest is not None:
        carried = f"{100 * heaviest:.3g} % of all weight"
        subtitle.append(f"the heaviest 10 {health.counted} carry {carried}")
    description = f"Histogram of importance weights by powers of two, {health.policy} policy: "
    description += "; ".join(subtitle) + "."
    chart = alt.vconcat(*panels, spacing=6)
    return finished(chart, f"Weights of the {health.policy} policy", subtitle, description)


def _rows(health: Health) -> list[dict[str, Any]]:
    """Return the bins, rising, with the empty ones between them; very small ones are one."""
    by_least = {one.least: one for one in health.histogram}
    positive = sorted(least for least in by_least if least > 0)
    bins = [least for least in by_least if least == 0]
    if positive:
        first, last = (round(math.log2(x)) for x in (positive[0], positive[-1]))
        bins += [2.0**power for power in range(max(first, last - _MOST_BINS), last + 1)]
    total = sum(one.rows for one in health.histogram) or 1
    rows = []
    for least in bins:
        found = by_least.get(least)
        count, share = (0, 0.0) if found is None else (found.rows, found.share)
        row = {"bin": number(least), "least": least, "rows": count, "share": share}
        rows.append({**row, "share_of_rows": count / total})
    return rows
