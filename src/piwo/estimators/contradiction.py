"""Rows that contradict what they claim: why no bound is given then, said in one place for all that gives bounds."""

from __future__ import annotations

import math

from piwo import bounds
from piwo.estimators.evaluation import SUSPICIOUS, ends_text
from piwo.visible import p_value

__all__ = ["contradiction"]


def contradiction(
    propensity_p: float, raw: bounds.Interval, improvement: float | None, reward_range: tuple[float, float]
) -> str | None:
    """Return why nothing can be believed that rests on these propensities; None where nothing speaks against them.

    Either the test of the propensities rejects them at `SUSPICIOUS`, or a bound is outside of what rewards can be, by
    chance at most as often as a bound is wrong.

    Args:
        propensity_p: p-value of "the propensities are not too small", corrected for how many policies were tried.
        raw: the interval on the unit scale as its formula gave it.
        improvement: lower bound on the improvement, likewise; None where there is none.
        reward_range: of the log.

    >>> contradiction(1.0, bounds.Interval(0.2, 0.9), 0.1, (0.0, 1.0)) is None
    True
    >>> contradiction(0.5, bounds.Interval(1.5, None), None, (0.0, 1.0))
    'at this delta the log contradicts its own propensities or its reward range (raw ends [1.5, no upper end])'
    """
    if propensity_p < SUSPICIOUS:
        return f"the logged propensities are too small for how often actions were taken ({p_value(propensity_p)})"
    low, high = reward_range
    most, span = (1.0, high - low) if math.isfinite(high) else (math.inf, 1.0)
    if not raw.contradicts(most) and (improvement is None or improvement <= 1.0):
        return None
    ends = ends_text(*(None if x is None else low + span * x for x in (raw.lower, raw.upper)))
    return f"at this delta the log contradicts its own propensities or its reward range (raw ends {ends})"
