"""The forest plot: the gain of each policy over today, with its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from piwo.decision import Units
from piwo.evaluation import Evaluation, Segment
from piwo.evaluation.gains import gain_words
from piwo.evaluation.notes import says_something
from piwo.report.axis import Axis, axis_of, signed

__all__ = ["Forest", "ForestRow", "forest_of", "segments_forest"]

_SHOWN = 25
"""Policies of the figure; all are in the table below the fold."""
_BEYOND = 0.5
"""Ends are drawn up to so many times as far from the estimates as these are from each other;"""
_ARM = 1.5
"""or up to so many times the shortest distance from an estimate to its bound."""


@dataclass(frozen=True)
class ForestRow:
    """One policy, or segment: gains in `per` decisions, and their places on the axis."""

    name: str
    note: str
    """What is said of it, such as "proved better", or why nothing is."""
    kind: str
    """better, open, worse or unproved."""
    gain: float | None
    lower: float | None
    upper: float | None
    words: str
    """The numbers as text, in the unit of the figure."""
    at: float | None = None
    """Place of the estimate in percent; None: none, or outside."""
    low: float = 0.0
    high: float = 100.0
    cut_low: bool = True
    """Whether the lower end is beyond the axis, or there is none."""
    cut_high: bool = True


@dataclass(frozen=True)
class Forest:
    """The figure."""

    rows: tuple[ForestRow, ...]
    axis: Axis
    zero: float
    """Place of no gain, in percent."""
    left_out: int = 0


def forest_of(evaluations: Sequence[Evaluation], units: Units, chosen: str) -> Forest:
    """Return the figure of gains over today.

    The axis is where the estimates lie: ends that are far away are cut, with an arrow, so that one
    wide interval does not squeeze all others.

    Args:
        evaluations: of all policies.
        units: of the gains.
        chosen: the policy that the decision names, which is always shown.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> found = piwo.evaluate(log, piwo.policies.Constant("a", log.actions))
    >>> forest_of([found], piwo.decision.Units(per=100.0), "a").rows[0].words
    'estimated +50, at least +39, at most +67'
    """
    rows = [_row(one, units) for one in evaluations]
    rows.sort(key=_order)
    shown = rows[:_SHOWN]
    shown += [row for row in rows[_SHOWN:] if row.name == chosen]
    return _placed(shown, len(rows) - len(shown))


def segments_forest(segments: Sequence[Segment], units: Units) -> Forest:
    """Return the figure of the gains in each segment.

    Args:
        segments: of one policy.
        units: of the gains.
    """
    return _placed([_segment_row(one, units) for one in segments], 0)


def _order(row: ForestRow) -> tuple[bool, float, float]:
    lower, gain = row.lower, row.gain
    if lower is None:
        lower = -math.inf
    if gain is None:
        gain = -math.inf
    return row.kind == "unproved", -lower, -gain


def _row(one: Evaluation, units: Units) -> ForestRow:
    today = one.logging_value
    if one.baseline is not None:
        today = one.baseline_value
    gain = None
    if one.value is not None and today is not None:
        gain = one.value - today
    note = ""
    if one.in_sample:
        note = "no proof: learned from these rows"
    elif one.no_interval is not None and one.improvement_lower is None:
        note = "no proof: see the notes"
    made = _made(one.name, note, (gain, one.improvement_lower, one.improvement_upper), units)
    if one.value is None or made.kind == "unproved":
        return made
    below = one.lower is not None and one.value < one.lower
    if below or (one.upper is not None and one.value > one.upper):
        return replace(made, note=f"{made.note}; the estimate is outside its interval")
    return made


def _segment_row(one: Segment, units: Units) -> ForestRow:
    today = one.logging_value
    if one.baseline_value is not None:
        today = one.baseline_value
    gain = None
    if one.value is not None and today is not None:
        gain = one.value - today
    label = "(missing)" if one.label is None else one.label
    note = f"{one.rows:,} rows"
    gains = (one.improvement_lower, one.improvement_upper)
    weak = any(why.kind in {"effective-sample", "lower-end", "vacuous"} for why in one.notes)
    if weak and not says_something(one.upper, today, gains):
        note += ", too few with this policy's actions to say much"
    return _made(label, note, (gain, *gains), units)


def _made(
    name: str, note: str, ends: tuple[float | None, float | None, float | None], units: Units
) -> ForestRow:
    gain, lower, upper = (None if x is None else units.per * x for x in ends)
    kind = "open"
    if lower is None and upper is None:
        kind = "unproved"
    elif lower is not None and lower > 0.0:
        kind = "better"
    elif upper is not None and upper < 0.0:
        kind = "worse"
    if kind != "unproved":
        note = note or gain_words(lower, upper)
    return ForestRow(name, note, kind, gain, lower, upper, _words(gain, lower, upper))


def _words(gain: float | None, lower: float | None, upper: float | None) -> str:
    """Return the numbers as text, each with the digits that its distance from the others leaves."""
    if gain is None and lower is None and upper is None:
        return "no estimate"
    center = gain if gain is not None else lower or upper or 0.0
    near = [abs(x - center) for x in (lower, upper) if x is not None and x != center]
    step = _step(min(near, default=abs(center)))
    parts = []
    if gain is not None:
        parts.append(f"estimated {signed(round(gain / step) * step, step)}")
    # Bounds are rounded away from the estimate.
    if lower is not None:
        parts.append(f"at least {signed(math.floor(lower / step + 1e-9) * step, step)}")
    if upper is not None:
        far = _step(abs(upper - center) or abs(center))
        parts.append(f"at most {signed(math.ceil(upper / far - 1e-9) * far, far)}")
    if lower is None and upper is None:
        parts.append("no bound")
    return ", ".join(parts)


def _step(width: float) -> float:
    """Return the last digit that means something: a hundredth to a tenth of the width."""
    return float(10.0 ** (math.floor(math.log10(width or 1.0)) - 1))


def _placed(rows: Sequence[ForestRow], left_out: int) -> Forest:
    axis = axis_of(*_limits(rows), signed)
    placed = [_on(axis, row) for row in rows]
    return Forest(tuple(placed), axis, axis.at(0.0), left_out)


def _limits(rows: Sequence[ForestRow]) -> tuple[float, float]:
    """Return the ends of the axis."""
    center = [0.0, *(row.gain for row in rows if row.gain is not None)]
    low, high = min(center), max(center)
    # The shortest distance from an estimate to its bound: what is worth seeing.
    arms = []
    for row in rows:
        if row.gain is not None and row.lower is not None and row.gain > row.lower:
            arms.append(row.gain - row.lower)
    reach = max(_BEYOND * (high - low), _ARM * min(arms, default=0.0))
    if reach <= 0.0:
        reach = 0.5
    ends = []
    for row in rows:
        ends += [x for x in (row.lower, row.upper) if x is not None]
    low, high = (
        max(low - reach, min([low, *ends])),
        min(high + reach, max([high, *ends])),
    )
    # some air, so that nothing lies on the border
    air = 0.04 * (high - low or 1.0)
    return low - air, high + air


def _on(axis: Axis, row: ForestRow) -> ForestRow:
    made = replace(row)
    if row.gain is not None and axis.holds(row.gain):
        made = replace(made, at=axis.at(row.gain))
    if row.lower is not None and row.lower >= axis.first:
        made = replace(made, low=axis.at(row.lower), cut_low=False)
    if row.upper is not None and row.upper <= axis.last:
        made = replace(made, high=axis.at(row.upper), cut_high=False)
    return made
